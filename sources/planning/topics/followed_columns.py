"""Column changes of a captured table that a generation's runs have adopted.

The declaration stays the user's: what was followed is kept in the state of the generation, and the
declaration that its runs go by is made of both. Another generation has its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from sources.common.positions import Part, Record, iso
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.changes.added_columns import AddedColumn
from sources.decoding.changes.widened_columns import is_widened
from sources.state.generation import Generation

_NAME = "followed-columns.json"


class FollowedChange(Part):
    """Added or widened column of a source's table, adopted by the target.

    Attributes:
        kind: ``added`` or ``widened``.
        column: Name of the column.
        type: Its Spark SQL type since then.
        default: Value of an added column in rows from before the change; None for null.
        topic: Topic of the change record by which it was noticed.
        partition: Partition of that record.
        offset: Offset of that record.
        position: Position of that change in the database's log; None if it is not known.
        at_ms: When it was adopted, in Unix milliseconds.
    """

    kind: Literal["added", "widened"] = "added"
    column: str
    type: str
    default: bool | int | float | str | None = None
    topic: str
    partition: int
    offset: int
    position: str | None = None
    at_ms: int

    def __str__(self) -> str:
        """Return the change as a phrase, such as ``column `note` (string) was added …``."""
        default = "" if self.default is None else f", {self.default} in older rows"
        what = f"({self.type}{default}) was added"
        if self.kind == "widened":
            what = f"was widened to {self.type}"
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


def keep_followed(generation: Generation, changes: list[FollowedChange]) -> None:
    """Append column changes to those that a generation has adopted, in its state.

    Not safe for two writers: only the generation's driver calls it.

    Raises:
        StateError: The state can't be written, or the document is damaged.
        UnavailableError: The state's store does not answer.
    """
    kept = FollowedColumns(changes=[*followed_columns(generation), *changes])
    generation.replace(_NAME, kept)


def with_followed_columns(loaded: LoadedPipeline, generation: Generation) -> LoadedPipeline:
    """Return a copy of a pipeline whose last source also declares the adopted column changes.

    An added column that the user declares or ignores stays as the user says. Of two types of a
    widened column the wider one counts. The same pipeline if its last source is no captured table,
    or nothing was adopted.

    Raises:
        StateError: The document is damaged, or of an unknown version.
        UnavailableError: The state's store does not answer.
    """
    source = loaded.pipeline.sources[-1]
    if not isinstance(source, KafkaSource) or (table := source.changes) is None:
        return loaded
    declared = {*source.value_columns, *table.added_types, *table.ignored_columns}
    changes = followed_columns(generation)
    more = {
        each.column: AddedColumn(type=each.type, default=each.default)
        for each in changes
        if each.kind == "added" and each.column not in declared
    }
    added = {**table.added_columns, **more}
    wider = dict(table.widened_columns)
    for each in changes:
        before = wider.get(each.column, source.value_columns.get(each.column))
        # One may be widened more than once, and declared as well: the widest type counts.
        if each.kind == "widened" and before is not None and is_widened(before, each.type):
            wider[each.column] = each.type
    if added == table.added_columns and wider == table.widened_columns:
        return loaded
    followed = table.model_copy(update={"added_columns": added, "widened_columns": wider})
    changed = source.model_copy(update={"value": followed})
    sources = [*loaded.pipeline.sources[:-1], changed]
    return replace(loaded, pipeline=loaded.pipeline.model_copy(update={"sources": sources}))
