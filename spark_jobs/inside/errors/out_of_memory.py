"""Out of memory: failures of a JVM that lacked it, by `OutOfMemoryError` in what it printed."""

from __future__ import annotations

import re

from sources.errors import ErrorReport

_SAID = re.compile(r"java\.lang\.OutOfMemoryError(?:: ([^\n]{1,80}))?")
_HINT = (
    "Raise `spark.driver_memory`, or `spark.executor.memory` below `spark.conf` if an executor of "
    "a cluster needed more; or let a micro-batch hold less: `batch` of files, the rate of a topic. "
    "The supervision starts the run again, with what is declared by then; without it, run `hybrid "
    "resume P`. It resumes after its last commit. `hybrid logs P` (`--previous` once the run was "
    "started again) shows where the memory was needed."
)


def out_of_memory(text: str) -> ErrorReport | None:
    """Return the report of a run whose JVM ran out of memory; None if a text does not say so.

    It is transient, as it may have needed the memory for what else it did at that time. Where a
    text says so several times, the last reason is told.

    Args:
        text: What Spark says of a failure, or the last lines that a JVM printed before it ended.
    """
    said = list(_SAID.finditer(text))
    if not said:
        return None
    reason = (said[-1][1] or "").strip().rstrip(".")
    message = f"A Spark process (JVM) of this run ran out of memory{reason and f': {reason}'}."
    return ErrorReport(kind="spark", message=message, hint=_HINT, transient=True)
