"""Layouts of files: how their columns differ from the common columns that they are read as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from sources.common.state_document import Part

_SHOWN_FILES = 3


class ColumnDifference(Part):
    """Difference between a column of some files and the column that it is read as.

    Attributes:
        column: Name of the column that it is read as.
        type: Spark SQL type in the files, if it is narrower; None if it is the same.
        name: Name in the files; None if it is the same.
        missing: Whether the files lack the column.
        default: Value that a missing column is read as, as text; None for null.
    """

    column: str
    type: str | None = None
    name: str | None = None
    missing: bool = False
    default: str | None = None


class Layout(Part):
    """Files of a listing that differ from the common columns in the same way.

    Attributes:
        files: Number of the files.
        shown_files: Paths of the first few of them.
        differences: The columns that differ; empty if none does.
    """

    files: int = 0
    shown_files: list[str] = Field(default_factory=list)
    differences: list[ColumnDifference] = Field(default_factory=list)


def with_files(layouts: Sequence[Layout], splits: pa.Table) -> list[Layout]:
    """Return layouts completed with number and first paths of the files that have each.

    Empty without layouts, as without ``schema_drift``.

    Args:
        layouts: Layouts of a listing.
        splits: Its splits, whose ``layout`` is an index of ``layouts``.
    """
    files = splits.filter(pc.equal(splits["offset"], 0))
    indexes = files["layout"].to_pylist()
    counts = Counter(indexes)
    shown: dict[int, list[str]] = {}
    for index, path in zip(indexes, files["path"].to_pylist(), strict=True):
        if len(paths := shown.setdefault(index, [])) < _SHOWN_FILES:
            paths.append(path)
    return [
        layout.model_copy(update={"files": counts[index], "shown_files": shown.get(index, [])})
        for index, layout in enumerate(layouts)
    ]
