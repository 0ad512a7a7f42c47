"""Estimate of the overlap of a topic with history, by record timestamps."""

from __future__ import annotations

from sources.common.positions import EndPosition, Offsets, StartPosition
from sources.common.topic_log import Log


def likely_overlap(
    log: Log, previous: EndPosition, start: StartPosition, seam_end: Offsets
) -> int | None:
    """Estimate how many offsets from the start on are in history, too, by record timestamps.

    For people only, in the plan: it counts offsets before each partition's first record that is
    later than the end of history. 0 if there is none; None unless the start was decided by the end
    time of history.

    Args:
        log: Look-ups on the topics; timestamps are those set by producers.
        previous: End position of the source before.
        start: Start position of the topic.
        seam_end: First offset of each partition beyond the seam, which bounds the count.

    Raises:
        UnavailableError: The broker does not answer.
        InputError: The broker refuses.
    """
    if start.evidence != "timestamp" or start.time_ms is None:
        return None
    later = log.offsets_for_time(previous.event_time_ms + 1)
    found = 0
    for at, begin in start.offsets().items():
        end = seam_end.get(at, begin)
        following = later.get(at)
        found += max(min(end if following is None else following, end) - begin, 0)
    return found
