"""Length, slide and offset of a window in Spark's analyzed plan.

Spark replaces its function ``window`` by an expression over the time column
(``TimeWindowing`` in org.apache.spark.sql.catalyst.analysis); its parts say length, distance and
offset of the windows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from spark_jobs.inside.checkpoint.plan_nodes import each_of, kind_of, nodes_of, number_of

SELECTING = ("Filter", "Join", "Generate")
"""Nodes that decide which rows there are; columns of their streaming child keep their numbers."""
PASSING = (
    "EventTimeWatermark",
    "Project",
    "RepartitionByExpression",
    "Repartition",
    "ResolvedHint",
    "SubqueryAlias",
)
"""Nodes that keep all rows; columns that they do not compute keep their numbers."""
UNKNOWN_FORM = "this version of Spark describes `window(…)` in a way that is not known here"
"""Why windows of an expression that can't be read are not known."""


class NoWindowsError(Exception):
    """Reason why a range of the table can't be recomputed by windows: a clause, no full stop."""


class WindowLengths(NamedTuple):
    """Arguments of Spark's function ``window``.

    Attributes:
        length_us, slide_us, offset_us: Length, distance and offset, in microseconds; the distance
            is the length where windows do not overlap.
        time: The expression of the time.
    """

    length_us: int
    slide_us: int
    offset_us: int
    time: Any


def is_window(node: Any, number: int) -> bool:
    """Return whether a column of a plan's node, given by its expression id, contains windows.

    False, too, for windows that this version of Spark describes in an unknown form.
    """
    try:
        window_lengths(node, number)
    except NoWindowsError:
        return False
    return True


def window_lengths(node: Any, number: int) -> WindowLengths:
    """Return length, slide and offset, in microseconds, of the windows that a plan's column has.

    Args:
        node: Node of the plan that has the column; the windows are computed there or below.
        number: The column's expression id.

    Raises:
        NoWindowsError: The column has no windows, or Spark describes them in an unknown form.
    """
    while node is not None:
        kind = kind_of(node)
        if kind == "Project":
            value = value_of(node.projectList(), number)
            if value is not None and kind_of(value) == "CreateNamedStruct":
                return _parsed(value)
            if value is None or not is_column(value):
                break
            number = number_of(value)
        elif kind == "Expand":
            places = [number_of(each) for each in each_of(node.output())]
            ways = [list(each_of(way)) for way in each_of(node.projections())]
            values = [way[places.index(number)] for way in ways] if number in places else []
            if values and all(kind_of(each) == "CreateNamedStruct" for each in values):
                return _parsed(values[0])
        elif kind not in (*PASSING, *SELECTING):
            break
        node = streaming_child(node)
    message = "the column that it groups rows by is not a `window(…)` as it was computed"
    raise NoWindowsError(message)


def _parsed(struct: Any) -> WindowLengths:
    """Return the parts of ``named_struct('start', …, 'end', …)``, as Spark writes a window."""
    try:
        end = _inside(list(each_of(struct.valExprs()))[1])
        start, length = each_of(_of_kind(end, "Add").children())
        last, _ = each_of(_of_kind(start, "Subtract").children())
        time, case = each_of(_of_kind(last, "Subtract").children())
        remainder = _first(case, "Remainder")
        shifted, slide = each_of(remainder.children())
        _, offset = each_of(_of_kind(shifted, "Subtract").children())
        return WindowLengths(
            int(length.value()), int(slide.value()), int(offset.value()), time.child()
        )
    except (IndexError, StopIteration, TypeError, ValueError):
        raise NoWindowsError(UNKNOWN_FORM) from None


def _inside(expression: Any) -> Any:
    """Return the expression inside Spark's conversions of type and nullability."""
    while kind_of(expression) in ("KnownNullable", "PreciseTimestampConversion"):
        expression = expression.child()
    return expression


def _of_kind(expression: Any, kind: str) -> Any:
    if kind_of(expression) != kind:
        raise ValueError(kind)
    return expression


def _first(expression: Any, kind: str) -> Any:
    """Return the first of a kind among an expression and its parts."""
    return next(each for each in nodes_of(expression) if kind_of(each) == kind)


def streaming_child(node: Any) -> Any:
    """Return the only streaming child of a plan's node; None if there is none, or several."""
    streaming = [each for each in each_of(node.children()) if each.isStreaming()]
    return streaming[0] if len(streaming) == 1 else None


def value_of(named: Any, number: int) -> Any:
    """Return the expression that computes the column with an expression id, without its alias.

    Args:
        named: Spark's sequence of named expressions, such as a projection's.
        number: The expression id.

    Returns:
        None if no expression has the id.
    """
    for each in each_of(named):
        if number_of(each) == number:
            return each.child() if kind_of(each) == "Alias" else each
    return None


def is_column(expression: Any) -> bool:
    """Return whether an expression of a plan is a plain column (``AttributeReference``)."""
    return kind_of(expression) == "AttributeReference"
