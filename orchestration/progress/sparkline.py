"""A small plot as text: a picture that Markdown holds itself, of some hundred bytes."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from orchestration.display import count

_WIDTH, _HEIGHT, _MARGIN = 460, 90, 4


def sparkline(title: str, points: Sequence[tuple[int, float]]) -> str:
    """Return a line over time as a Markdown picture, with its highest and its last value.

    Args:
        title: What is plotted, with its unit.
        points: Times in ms since 1970, ascending, and values; with fewer than two it is a line of
            text that says so.
    """
    if len(points) < 2:
        return f"{title}: not known yet."
    first, last = points[0][0], points[-1][0]
    highest = max(value for _, value in points)
    inner = _HEIGHT - 20 - _MARGIN
    line = " ".join(
        f"{_MARGIN + (at - first) / max(last - first, 1) * (_WIDTH - 2 * _MARGIN):.0f},"
        f"{_HEIGHT - _MARGIN - max(value, 0) / (highest or 1) * inner:.0f}"
        for at, value in points
    )
    words = f"{title}: highest {count(highest)}, now {count(points[-1][1])}"
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{_HEIGHT}'>"
        f"<rect width='{_WIDTH}' height='{_HEIGHT}' fill='#f7f8fa'/>"
        f"<text x='{_MARGIN}' y='14' font-family='sans-serif' font-size='12' fill='#444'>{words}"
        f"</text><polyline points='{line}' fill='none' stroke='#2f6fde' stroke-width='1.5'/></svg>"
    )
    return f"![{words}](data:image/svg+xml,{quote(svg, safe='')})"
