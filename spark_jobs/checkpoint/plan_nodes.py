"""Access to the nodes of Spark's query plans, which are Scala objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def kind_of(thing: Any) -> str:
    """Return the name of the class of a node or an expression, such as ``EventTimeWatermark``."""
    return str(thing.getClass().getSimpleName())


def number_of(column: Any) -> int:
    """Return the number by which the plan refers to a column: Spark's expression id."""
    return int(column.exprId().id())


def each_of(things: Any) -> Iterator[Any]:
    """Yield the elements of a Scala sequence, in order."""
    for at in range(things.size()):
        yield things.apply(at)
