"""Timeline of the seam as a picture: event times of sources, and offsets of partitions.

Positions are percentages of the picture's width, so that it fits any screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from hybrid_extensions.report.model import HandOver, PartitionLine, PlanPart

MOST_PARTITIONS = 24
"""Partitions that are drawn; the ledger lists all."""
_NARROW = 0.1
"""A seam that takes less of the picture than this is drawn a second time, enlarged."""
_BEYOND = 0.12

Kind = Literal["history", "overlap", "topic", "skipped"]


class Bar(NamedTuple):
    """Bar in a lane.

    Attributes:
        kind: What it stands for, which decides its colour.
        left, width: Left edge and width, in percent of the picture's width.
    """

    kind: Kind
    left: float
    width: float


class Lane(NamedTuple):
    """Lane of a picture for one source or partition.

    Attributes:
        name: Name of the source or partition.
        bars: Its bars, from left to right.
        note: Its figures, in words; empty for none.
        is_open: Whether it continues beyond the right edge.
    """

    name: str
    bars: list[Bar]
    note: str = ""
    is_open: bool = False


class Timeline(NamedTuple):
    """Picture of sources on one scale of event time, in ms since 1970.

    Attributes:
        from_ms: Left edge of the scale.
        to_ms: Right edge; None if how far the last source reaches is not known.
        lanes: Each source whose event times are known.
        complete: Place of the time through which history is complete, in percent; None if outside
            of the scale.
    """

    from_ms: int
    to_ms: int | None
    lanes: list[Lane]
    complete: float | None


class _Reach(NamedTuple):
    """Event times of one source in ms; ``to_ms`` is None where it is not known."""

    name: str
    kind: Literal["history", "topic"]
    from_ms: int
    to_ms: int | None
    is_open: bool


def timelines(
    plan: PlanPart, hand_overs: Sequence[HandOver], newest_ms: int | None
) -> list[Timeline]:
    """Return a picture of all sources by event time; if the seam is narrow, one of the seam, too.

    Args:
        plan: The planned input.
        hand_overs: The hand-overs.
        newest_ms: Highest event time that the last source has read, in ms since 1970; None if not
            known: the picture is then open to the right (``to_ms`` None) if that source has no end,
            even if its plan has a time.

    Returns:
        One or two pictures; empty if no event times are known.
    """
    reaches = list(_reaches(plan, hand_overs, newest_ms))
    known = [at for reach in reaches for at in (reach.from_ms, reach.to_ms) if at is not None]
    if not known:
        return []
    complete_ms = next((h.complete_through_ms for h in reversed(hand_overs)), None)
    low, high = min(known), max(known)
    is_cut = any(reach.to_ms is None for reach in reaches)
    if is_cut:
        high += round((high - low) * _BEYOND)
    whole = _timeline(reaches, complete_ms, low, max(high, low + 1))
    whole = whole._replace(to_ms=None) if is_cut else whole
    seam = _overlap(reaches)
    if seam is None or seam[1] - seam[0] >= (high - low) * _NARROW:
        return [whole]
    width = max(seam[1] - seam[0], 1)
    return [whole, _timeline(reaches, complete_ms, seam[0] - width, seam[1] + width)]


def offset_lanes(partitions: Sequence[PartitionLine]) -> list[Lane]:
    """Return a lane for each of the first partitions: what is skipped, the seam, what follows.

    Each has a scale of its own, from the start of the log to the highest offset that is known. At
    most :data:`MOST_PARTITIONS`; empty without partitions.
    """
    return [_offset_lane(line) for line in partitions[:MOST_PARTITIONS]]


def _reaches(plan: PlanPart, hand_overs: Sequence[HandOver], newest_ms: int | None) -> list[_Reach]:
    starts = {each.source: each.start_ms for each in hand_overs}
    found = []
    for source in plan.sources:
        is_topic = source.kind == "topic"
        from_ms = starts.get(source.name) if is_topic else source.from_ms
        to_ms = source.to_ms
        if not source.is_bounded:
            to_ms = newest_ms if to_ms is None or newest_ms is None else max(to_ms, newest_ms)
        if from_ms is None:
            continue
        if to_ms is not None:
            to_ms = max(to_ms, from_ms)
        kind: Literal["history", "topic"] = "topic" if is_topic else "history"
        found.append(_Reach(source.name, kind, from_ms, to_ms, not source.is_bounded))
    return found


def _overlap(reaches: Sequence[_Reach]) -> tuple[int, int] | None:
    """Return the event times that the last source and those before it have in common, in ms."""
    ends = [reach.to_ms for reach in reaches[:-1] if reach.to_ms is not None]
    if not ends or reaches[-1].kind != "topic":
        return None
    begin, end = reaches[-1].from_ms, max(ends)
    return (begin, end) if begin <= end else None


def _timeline(reaches: Sequence[_Reach], complete_ms: int | None, low: int, high: int) -> Timeline:
    def percent(at_ms: int) -> float:
        return round(min(max((at_ms - low) / (high - low), 0), 1) * 100, 3)

    seam = _overlap(reaches)
    lanes = []
    for reach in reaches:
        left = percent(reach.from_ms)
        right = 100.0 if reach.to_ms is None else percent(reach.to_ms)
        bars = [Bar(reach.kind, left, right - left)]
        if seam is not None:
            begin, end = max(percent(seam[0]), left), min(percent(seam[1]), right)
            bars += [Bar("overlap", begin, end - begin)] if end > begin else []
        lanes.append(Lane(reach.name, bars, is_open=reach.is_open))
    is_shown = complete_ms is not None and low <= complete_ms <= high
    return Timeline(low, high, lanes, percent(complete_ms) if is_shown and complete_ms else None)


def _offset_lane(line: PartitionLine) -> Lane:
    low = min(line.log_start, line.start)
    seam_end = line.start + line.overlap
    high = max(line.start, line.seam_end, line.read_to or 0)

    def bar(kind: Kind, begin: int, end: int) -> list[Bar]:
        scale = 100 / max(high - low, 1)
        shown = Bar(kind, round((begin - low) * scale, 3), round((end - begin) * scale, 3))
        return [shown] if end > begin else []

    bars = [
        *bar("skipped", low, line.start),
        *bar("overlap", line.start, seam_end),
        *bar("topic", seam_end, high),
    ]
    parts = [f"log start {line.log_start:,}", f"start {line.start:,}"]
    parts += [f"seam end {line.seam_end:,}"] if line.overlap else ["no seam"]
    parts += [] if line.read_to is None else [f"read up to {line.read_to:,}"]
    return Lane(f"{line.topic}, partition {line.partition}", bars, " · ".join(parts))
