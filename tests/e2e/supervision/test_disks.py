"""Disks fill up or become read-only under a live run: told by name, then exact without people."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.record import record
from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from sources.planning.context import PipelineContext
from tests.e2e.case import Case, start_live, windows, wrong
from tests.e2e.supervision.faults import Look, late, seconds_until_well, supervise, watch
from tests.services.slow_disk import SlowDisk
from tests.services.small_disk import SmallDisk, small_disk

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.crash]
COMMAND = "python -m pytest tests/e2e/supervision/test_disks.py"
FAULT_S = 40.0


class Disk(NamedTuple):
    """A disk that a run writes.

    Attributes:
        folder: Its name in the folder of the case.
        size: Its size, as ``mount`` takes it.
        holds: What is on it, as messages say.
    """

    folder: str
    size: str
    holds: str


DISKS = {
    "state": Disk("state", "64m", "state folder"),
    "table": Disk("lake", "64m", "target folder"),
    "temporary files": Disk("tmp", "256m", "folder for temporary files"),
}


class Disks(NamedTuple):
    """The disks of a run, some of them small; all of them may be slow."""

    small: dict[str, SmallDisk]
    slow: SlowDisk


class Fault(NamedTuple):
    """A fault of a disk.

    Attributes:
        of: The disk.
        name: What it is called.
        begin: Lets it begin.
        end: Lets it end.
    """

    of: str
    name: str
    begin: Callable[[Disks], None]
    end: Callable[[Disks], None]


def full(of: str) -> Fault:
    return Fault(
        of, "full", lambda disks: disks.small[of].fill(), lambda disks: disks.small[of].free()
    )


def read_only(of: str) -> Fault:
    return Fault(
        of,
        "read-only",
        lambda disks: disks.small[of].remount("ro"),
        lambda disks: disks.small[of].remount("rw"),
    )


FAULTS = [
    *map(full, DISKS),
    read_only("table"),
    Fault("all", "slow", lambda disks: disks.slow.slow_down(), lambda disks: disks.slow.recover()),
]


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disks]:
    with ExitStack() as stack:
        small = {
            name: stack.enter_context(small_disk(tmp_path / disk.folder, disk.size))
            for name, disk in DISKS.items()
        }
        monkeypatch.setenv("TMPDIR", str(small["temporary files"].folder))
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Disks(small, SlowDisk(tmp_path, tmp_path, monkeypatch))


@pytest.mark.timeout(3600)
def test_whichever_disk_can_not_be_written_is_named_and_the_run_goes_on_once_it_can(
    tmp_path: Path, servers: str, disks: Disks
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1000))

    def edit(document: dict[str, Any]) -> None:
        windows(document)
        document["sink"]["path"] = "lake/out"
        restarts = {"backoff": "0 s", "limit": 2 * len(FAULTS), "loop": 2 * len(FAULTS)}
        document["supervision"] = {"restarts": restarts}

    loaded = case.pipeline(edit)
    told: list[dict[str, Any]] = []

    def seen() -> Look:
        return supervise(loaded)

    try:
        start_live(loaded)
        wait_until_caught_up(PipelineContext.require(loaded))
        for number, fault in enumerate(FAULTS):
            before = seen().restarts
            fault.begin(disks)
            case.produce(range(1000 + 100 * number, 1100 + 100 * number))
            try:
                found = watch(seen, names(disks, fault), FAULT_S, is_named=fault.of in DISKS)
            finally:
                fault.end(disks)
            told.append({"disk": fault.of, "fault": fault.name, **found})
            told[-1]["caught up after, s"] = seconds_until_well(seen)
            told[-1]["restarts"] = seen().restarts - before
            record("disks", {"faults": told}, COMMAND)
    finally:
        stopping.stop(loaded)
    report = audit(loaded)
    assert report.expected > 0
    assert wrong(report) == {}
    assert list(late(told)) == []


def names(disks: Disks, fault: Fault) -> Callable[[str], bool]:
    """Whether a reason names the disk of a fault, and what is on it."""
    if fault.of not in DISKS:
        return lambda _: False
    disk = f"{DISKS[fault.of].holds} {disks.small[fault.of].folder}"
    return lambda reason: disk in reason
