"""Columns of a captured table that a generation's runs have followed by themselves.

The declaration stays the user's: what was followed is kept in the state of the generation, and the
declaration that its runs go by is made of both. Another generation has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sources.common.positions import Part, Record, iso
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.decoding.added_columns import AddedColumn
from sources.state.generation import Generation

_NAME = "followed-columns.json"


class FollowedChange(Part):
    """A column that a source's table got, and that the target got for it.

    Attributes:
        column: Name of the column.
        type: Its Spark SQL type.
        default: What rows from before hold; null if left out.
        topic: Topic of the change that had it first.
        partition: Partition of that change.
        offset: Its offset.
        position: Its position in the database's log; None if it is not known.
        at_ms: When it was followed, in ms since 1970.
    """

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
        log = "" if self.position is None else f", log position {self.position}"
        return (
            f"column `{self.column}` ({self.type}{default}) was added at {iso(self.at_ms)}, at "
            f"topic `{self.topic}`, partition {self.partition}, offset {self.offset}{log}"
        )


class FollowedColumns(Record):
    """State document of a generation: changes of the captured table that its runs followed.

    Written before the target is changed, so that a run that ends in between completes it.

    Attributes:
        changes: The changes, in the order in which they were met.
    """

    changes: list[FollowedChange]


def followed_columns(generation: Generation) -> list[FollowedChange]:
    """Return the changes that a generation's runs have followed, in order; empty without any.

    Raises:
        StateError: The document is damaged, or of an unknown version.
    """
    kept = generation.read(_NAME, FollowedColumns)
    return [] if kept is None else kept.changes


def keep_followed(generation: Generation, changes: list[FollowedChange]) -> None:
    """Add changes to those that a generation's runs have followed; only its driver calls this.

    Raises:
        StateError: The state can't be written.
    """
    kept = FollowedColumns(changes=[*followed_columns(generation), *changes])
    generation.replace(_NAME, kept)


def with_followed_columns(loaded: LoadedPipeline, generation: Generation) -> LoadedPipeline:
    """Return a pipeline whose last source declares what the generation's runs have followed, too.

    A column that the user declares, or ignores, is as the user says.

    Raises:
        StateError: The state is damaged.
    """
    source = loaded.pipeline.sources[-1]
    if not isinstance(source, KafkaSource) or not source.holds_changes:
        return loaded
    declared = {*source.value_columns, *source.added_types, *(source.ignored_columns or [])}
    more = {
        each.column: AddedColumn(type=each.type, default=each.default)
        for each in followed_columns(generation)
        if each.column not in declared
    }
    return _with_added(loaded, source, more) if more else loaded


def _with_added(
    loaded: LoadedPipeline, source: KafkaSource, more: Mapping[str, AddedColumn]
) -> LoadedPipeline:
    added = {**(source.added_columns or {}), **more}
    sources = [*loaded.pipeline.sources[:-1], source.model_copy(update={"added_columns": added})]
    return replace(loaded, pipeline=loaded.pipeline.model_copy(update={"sources": sources}))
