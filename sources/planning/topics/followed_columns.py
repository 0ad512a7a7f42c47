"""Followed columns: changes of a captured table's columns that a generation's runs have adopted.

The declaration stays the user's: what was followed is kept in the state of the generation, and the
declaration that its runs go by is made of both. Another generation has its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from sources.common.state_document import Part, Record
from sources.common.times import iso
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.changes.added_columns import AddedColumn
from sources.decoding.changes.declared_table import DeclaredTable
from sources.decoding.changes.renamed_columns import all_names
from sources.decoding.changes.widened_columns import is_widened
from sources.errors import ErrorReport, HybridError, error_of
from sources.state.generation import Generation

_NAME = "followed-columns.json"


Kind = Literal["added", "widened", "ignored", "dropped", "emptied", "renamed"]
"""What was done about a change of a column."""
_DONE = {
    "ignored": "(left out) was added",
    "dropped": "(null in rows that change from then on) was dropped",
    "emptied": "(null in all rows now) was dropped",
}


class FollowedChange(Part):
    """Changed column of a source's table, adopted by the runs of a generation.

    Attributes:
        kind: What was done: a column of the target was ``added``, ``widened`` or ``emptied``; a
            new one of the table is ``ignored``; one that is gone was ``dropped`` or ``renamed``.
        column: Name of the column; of one that is gone its name in the ``schema``.
        type: Its Spark SQL type since then; empty where it has none.
        name: New name of one that was renamed.
        default: What rows from before an added column hold; null if left out.
        topic: Topic of the change by which it was noticed.
        partition: Partition of that change.
        offset: Its offset.
        position: Its position in the database's log; None if it is not known.
        at_ms: When it was followed, in ms since 1970.
    """

    kind: Kind = "added"
    column: str
    type: str = ""
    name: str | None = None
    default: bool | int | float | str | None = None
    topic: str
    partition: int
    offset: int
    position: str | None = None
    at_ms: int

    def __str__(self) -> str:
        """Return the change as a phrase, such as ``column `note` (string) was added …``."""
        default = "" if self.default is None else f", {self.default} in older rows"
        what = _DONE.get(self.kind, f"({self.type}{default}) was added")
        if self.kind == "widened":
            what = f"was widened to {self.type}"
        elif self.kind == "renamed":
            what = f"was renamed to `{self.name}`"
        log = "" if self.position is None else f", log position {self.position}"
        return (
            f"column `{self.column}` {what} at {iso(self.at_ms)}, at "
            f"topic `{self.topic}`, partition {self.partition}, offset {self.offset}{log}"
        )


class FollowedColumns(Record):
    """State document of a generation: column changes that its runs have adopted.

    Written before the target is changed, so that a run that ends in between completes it.

    Attributes:
        changes: The changes, in the order in which they were met.
    """

    changes: list[FollowedChange]


def followed_columns(generation: Generation) -> list[FollowedChange]:
    """Return the column changes that a generation's runs have adopted, in order; may be empty.

    Raises:
        StateError: The document is damaged, or of an unknown version.
        UnavailableError: The state's store does not answer.
    """
    kept = generation.read(_NAME, FollowedColumns)
    return [] if kept is None else kept.changes


def keep_followed(generation: Generation, changes: Sequence[FollowedChange]) -> None:
    """Append column changes to those that a generation has adopted, in its state.

    Not safe for two writers: only the generation's driver calls it.

    Raises:
        StateError: The state can't be written, or the document is damaged.
        UnavailableError: The state's store does not answer.
    """
    generation.replace(_NAME, FollowedColumns(changes=[*followed_columns(generation), *changes]))


def not_followed(failure: ErrorReport, reason: str) -> HybridError:
    """Return the error, for the caller to raise, of a change that can't be followed.

    It has the type, hint and fields of the failed query's error, as with ``stop``; only its message
    is longer, by the reason.

    Args:
        failure: Why the query that met the change has failed.
        reason: Why it can't be followed, as a clause.
    """
    message = f"{failure.message} `on_schema_change` can't follow this change: {reason}."
    return error_of(failure.model_copy(update={"message": message}))


def with_followed_columns(loaded: LoadedPipeline, generation: Generation) -> LoadedPipeline:
    """Return a copy of a pipeline whose last source also declares the adopted column changes.

    A column that the user declares as added, ignored or gone is as the user says. Of two types of a
    widened column the wider one counts.

    Raises:
        StateError: The document is damaged, or of an unknown version.
        UnavailableError: The state's store does not answer.
    """
    source = loaded.pipeline.sources[-1]
    if not isinstance(source, KafkaSource) or (table := source.changes) is None:
        return loaded
    followed = table
    for each in followed_columns(generation):
        followed = followed.model_copy(update=_declared(each, followed, source.value_columns))
    if followed == table:
        return loaded
    changed = source.model_copy(update={"value": followed})
    sources = [*loaded.pipeline.sources[:-1], changed]
    return replace(loaded, pipeline=loaded.pipeline.model_copy(update={"sources": sources}))


def _declared(
    change: FollowedChange, table: DeclaredTable, columns: Mapping[str, str]
) -> dict[str, object]:
    """Return the fields of a declaration that a change gives other values; none if it has it."""
    name, kind = change.column, change.kind
    if kind in ("added", "ignored"):
        if name in {*columns, *table.added_types, *table.ignored_columns}:
            return {}
        if kind == "ignored":
            return {"ignored_columns": [*table.ignored_columns, name]}
        added = AddedColumn(type=change.type, default=change.default)
        return {"added_columns": {**table.added_columns, name: added}}
    if kind == "widened":
        before = table.widened_columns.get(name, columns.get(name))
        # One may be widened more than once, and declared as well: the widest type counts.
        if before is None or not is_widened(before, change.type):
            return {}
        return {"widened_columns": {**table.widened_columns, name: change.type}}
    if kind == "renamed":
        names = all_names(table.renamed_columns.get(name, []))
        if change.name is None or change.name in names:
            return {}
        return {"renamed_columns": {**table.renamed_columns, name: [*names, change.name]}}
    if name in table.gone_columns:
        return {}
    field = "emptied_columns" if kind == "emptied" else "dropped_columns"
    return {field: [*getattr(table, field), name]}
