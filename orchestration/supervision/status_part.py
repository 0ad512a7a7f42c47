"""Part of a pipeline's status that an extension adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Row(NamedTuple):
    """Row of a table.

    Attributes:
        cells: Its cells, one for each heading.
        is_healthy: Whether what it shows is well.
    """

    cells: Sequence[str]
    is_healthy: bool


class Number(NamedTuple):
    """Number for plots and metrics.

    Attributes:
        name: What is measured, as Prometheus names it, with its unit at the end.
        help: What it says, for people.
        labels: Which of several it is, such as the name of a part.
        value: The number; 1 and 0 for true and false.
    """

    name: str
    help: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class StatusPart:
    """Part of a pipeline's status that an extension adds.

    Attributes:
        name: Its name in the status as a document.
        document: What it is there, as JSON.
        is_healthy: Whether all is well; the pipeline is not healthy otherwise.
        headings: Headings of its table.
        rows: Lines of its table; it is not shown without any.
        numbers: Its numbers.
    """

    name: str
    document: Any
    is_healthy: bool
    headings: Sequence[str] = ()
    rows: Sequence[Row] = ()
    numbers: Sequence[Number] = ()
