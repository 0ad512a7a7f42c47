"""Estimate of the overlap of a topic with history, by record timestamps."""

from __future__ import annotations

from sources.common.positions import EndPosition, Offsets, StartPosition
from sources.common.topic_log import Log


def likely_overlap(
    log: Log, previous: EndPosition, start: StartPosition, seam_end: Offsets
) -> int | None:
    """Estimate how many records from the start on are in history, too; None if unknown.

    Those before the first record of each partition that is later than the end of history. This is
    for people only: what may be in both reaches up to ``seam_end``, as a record may have been
    appended long after its time, and so the seam does.

    Args:
        log: Look-ups on the topics; their timestamps are those of the records' producers.
        previous: End position of the source before.
        start: Where the topic is read from.
        seam_end: First offset of each partition beyond the seam.

    Returns:
        Number of offsets; None unless the start was decided by a time.

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
