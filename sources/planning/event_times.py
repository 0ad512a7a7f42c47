"""Event times of a listing: range of those that count, rows out of bounds, units misread."""

from __future__ import annotations

import time
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.counting import counted
from sources.common.durations import DAY_MS
from sources.common.state_document import Part
from sources.common.times import iso
from sources.config.source.event_time import EventTime
from sources.errors import InputError
from sources.files.listing.split_table import FileListing

_SHOWN = 5
# Event times before 1990 or more than ten years ahead are probably in another unit.
_EARLIEST_MS = 631_152_000_000
_AHEAD_MS = 10 * 365 * DAY_MS
_DONE = {"drop": "left out", "quarantine": "quarantined", "keep": "kept"}


class EventTimes(Part):
    """Event times of the files of one listing. All times are in Unix milliseconds.

    A row counts if its event time is within the bounds of ``event_time``. The bounds are kept as
    they were at the listing, so that whoever reads the files later decides alike.

    Attributes:
        not_before_ms, not_after_ms: The bounds, both inclusive.
        lowest_ms, highest_ms: Lowest and highest event time that counts and is read; None if no row
            has one.
        evidence: Whether the figures come from all rows (``exact``) or from a sample (``sampled``):
            of a sample, more rows may be outside.
        outside: Number of rows outside of the bounds.
        outside_lowest_ms, outside_highest_ms: Lowest and highest event time of these rows; None
            without any.
        outside_files: Number of files with such rows.
        shown_files: Up to five of these files.
    """

    not_before_ms: int
    not_after_ms: int
    lowest_ms: int | None
    highest_ms: int | None
    evidence: Literal["exact", "sampled"]
    outside: int
    outside_lowest_ms: int | None
    outside_highest_ms: int | None
    outside_files: int
    shown_files: list[str]

    def outside_in_words(self) -> str:
        """Return a phrase about the rows out of bounds: how many, their times, their files.

        To be called only if ``outside`` is not 0.
        """
        row = "sampled row" if self.evidence == "sampled" else "row"
        more = self.outside_files - len(self.shown_files)
        files = ", ".join(self.shown_files) + (f" and {more:,} more" if more else "")
        low, high = iso(self.outside_lowest_ms or 0), iso(self.outside_highest_ms or 0)
        return (
            f"event times of {counted(self.outside, row)} lie outside of "
            f"{iso(self.not_before_ms)} to {iso(self.not_after_ms)}, the bounds of `event_time`: "
            f"{low if low == high else f'{low} to {high}'}, in {files}"
        )


def event_times_of(listing: FileListing) -> EventTimes:
    """Sum up the event times of a listing: those that count, and those out of bounds.

    No file is read. Without splits, no time is known and no row is out of bounds.

    Args:
        listing: Splits with the range of event times of the rows that count, and figures of the
            others.
    """
    splits = listing.splits
    counted = event_range_ms(splits)
    bad = splits.filter(pc.greater(splits["outside"], 0))
    files = bad["path"].unique().to_pylist()
    low, high = pc.min(bad["outside_min_us"]).as_py(), pc.max(bad["outside_max_us"]).as_py()
    return EventTimes(
        not_before_ms=listing.limits.low // 1000,
        not_after_ms=listing.limits.high // 1000,
        lowest_ms=None if counted is None else counted[0],
        highest_ms=None if counted is None else counted[1],
        evidence="exact" if listing.exact else "sampled",
        outside=pc.sum(bad["outside"], min_count=0).as_py(),
        outside_lowest_ms=None if low is None else low // 1000,
        outside_highest_ms=None if high is None else high // 1000,
        outside_files=len(files),
        shown_files=sorted(files)[:_SHOWN],
    )


def judge_outside(source: str, event_time: EventTime, times: EventTimes) -> list[str]:
    """Refuse rows whose event time is out of bounds, or return a warning about them.

    Called for each listing, before it is recorded.

    Args:
        source: Name of the source.
        event_time: Declaration of the event time; ``outside`` says what to do with such rows.
        times: Event times of the source's files.

    Returns:
        One sentence if there are such rows; an empty list if all rows count.

    Raises:
        InputError: There are such rows, and ``outside`` is ``fail``.
    """
    if not times.outside:
        return []
    text = f"Source `{source}`: {times.outside_in_words()}."
    if times.lowest_ms is None:
        unit = misread_unit(times.outside_lowest_ms or 0, times.outside_highest_ms or 0)
        row = "row" if times.evidence == "exact" else "sampled row"
        text += f" No other {row} has an event time" + (f": probably {unit}." if unit else ".")
    if event_time.outside != "fail":
        return [f"{text} They are {_DONE[event_time.outside]}, and move no end of history."]
    hint = (
        "Correct these rows, or the conversion of the event time in `select`, and plan again "
        "(`hybrid plan P`). If the times are right, declare wider bounds, such as `event_time: "
        f"{{column: {event_time.column}, not_before: …, not_after: …}}`. To read the files without "
        "these rows, add `outside: quarantine` (or `drop`) there; `outside: keep` reads them like "
        "others, if the transform sets no watermark."
    )
    file = times.shown_files[0]
    raise InputError(text, hint, source=source, file=file, column=event_time.column)


def event_range_ms(splits: pa.Table) -> tuple[int, int] | None:
    """Return the lowest and highest event time of splits, in Unix milliseconds.

    Only of rows that count (within the bounds of ``event_time``); None if there are none. Both are
    rounded down.

    Args:
        splits: A table of schema :data:`sources.files.listing.split_table.SPLITS`.
    """
    low, high = pc.min(splits["event_min_us"]).as_py(), pc.max(splits["event_max_us"]).as_py()
    return None if low is None or high is None else (low // 1000, high // 1000)


def misread_unit(low_ms: int, high_ms: int) -> str | None:
    """Return in words the unit in which implausible event times were probably misread.

    Such as ``seconds read as milliseconds``. None if the times are plausible (from 1990 to ten
    years from now), or no unit makes them plausible.

    Args:
        low_ms: Lowest event time in Unix milliseconds, as it was read.
        high_ms: Highest event time in Unix milliseconds.
    """

    def plausible(factor: float) -> bool:
        low, high = low_ms * factor, high_ms * factor
        return low >= _EARLIEST_MS and high <= time.time() * 1000 + _AHEAD_MS

    if plausible(1):
        return None
    readings = {
        1000: "seconds read as milliseconds",
        1_000_000: "seconds read as microseconds, or milliseconds read as nanoseconds",
        1 / 1000: "microseconds read as milliseconds, or milliseconds read as seconds",
        1 / 1_000_000: "nanoseconds read as milliseconds, or microseconds read as seconds",
    }
    return next((words for factor, words in readings.items() if plausible(factor)), None)
