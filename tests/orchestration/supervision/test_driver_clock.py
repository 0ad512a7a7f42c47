"""A live run is judged rightly whatever the clocks of its driver and of the supervision say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestration.supervision.rules.driver_clock import DriverClock
from orchestration.supervision.watch_memory import Watch, read_watch, write_watch
from sources.storage.folder import Folder
from spark_jobs.run_state.heartbeat import Heartbeat

BEAT, LOOK, SILENT = 10_000, 45_000, 60_000
BEGIN = 1_700_000_000_000


def beat_at(at_ms: int, **fields: Any) -> Heartbeat:
    said = {
        "launch_id": "x",
        "pid": 1,
        "host": "worker",
        "source": "live",
        "phase": "unbounded",
        "state": "running",
    }
    return Heartbeat.model_validate({**said, "at_ms": at_ms, **fields})


def ages(ahead_ms: int, ends_ms: int, looks: int) -> list[int]:
    """The age of the last heartbeat at each look, in ms, by what is known of the driver's clock."""
    clock, found = DriverClock(), list[int]()
    for look in range(1, looks + 1):
        true_ms = look * LOOK
        written_ms = min(true_ms, ends_ms) // BEAT * BEAT
        beat, now_ms = beat_at(BEGIN + written_ms + ahead_ms), BEGIN + true_ms
        clock = clock.at(beat, now_ms, SILENT)
        found.append(now_ms - clock.translated(beat).at_ms)
    return found


@given(st.integers(-7_200_000, 7_200_000), st.integers(2, 12))
def test_a_driver_that_writes_is_not_silent_and_one_that_does_not_is(
    ahead_ms: int, alive: int
) -> None:
    found = ages(ahead_ms, alive * LOOK, alive + 6)
    # A clock that is behind is told at the second look.
    assert all(age < SILENT for age in found[1:alive])
    assert all(age >= SILENT for age in found[alive + 3 :])


def test_clocks_that_agree_are_believed_from_the_first_look_on() -> None:
    clock = DriverClock().at(beat_at(BEGIN), BEGIN + SILENT - 1, SILENT)
    assert clock == DriverClock()
    silent = clock.at(beat_at(BEGIN), BEGIN + SILENT, SILENT)
    assert (silent.ahead_ms, silent.doubted_ms) == (0, BEGIN)
    assert silent.at(beat_at(BEGIN), BEGIN + 2 * SILENT, SILENT) == silent
    assert silent.translated(beat_at(BEGIN)).at_ms == BEGIN


def test_all_times_of_a_heartbeat_are_those_of_the_look() -> None:
    times = {"committed_at_ms": 2_000, "advanced_at_ms": 3_000, "listing_due_ms": 9_000}
    translated = DriverClock(ahead_ms=-500).translated(beat_at(4_000, **times))
    assert (translated.at_ms, translated.committed_at_ms) == (4_500, 2_500)
    assert (translated.advanced_at_ms, translated.worked_at_ms) == (3_500, None)
    assert translated.listing_due_ms == 9_500


def test_what_is_known_of_a_clock_outlives_a_request(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    write_watch(folder, Watch(requested_ms=1, ahead_ms=-3_600_000, doubted_ms=7))
    assert read_watch(folder, 1).ahead_ms == -3_600_000
    later = read_watch(folder, 2)
    assert (later.ahead_ms, later.doubted_ms) == (-3_600_000, None)
