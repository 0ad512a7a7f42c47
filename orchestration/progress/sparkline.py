"""Sparkline: a small plot as text, for Markdown, a line of bars with times at both ends."""

from __future__ import annotations

from collections.abc import Sequence

from orchestration.display import count, moment

_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS = 36
"""As many as fit the column of values on an asset's page that is 1440 px wide."""


def sparkline(
    title: str,
    points: Sequence[tuple[int, float]],
    length_ms: int,
    last: tuple[int, float | None],
) -> str:
    """Return a sparkline: a plot of block characters, as Markdown with title and times in UTC.

    The line has 36 bars, on a scale from 0: each shows the highest value of its share of the time,
    the last one the latest value.

    Args:
        title: What is plotted, with its unit.
        points: Starts of the intervals in ms since 1970, ascending, and the highest value of each;
            if empty, the text says that nothing is known yet.
        length_ms: Length of each interval in ms.
        last: The latest moment in ms since 1970 and its value; None if that is unknown.
    """
    if not points:
        return f"**{title}**: not known yet."
    (first_ms, first), (last_ms, latest) = points[0], last
    highest_ms, highest = max(points, key=lambda point: point[1])
    step_ms = max(last_ms - first_ms, 1) / _COLUMNS
    bars = ""
    for column in range(_COLUMNS):
        since_ms = first_ms + column * step_ms
        until_ms = since_ms + step_ms
        values = [value for at, value in points if at < until_ms and at + length_ms > since_ms]
        if latest is not None and column == _COLUMNS - 1:
            # What the words say, though its interval was higher before.
            values = [latest]
        bars += _bar(max(values), highest) if values else " "
    ends = f"{moment(first_ms)}  {moment(last_ms)}"
    words = f"first {count(first)}, highest {count(highest)} at {moment(highest_ms)}"
    end = "unknown" if latest is None else count(latest)
    # The page makes no shorter lines of it where rows of many columns make its values wide.
    return f"**{title}**:  \n{words}, last {end}\n\n```\n{bars}\n{ends}\n```"


def _bar(value: float, highest: float) -> str:
    """Return the bar of a value; the lowest one is zero alone."""
    at = 0 if value <= 0 else max(round(value / highest * (len(_BARS) - 1)), 1)
    return _BARS[at]
