"""What processes use: memory and CPU time of the process groups of drivers, read from ``/proc``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path

from sources.config.loader import LoadedPipeline
from spark_jobs.launch.record import last_launch
from spark_jobs.launch.shared_socket import folder_of, pid_of

_TICKS = os.sysconf("SC_CLK_TCK")


def groups_of(pipelines: Iterable[LoadedPipeline]) -> set[int]:
    """Return the process groups of the drivers of pipelines; those that share one have one.

    Args:
        pipelines: With a generation that was launched.
    """
    found: set[int | None] = set()
    for loaded in pipelines:
        spark = loaded.pipeline.spark
        if spark.driver == "shared":
            pid = pid_of(folder_of(spark.group))
            found.add(None if pid is None else os.getpgid(pid))
        elif (launch := last_launch(loaded.require_generation())) is not None:
            found.add(launch.group)
    return {group for group in found if group is not None}


def processes_of(groups: Set[int]) -> list[int]:
    """Return the ids of the processes of process groups."""
    return [pid for pid, fields in _every_process() if int(fields[2]) in groups]


def cpu_s(groups: Set[int]) -> float:
    """Return the CPU time of process groups, in seconds, with that of children that have ended."""
    fields = [fields for _, fields in _every_process() if int(fields[2]) in groups]
    return sum(int(each) for found in fields for each in found[11:15]) / _TICKS


def memory_mb(groups: Set[int]) -> int:
    """Return the memory of process groups, in MB; pages that processes share count once (PSS)."""
    return round(sum(map(_pss_kb, processes_of(groups))) / 1024)


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
