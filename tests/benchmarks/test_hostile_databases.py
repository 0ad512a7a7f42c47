"""When a hostile run kills, and for how long it waits for what it has killed."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks import hostile_databases
from benchmarks.hostile_databases import _FAILURES, _SlowReader, _SpreadKiller, _until_done
from examples.killer import Killed
from sources.errors import RunError
from tests.services.processes import wait_for


class _Counting(_SpreadKiller):
    """Kills nothing."""

    def _kill_driver(self) -> None:
        self.done.drivers += 1

    def _crash(self) -> None:
        self.done.crashes += 1


def test_kills_go_on_as_chunks_are_read_and_half_are_left_for_the_whole_table() -> None:
    reader = _SlowReader(1, 0.0)
    killer = _Counting(reader, None, [], 1, Killed(6, 6), (0.0, 0.01))
    killer.start()
    for share, kills in ((0.0, 1), (0.5, 4), (1.0, 6)):
        reader.share = share
        wait_for(partial(_has_killed, killer, kills), lambda: str(killer.done), 60)
    killer.table_is_whole()
    killer.finish()
    assert killer.before is not None
    assert (killer.before.all, killer.done.all) == (6, 12)


def _has_killed(killer: _Counting, kills: int) -> bool:
    return killer.done.all == kills


@pytest.mark.parametrize(("patience_s", "ends"), [(3600.0, True), (0.0, False)])
def test_what_fails_at_once_while_a_driver_starts_is_tried_for_long_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, patience_s: float, ends: bool
) -> None:
    monkeypatch.setattr(hostile_databases, "_POLL_S", 0.0)
    left = iter(range(_FAILURES * 2))

    def fails_until_the_driver_is_up() -> str:
        if next(left, None) is not None:
            message = "The live run has ended."
            raise RunError(message, "Start it again.")
        return "done"

    if ends:
        assert _until_done(fails_until_the_driver_is_up, patience_s) == "done"
    else:
        with pytest.raises(RunError):
            _until_done(fails_until_the_driver_is_up, patience_s)
