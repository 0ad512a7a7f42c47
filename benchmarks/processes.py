"""Processes of drivers: their groups, their end, and what memory and CPU time they use."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path

from hybrid_extensions.shared_drivers.requests import folder_of, pid_of
from orchestration.operations import stopping
from sources.config.loader import LoadedPipeline
from spark_jobs.launch.launch_record import last_launch

_TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER = 36


def group_of(loaded: LoadedPipeline) -> int | None:
    """Return the process group of a pipeline's driver; None if there is none."""
    if loaded.pipeline.spark.driver == "shared":
        pid = _shared_driver(loaded)
        return None if pid is None else os.getpgid(pid)
    generation = loaded.open_generation(create=False)
    launch = None if generation is None else last_launch(generation)
    return None if launch is None else launch.group


def groups_of(pipelines: Iterable[LoadedPipeline]) -> set[int]:
    """Return the process groups of the drivers of pipelines; those that share one have one."""
    return {group for each in pipelines if (group := group_of(each)) is not None}


def end_all(pipelines: Iterable[LoadedPipeline]) -> None:
    """Stop all runs of pipelines, and end the drivers that they share."""
    shared = set()
    for loaded in pipelines:
        if loaded.open_generation(create=False) is not None:
            stopping.stop(loaded)
        if loaded.pipeline.spark.driver == "shared":
            shared.add(_shared_driver(loaded))
    for pid in shared:
        if pid is not None:
            os.kill(pid, signal.SIGTERM)


def processes_of(groups: Set[int]) -> list[int]:
    """Return the ids of the processes of process groups, with all that descend from them.

    Spark's daemon of Python workers (``pyspark/daemon.py``) makes a group of its own.
    """
    members = {pid for pid, fields in _every_process() if int(fields[2]) in groups}
    return sorted(_with_descendants(members))


def cpu_s(groups: Set[int]) -> float:
    """Return the CPU time of all :func:`processes_of` groups, as :func:`cpu_s_of` has it."""
    return cpu_s_of(processes_of(groups))


def cpu_s_of(pids: Iterable[int]) -> float:
    """Return the CPU time of processes, in seconds, with that of children that have ended."""
    wanted = set(pids)
    fields = [fields for pid, fields in _every_process() if pid in wanted]
    return sum(int(each) for found in fields for each in found[11:15]) / _TICKS


def memory_mb(groups: Set[int]) -> int:
    """Return the memory of all :func:`processes_of` groups, as :func:`memory_mb_of` has it."""
    return memory_mb_of(processes_of(groups))


def memory_mb_of(pids: Iterable[int]) -> int:
    """Return the memory of processes, in MB; pages that they share count once (PSS)."""
    return round(sum(map(_pss_kb, pids)) / 1024)


def adopt_orphans() -> None:
    """Become the parent of descendants that outlive theirs, so that their CPU time is not lost.

    Those that end are zombies, whose time is still there, until this process waits for them.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def processes_under(pid: int) -> set[int]:
    """Return the ids of a process and all its descendants, of whatever process group."""
    return _with_descendants({pid})


def _with_descendants(pids: Set[int]) -> set[int]:
    """Return processes and all that descend from them."""
    parents = {each: int(fields[1]) for each, fields in _every_process()}
    found: set[int] = set()
    new = set(pids)
    while new:
        found |= new
        new = {each for each, parent in parents.items() if parent in new} - found
    return found


def _shared_driver(loaded: LoadedPipeline) -> int | None:
    folder = folder_of(loaded.pipeline.spark.group)
    return pid_of(folder) if folder.exists() else None


def _every_process() -> Iterator[tuple[int, list[str]]]:
    """Yield each process with the fields of its ``stat`` after the name of the program."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with _gone():
            yield int(path.parent.name), path.read_text().rpartition(")")[2].split()


def _pss_kb(pid: int) -> int:
    """Return the memory of a process, of which shared pages count in part."""
    with _gone():
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


@contextmanager
def _gone() -> Iterator[None]:
    """Ignore that a process has ended in the meantime."""
    try:
        yield
    except (FileNotFoundError, ProcessLookupError):
        return
