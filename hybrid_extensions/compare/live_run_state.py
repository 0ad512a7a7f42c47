"""Whether the live run lets rows that differ be judged: healthy, slot read, nothing behind."""

from __future__ import annotations

from hybrid_extensions.compare.compare_range import LiveRun
from orchestration.supervision.status import Status, status
from sources.config.loader import LoadedPipeline


def look_at_run(loaded: LoadedPipeline) -> LiveRun:
    """Return the state of a generation's live run, to judge rows that differ from the database.

    Args:
        loaded: The pipeline, with the generation whose target is compared.

    Raises:
        StateError: The state can't be read.
        InputError: A store or a broker refuses, or a cluster's command line tool is missing.
        UnavailableError: A store or a broker does not answer.
    """
    return live_run(status(loaded))


def live_run(found: Status) -> LiveRun:
    """Return the state of the live run from a status, for comparisons. A pure function.

    Never raises: of a run that was not requested or is not healthy, or whose replication slot is
    not, it is the reason alone, as differing rows can't be judged then.
    """
    live = found.live
    if live is None:
        return LiveRun("the live run was not requested")
    if live.health != "healthy":
        return LiveRun(f"the live run is {live.health}")
    slot = next((each for each in live.findings if each.name == "slot"), None)
    if slot is not None and not slot.passed:
        # A connector that was just stopped leaves a run healthy for a while.
        return LiveRun(slot.text.rstrip("."))
    source = found.sources[-1]
    waiting_s = max(live.numbers.get("waiting_s", 0.0), (slot and slot.value) or 0.0)
    return LiveRun(
        batch_id=None if source.heartbeat is None else source.heartbeat.batch_id,
        has_all=source.lag == 0,
        waiting_s=waiting_s,
        pace_s=0.0 if source.heartbeat is None else source.heartbeat.pace_ms / 1000,
    )
