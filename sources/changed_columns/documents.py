"""Documents of a generation that computes only changed columns, and the question to Spark."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from sources.common.positions import Part, Record
from sources.errors import ErrorReport
from sources.state.generation import Generation


class ChangedColumn(Part):
    """Column that another transform returns otherwise, or that only it returns.

    Attributes:
        name: Its name.
        type: Its Spark SQL type.
        inputs: Columns of the table, as it is, that its values are computed from, sorted.
    """

    name: str
    type: str
    inputs: list[str]


class ColumnDifference(Part):
    """How the columns of two transforms differ that return the same rows.

    Attributes:
        changed: Columns that have to be computed, in the order of the new transform.
        kept: Columns whose values stay, in that order.
        removed: Columns that only the old transform returns.
        before: Digest of the code of the old transform.
        code: Digest of the code of the new one.
    """

    changed: list[ChangedColumn]
    kept: list[str]
    removed: list[str]
    before: str
    code: str

    @property
    def inputs(self) -> list[str]:
        """Columns of the table that have to be read, sorted."""
        return sorted({name for column in self.changed for name in column.inputs})


class ColumnsRequest(BaseModel):
    """Question to the process that compares two transforms.

    Attributes:
        before: Path of the pipeline's file as it was kept for the serving generation.
        now: Path of the pipeline's file.
        given: Columns that both transforms get, as names and Spark SQL types.
    """

    model_config = ConfigDict(frozen=True)

    before: Path
    now: Path
    given: dict[str, str]


class ColumnsAnswer(BaseModel):
    """Answer of that process: exactly one of the two.

    Attributes:
        difference: The difference.
        refusal: Why the changed columns can't be computed on their own.
    """

    difference: ColumnDifference | None = None
    refusal: ErrorReport | None = None


class ChangedColumns(Record):
    """State document of a generation that was begun to compute only changed columns.

    Attributes:
        of: Name of the generation whose rows it takes.
        first: Name of the chain's first source, whose end position is written last of all.
        difference: What is computed.
    """

    NAME: ClassVar = "changed-columns.json"

    of: str
    first: str
    difference: ColumnDifference

    @property
    def in_words(self) -> str:
        """What is computed, as a clause; computed."""
        changed = ", ".join(f"`{each.name}`" for each in self.difference.changed)
        removed = ", ".join(f"`{name}`" for name in self.difference.removed)
        without = f", without {removed}" if removed else ""
        return f"it takes the rows of {self.of}{without}, and computes {changed or 'no column'}"


class PinnedVersion(Record):
    """State document: the version whose rows a generation takes, and what that version holds.

    Written before the first row is read. Spark removes old offsets from a checkpoint, so they are
    kept here.

    Attributes:
        table: Path of the table.
        table_version: Version of the table.
        batch: Last micro-batch that it holds.
        query: Id of the new generation's query.
        offsets: Content of Spark's offset files of that micro-batch and the one before, by number.
        commit: Content of Spark's commit file of that micro-batch.
    """

    NAME: ClassVar = "changed-columns-of.json"

    table: str
    table_version: int
    batch: int
    query: str
    offsets: dict[str, str]
    commit: str


def read_changed_columns(generation: Generation) -> ChangedColumns | None:
    """Read what a generation computes; None if it computes all columns from its sources.

    Raises:
        StateError: The document is damaged, or of another version.
    """
    return generation.read(ChangedColumns.NAME, ChangedColumns)


def is_unfinished(generation: Generation) -> bool:
    """Return whether a generation's changed columns are still to be computed.

    Until then its checkpoint, state and table are not complete.

    Raises:
        StateError: The document is damaged, or of another version.
    """
    made = read_changed_columns(generation)
    return made is not None and not generation.exists(f"positions/{made.first}-end.json")
