"""Forecast of a run: its rate over all launches, and the time left by its last five minutes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from spark_jobs.run_state.progress_log import ProgressLog, Sample

_WINDOW_MS = 300_000
"""Period that a forecast of a run is based on; older samples say little about its present rate."""


def rate(log: ProgressLog) -> float | None:
    """Return the rate at which a source was read, in units per second, over all launches.

    Time between two launches does not count.

    Returns:
        None if the log has no two samples of one launch with progress between them.
    """
    done, spent_ms = 0, 0
    for before, after in _pairs(log.samples):
        done += after.done - before.done
        spent_ms += after.at_ms - before.at_ms
    return done / spent_ms * 1000 if done > 0 and spent_ms > 0 else None


def eta_s(log: ProgressLog | None) -> float | None:
    """Return the remaining seconds of a source at the rate of its last five minutes; or None.

    Args:
        log: The source's progress log; only its last launch counts. None if there is no log.

    Returns:
        0 if nothing is left; None if the remaining amount does not decrease, or is unknown.
    """
    if log is None or not log.samples:
        return None
    last = log.samples[-1]
    recent = [
        each
        for each in log.samples
        if each.launch_id == last.launch_id
        and each.left is not None
        and last.at_ms - each.at_ms <= _WINDOW_MS
    ]
    if last.left == 0:
        return 0.0
    if last.left is None or recent[0].left is None:
        return None
    gained, spent_ms = recent[0].left - last.left, last.at_ms - recent[0].at_ms
    return last.left * spent_ms / gained / 1000 if gained > 0 and spent_ms > 0 else None


def _pairs(samples: list[Sample]) -> Iterator[tuple[Sample, Sample]]:
    """Yield each sample together with the next one of the same launch."""
    for before, after in pairwise(samples):
        if before.launch_id == after.launch_id:
            yield before, after
