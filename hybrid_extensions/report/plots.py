"""Plots of a pipeline's progress as PNG: its phases side by side, with the seam between them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import groupby, pairwise
from typing import Any

from sources.common.optional import needs_extra
from sources.common.times import iso, to_ms
from spark_jobs.run_state.progress_log import ProgressLog, Sample

with needs_extra("plots", "The asset `progress`"):
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

_DPI = 80
_COLOURS = ("tab:blue", "tab:green", "tab:orange", "tab:purple", "tab:brown")
_SEAM = "tab:red"
_FEWEST = 2
"""Samples without which there is nothing to draw a line between."""


def phases(logs: Mapping[str, ProgressLog], seam_ms: int | None) -> bytes:
    """Plot throughput, remaining input and event time of each source over time, as PNG bytes.

    If a source's query has a watermark, the number of rows dropped as late so far is plotted, too.
    Sources with fewer than two samples get a note in place of lines.

    Args:
        logs: Progress log of each source, in the chain's order; at least one has samples.
        seam_ms: Event time through which history is complete, in ms since 1970; None if no bounded
            source has ended yet.
    """
    has_late = any(each.late_rows is not None for log in logs.values() for each in log.samples)
    figure = Figure(figsize=(11, 9 if has_late else 7), dpi=_DPI, layout="constrained")
    rows = figure.subplots(4 if has_late else 3, len(logs), squeeze=False, sharex="col")
    for place, (name, log) in enumerate(logs.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        speed, left, event_time = rows[:3, place]
        speed.set_title(name, color=colour, fontweight="bold")
        for launch in _launches(log.samples):
            times = [_time(each.at_ms) for each in launch]
            _line(speed, times[1:], _rates(launch), colour)
            _line(left, times, [each.left for each in launch], colour)
            event_times = [each.event_time_ms for each in launch]
            _line(event_time, times, [at and _time(at) for at in event_times], colour)
        speed.set_ylabel(f"{log.unit}/s")
        left.set_ylabel(f"{log.unit} left")
        for axes in (speed, left):
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter("{x:,.12g}")
        for axes in (speed, left, event_time):
            axes.grid(alpha=0.3)
            axes.tick_params(labelsize=8)
        if has_late:
            _late_rows(rows[3, place], log, colour)
        if len(log.samples) < _FEWEST:
            _too_few(list(rows[:, place]))
            continue
        _dates(rows[-1, place].xaxis)
        if not event_time.lines:
            # Spark reports the event time of a topic's rows only where there is a watermark.
            note = {"ha": "center", "va": "center", "transform": event_time.transAxes}
            event_time.text(0.5, 0.5, "unknown: the query has no watermark", **note)
        if place:
            for axes in rows[:, place]:
                # The seam is where this column begins.
                axes.spines["left"].set(color=_SEAM, linewidth=2)
    _event_time_scale(rows[2], seam_ms)
    return _png(figure)


def rows_by_day(counts: Sequence[tuple[date, int]], column: str, seam_ms: int | None) -> bytes:
    """Plot how many rows the target holds of each day, as PNG bytes.

    Args:
        counts: Days (UTC) and numbers of rows, at least one.
        column: Column of the target that the day is taken from.
        seam_ms: Event time through which history is complete, in ms since 1970, which is marked;
            None if no bounded source has ended yet.
    """
    figure = Figure(figsize=(11, 3), dpi=_DPI, layout="constrained")
    axes = figure.subplots()
    days = [
        _time(to_ms(datetime(day.year, day.month, day.day, 12, tzinfo=UTC))) for day, _ in counts
    ]
    axes.bar(days, [count for _, count in counts], width=1, color=_COLOURS[0])
    axes.set_ylabel("rows")
    axes.yaxis.set_major_formatter("{x:,.12g}")
    axes.set_title(f"rows of the target by day of `{column}`")
    if seam_ms is not None:
        _mark(axes, seam_ms, is_vertical=True)
    _dates(axes.xaxis)
    return _png(figure)


def _launches(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Group samples by launch: between two launches nothing ran, so no line is drawn."""
    return [list(of) for _, of in groupby(samples, lambda sample: sample.launch_id)]


def _rates(launch: Sequence[Sample]) -> list[float]:
    """Return units per second between each sample and the next one."""
    return [
        max(after.done - before.done, 0) / max(after.at_ms - before.at_ms, 1) * 1000
        for before, after in pairwise(launch)
    ]


def _time(ms: int) -> float:
    """Convert a time to days since 1970, the unit of matplotlib's axes."""
    return ms / 86_400_000


def _line(axes: Axes, times: Sequence[float], values: Sequence[Any], colour: str) -> None:
    known = [(at, value) for at, value in zip(times, values, strict=True) if value is not None]
    if known:
        axes.plot(*zip(*known, strict=True), color=colour, marker=".", markersize=4)


def _late_rows(axes: Axes, log: ProgressLog, colour: str) -> None:
    for launch in _launches(log.samples):
        times = [_time(each.at_ms) for each in launch]
        _line(axes, times, [each.late_rows for each in launch], colour)
    axes.set_ylabel("late rows dropped")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.12g}")
    axes.grid(alpha=0.3)
    axes.tick_params(labelsize=8)


def _too_few(column: Sequence[Axes]) -> None:
    """Say in a source's column that it has run for too short a time, instead of empty scales."""
    for axes in column:
        axes.set_xticks([])
        axes.set_yticks([])
    note: dict[str, Any] = {"ha": "center", "va": "center", "transform": column[0].transAxes}
    column[0].text(0.5, 0.5, "not enough micro-batches yet: materialize `progress` later", **note)


def _event_time_scale(columns: Sequence[Axes], seam_ms: int | None) -> None:
    """Use one scale for all sources, to show that each one starts where the one before ended."""
    shown = [axes for axes in columns if axes.lines and len(axes.get_yticks())]
    if seam_ms is not None:
        for axes in shown:
            _mark(axes, seam_ms, is_vertical=False)
    limits = [limit for axes in shown for limit in axes.get_ylim()]
    for axes in shown:
        axes.set_ylim(min(limits), max(limits))
        _dates(axes.yaxis)
    columns[0].set_ylabel("event time")
    if seam_ms is not None and shown:
        columns[0].figure.supxlabel(
            f"red: the seam; history is complete through {iso(seam_ms)}", color=_SEAM, fontsize=9
        )


def _mark(axes: Axes, seam_ms: int, *, is_vertical: bool) -> None:
    at = _time(seam_ms)
    draw = axes.axvline if is_vertical else axes.axhline
    draw(at, color=_SEAM, linestyle="--", label=f"seam: history is complete through {iso(seam_ms)}")
    if is_vertical:
        axes.legend(loc="lower left", fontsize=8)


def _dates(axis: Axis) -> None:
    locator = AutoDateLocator(tz=UTC, minticks=3)  # type: ignore[no-untyped-call]
    axis.set_major_locator(locator)
    shown = ConciseDateFormatter(locator, tz=UTC)  # type: ignore[no-untyped-call]
    axis.set_major_formatter(shown)


def _png(figure: Figure) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()
