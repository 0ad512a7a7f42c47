"""Delay of a live run in time: whether it catches up, and how long that takes.

Taken from what its drivers have recorded, not from record timestamps: those are event times in most
topics, and say nothing about how long a record has been waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestration.progress.forecast import eta_s
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.progress_log import ProgressLog


@dataclass(frozen=True)
class Behind:
    """Delay of a live run behind its input, by which it has to catch up.

    Attributes:
        waiting_ms: How long the first input that is not committed has at least been waiting, in ms:
            since a driver first saw it.
        left_s: Seconds until nothing waits, at the present rate; None if unknown, or if what waits
            does not become less.
        is_less: Whether less waits now than ``supervision.late_after`` ago; None if this launch has
            not run for that long.
    """

    waiting_ms: int
    left_s: float | None
    is_less: bool | None


def find_behind(
    log: ProgressLog | None,
    beat: Heartbeat | None,
    lag: int | None,
    since_ms: int | None,
    now_ms: int,
    late_ms: int,
) -> Behind | None:
    """Return the delay of a live run behind its input. A pure function.

    Input is counted over all partitions or files together, in reading order.

    Args:
        log: Samples of the run's progress, over all launches of the generation; None if there are
            none.
        beat: The run's latest heartbeat; None if there is none.
        lag: Records or splits that are not committed yet; None if unknown.
        since_ms: Since when input waits while nothing is committed, in ms since 1970; None if none
            does.
        now_ms: The present, in ms since 1970.
        late_ms: ``supervision.late_after`` in ms.

    Returns:
        None if no input waits, or that is unknown.
    """
    if not lag or log is None or not log.samples or beat is None:
        return None
    last = log.samples[-1]
    seen = [
        each.at_ms
        for each in log.samples
        if each.left is not None and each.done + each.left > last.done
    ]
    first_ms = min([*seen, now_ms if since_ms is None else since_ms])
    earlier = [
        each.left
        for each in log.samples
        if each.launch_id == last.launch_id
        and each.left is not None
        and each.at_ms <= now_ms - late_ms
    ]
    # 0: the driver had read all that it saw, so what waits now has just arrived.
    left = None if last.left == 0 else eta_s(log)
    if left is None and last.left != 0 and log.unit == "records" and beat.rows_per_s:
        left = lag / beat.rows_per_s
    return Behind(
        waiting_ms=now_ms - first_ms,
        left_s=left,
        is_less=lag < earlier[-1] if earlier else None,
    )
