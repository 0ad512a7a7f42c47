"""Whether a range of a windowed table can be recomputed: one `window(…)`, watermark; else why.

How a column of the table comes from the windows, and they from the input, is followed by the
numbers under which the plan knows columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from hybrid_extensions.analysis.spark.window_lengths import (
    PASSING,
    SELECTING,
    UNKNOWN_FORM,
    NoWindowsError,
    is_column,
    is_window,
    streaming_child,
    value_of,
    window_lengths,
)
from sources.planning.event_windows import EventWindows
from spark_jobs.inside.checkpoint.plan_nodes import (
    aggregates_of,
    analyzed_plan,
    each_of,
    kind_of,
    number_of,
)
from spark_jobs.inside.checkpoint.transform_shape import Shape

Side = Literal["start", "end"]
_SIDES: tuple[Side, Side] = ("start", "end")
# By what a column is of a window: its field with what it holds.
_PREFERRED: dict[Side | None, tuple[str | None, Side]] = {
    "start": (None, "start"),
    None: ("start", "start"),
    "end": (None, "end"),
}
# What Spark marks columns with (TimeWindow.marker, EventTimeWatermark.delayKey).
_SESSION, _WATERMARK = "spark.sessionWindow", "spark.watermarkDelayMs"


def event_windows(rows: DataFrame, given: DataFrame, event_time: str) -> EventWindows:
    """Return the windows of event time that a stateful transform groups its rows by.

    Read from Spark's analyzed plan; no query runs. They tell which input a range of the table is
    computed from, so that it can be recomputed. Of several output columns that could say the
    window, a start is taken before a whole window, and that before an end.

    Args:
        rows: DataFrame that the transform returned; it is stateful.
        given: DataFrame that it was called with.
        event_time: Name of the event-time column in ``given``.

    Raises:
        NoWindowsError: It does not group by such windows in a way that is understood; says why.
    """
    try:
        return _event_windows(rows, given, event_time)
    except Py4JError:
        raise NoWindowsError(UNKNOWN_FORM) from None


def _event_windows(rows: DataFrame, given: DataFrame, event_time: str) -> EventWindows:
    root, source = analyzed_plan(rows), analyzed_plan(given)
    grouping = _only_aggregate(rows, root)
    window = _window_of(grouping)
    lengths = window_lengths(grouping.child(), number_of(window))
    _require_event_time(grouping.child(), source, lengths.time, event_time)
    if not window.metadata().contains(_WATERMARK):
        message = (
            f"without a watermark on `{event_time}` no window ever ends: late rows of the live run "
            "still change windows of the range"
        )
        raise NoWindowsError(message)
    column, field, holds = _column_of(root, grouping, number_of(window))
    return EventWindows(
        length_us=lengths.length_us,
        slide_us=lengths.slide_us,
        offset_us=lengths.offset_us,
        column=column,
        field=field,
        holds=holds,
        is_selective=any(kind_of(node) in SELECTING for node in _above(root, grouping)),
    )


def _only_aggregate(rows: DataFrame, root: Any) -> Any:
    """Return the node of a transform's only stateful operator, which groups rows."""
    stateful = Shape(rows).stateful
    groups = aggregates_of(root)
    if len(stateful) != 1 or len(groups) != 1:
        others = "; ".join(stateful)
        message = f"it keeps {others}, of which a range of event times needs all rows before it"
        raise NoWindowsError(message)
    for node in _above(root, groups[0]):
        if kind_of(node) not in (*PASSING, *SELECTING):
            message = (
                f"after grouping rows by windows it uses {kind_of(node)}, which may combine rows "
                "of several windows"
            )
            raise NoWindowsError(message)
    return groups[0]


def _window_of(grouping: Any) -> Any:
    """Return the column of the windows among those that rows are grouped by."""
    columns = [each for each in each_of(grouping.groupingExpressions()) if is_column(each)]
    if any(each.metadata().contains(_SESSION) for each in columns):
        message = (
            "it groups rows by `session_window`, and a session may be of any length: no interval "
            "of event times is sure to hold all rows of the sessions of a range"
        )
        raise NoWindowsError(message)
    found = [each for each in columns if kind_of(each.dataType()) == "StructType"]
    windows = [each for each in found if is_window(grouping.child(), number_of(each))]
    if len(windows) != 1:
        message = (
            "it does not group rows by one `window(…)` of the event time, so any row may belong to "
            "any group"
        )
        raise NoWindowsError(message)
    return windows[0]


def _require_event_time(node: Any, source: Any, time: Any, event_time: str) -> None:
    """Refuse windows over anything but the event time as the sources have it."""
    number = _trace(node, source, number_of(time)) if is_column(time) else None
    named = {number_of(each): str(each.name()) for each in each_of(source.output())}
    if number is None or named.get(number) != event_time:
        message = (
            f"its windows are of another time than `{event_time}` as the sources have it, by which "
            "the files of a range are found"
        )
        raise NoWindowsError(message)


def _trace(node: Any, end: Any, number: int) -> int | None:
    """Follow a column down to another node that has it unchanged; None if it has not."""
    while not node.fastEquals(end):
        kind = kind_of(node)
        if kind == "Project":
            value = value_of(node.projectList(), number)
            if value is None or not is_column(value):
                return None
            number = number_of(value)
        elif kind not in (*PASSING, *SELECTING, "Expand"):
            return None
        below = streaming_child(node)
        if below is None:
            return None
        node = below
    return number


def _column_of(root: Any, grouping: Any, window: int) -> tuple[str, str | None, Side]:
    """Return the output column that has the windows: its name, its field, what it holds."""
    found: dict[Side | None, str] = {}
    for column in each_of(root.output()):
        if (side := _side_of(root, grouping, number_of(column), window)) is not False:
            found.setdefault(side, str(column.name()))
    for side, (field, holds) in _PREFERRED.items():
        if side in found:
            return found[side], field, holds
    message = (
        "none of its columns is the start or the end of a window, so the rows of a range are not "
        "known in the table"
    )
    raise NoWindowsError(message)


def _side_of(root: Any, grouping: Any, number: int, window: int) -> Side | Literal[False] | None:
    """Return what an output column is of a window: its start, its end, or None for all of it.

    Returns:
        False if it is something else.
    """
    side: Side | None = None
    for node in [*_above(root, grouping), grouping]:
        kind = kind_of(node)
        if kind not in ("Project", "Aggregate"):
            continue
        named = node.projectList() if kind == "Project" else node.aggregateExpressions()
        value = value_of(named, number)
        if value is not None and kind_of(value) == "GetStructField" and side is None:
            side = _SIDES[int(value.ordinal())]
            value = value.child()
        if value is None or not is_column(value):
            return False
        number = number_of(value)
    return side if number == window else False


def _above(root: Any, grouping: Any) -> Iterator[Any]:
    """Yield the nodes above the grouping, from the output on."""
    node = root
    while node is not None and not node.fastEquals(grouping):
        yield node
        node = streaming_child(node)
