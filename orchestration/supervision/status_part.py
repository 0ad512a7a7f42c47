"""Part of a pipeline's status that an extension adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Row(NamedTuple):
    """Row of the table in a :class:`StatusPart`.

    Attributes:
        cells: Texts, one for each heading.
        is_healthy: Whether what the row shows is well.
    """

    cells: Sequence[str]
    is_healthy: bool


class Number(NamedTuple):
    """Number of a :class:`StatusPart`, for plots and metrics.

    Attributes:
        name: What is measured, as Prometheus names it, with its unit at the end.
        help: A sentence that describes it, for people.
        labels: Labels of Prometheus, which tell numbers of one name apart.
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
        name: Name of its field in the status as a JSON document.
        document: Value of that field, as JSON.
        is_healthy: Whether all is well; the pipeline is not healthy otherwise.
        headings: Headings of its table.
        rows: Lines of its table; without any, no table is shown.
        numbers: Its numbers, for plots and metrics.
    """

    name: str
    document: Any
    is_healthy: bool
    headings: Sequence[str] = ()
    rows: Sequence[Row] = ()
    numbers: Sequence[Number] = ()
