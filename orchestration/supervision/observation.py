"""Observations of a live run, before they are judged; since when input waits for a commit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestration.backlog import RECORDS
from orchestration.capture.silent_database import SilentDatabase
from orchestration.capture.slot_state import SlotSeen
from orchestration.supervision.late_row_findings import LateSeen
from orchestration.supervision.rules.catching_up import Behind
from sources.common.counting import Noun
from sources.errors import ErrorReport
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.requested_state import RequestedState

SPLITS = Noun("split", "splits")
"""What waits in a folder that a live run reads; in topics, records do."""


@dataclass(frozen=True)
class Seen:
    """Observations of a live run that was requested. Times are in ms since 1970.

    Attributes:
        pipeline: Name of the pipeline.
        requested: What people last requested: that it runs, or a pause or stop.
        is_alive: Whether a launch or a driver of it is there, or its cluster does not answer.
        launched_ms: When its last launch was made; None if none was.
        beat: The last heartbeat of that launch; None if there is none yet.
        ended: How a driver on a cluster ended, as the cluster reports it; None if it runs, was
            local, or the cluster gives no reason.
        log: Its log on the machine that looks, whether or not it is there; None while it runs.
        refused: Error for which the last restart launched nothing; None if it launched a run, or
            none was tried.
        lag: Records or splits that are not committed yet; None if unknown.
        unit: What ``lag`` counts.
        behind_since_ms: Since when input waits while nothing is committed; None if none does.
        lag_error: Why the lag is unknown; None if it is known, or was not reported yet.
        lag_unknown_since_ms: Since when it is; None if it is known.
        restarts: Number of restarts within the window.
        last_failure: Why it was last restarted; None if it was not.
        gave_up: Whether the limit of restarts was reached, so that none follows.
        obstacle: Why a folder of this machine that it writes can't be written, such as a full disk;
            None if nothing is known.
        slot: The replication slot that its changes come through; None if none is declared.
        silent: Captured database that does not answer, of which no slot or connector is declared;
            None if there is none.
        behind: How far it is behind its input; None if no input waits, or that is unknown.
        late: Rows dropped behind the watermark; None if the query has no watermark.
        wrong_rows: Rows of a mirror that are stale or missing, as a change of theirs could not be
            read; None if such changes are not left out.
        is_replaced: Whether it is of a generation that another one has replaced, so that it can't
            be resumed.
    """

    pipeline: str
    requested: RequestedState
    is_alive: bool
    launched_ms: int | None
    beat: Heartbeat | None
    lag: int | None
    behind_since_ms: int | None
    unit: Noun = RECORDS
    lag_error: ErrorReport | None = None
    lag_unknown_since_ms: int | None = None
    ended: str | None = None
    log: Path | None = None
    refused: ErrorReport | None = None
    restarts: int = 0
    last_failure: str | None = None
    gave_up: bool = False
    obstacle: str | None = None
    slot: SlotSeen | None = None
    silent: SilentDatabase | None = None
    behind: Behind | None = None
    late: LateSeen | None = None
    wrong_rows: int | None = None
    is_replaced: bool = False


def behind_since(
    beat: Heartbeat | None, lag: int | None, before_ms: int | None, now_ms: int
) -> int | None:
    """Return since when input has waited without a commit, to detect a stuck run. A pure function.

    A driver that reports to have nothing to read is not trusted: input that is seen to wait counts
    from the first look on; but not what it holds back until a slower partition is as far.

    Args:
        beat: The run's last heartbeat; None if there is none.
        lag: Records or splits that are not committed yet; None if unknown.
        before_ms: The answer at the last look, if nothing was committed since; else None.
        now_ms: Time of this look, in ms since 1970.

    Returns:
        A time in ms since 1970; None if no input waits, or if that is unknown and the driver
        reports none.
    """
    if beat is None or lag == 0 or (beat.idle and beat.held_offsets):
        return None
    busy_since = beat.advanced_at_ms if beat.state == "running" and not beat.idle else None
    if lag is None and busy_since is None:
        return None
    known = [at for at in (before_ms, busy_since) if at is not None]
    return min([*known, now_ms])
