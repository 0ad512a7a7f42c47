"""Interface of a source's declaration: what it answers without data or a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, Self

from sources.common.sql.select import Selection
from sources.config.source.event_time import EventTime
from sources.config.source.rate_limit import RateLimit
from sources.config.source.snapshot import SnapshotOptions
from sources.config.table.sink import Sink
from sources.decoding.changes.declared_table import DeclaredTable
from sources.decoding.record_columns import EnvelopePart
from sources.hybrid import Source


class Chain(Protocol):
    """Interface of a pipeline for checks of its sources: event time, sequence and sink."""

    @property
    def event_time(self) -> EventTime:
        """Column with the event time of a row, and the times that count."""

    @property
    def sequence(self) -> str | None:
        """Column with the log position of each row (``sequence``); None if none is declared."""

    @property
    def sink(self) -> Sink:
        """Declaration of the target table."""

    def topic_after(self, name: str, /) -> DeclaredSource | None:
        """Return the first Kafka source after the source of this name; None if there is none."""


class DeclaredSource(Source, Protocol):
    """Interface of a source's declaration, the same for files and topics.

    Code that does not read the source itself asks these questions instead of asking which kind of
    source it has. All are answered from the declaration, without data or a broker. The kinds are
    listed in :mod:`sources.config.source.source_kinds`; one that an extension adds becomes a file
    source.
    """

    @property
    def type(self) -> str:
        """Kind of the source as in YAML: ``files`` or ``kafka``."""

    @property
    def asset(self) -> str | None:
        """Declared key of the source's Dagster asset; None for a key derived from its address."""

    @property
    def rate(self) -> RateLimit:
        """Declared rate limit per second; without values if reading is not limited."""

    @property
    def on_bad_record(self) -> Literal["fail", "drop", "quarantine"]:
        """Declared treatment of a record that can't be read.

        ``fail`` ends the run, ``drop`` skips the record, ``quarantine`` writes it to a table.
        """

    @property
    def select(self) -> Mapping[str, str]:
        """Output columns as Spark SQL expressions; empty if all columns are kept as they are."""

    @property
    def selection(self) -> Selection:
        """Expressions of ``select`` and their types; made at each access, without reading data."""

    @property
    def column_names(self) -> list[str] | None:
        """Declared names of the output columns; None if the data or the source before has them."""

    @property
    def patterns(self) -> Sequence[str]:
        """Globs of the files that are read, as declared; empty for a topic."""

    @property
    def snapshot(self) -> SnapshotOptions | None:
        """Options of the copy of a database table into its files; None if it needs no copy."""

    @property
    def functions(self) -> Mapping[str, str]:
        """User functions that the source names, as ``module:function`` by field; empty if none."""

    @property
    def extras(self) -> Sequence[tuple[str, str]]:
        """Extras of this project that reading needs, each with what needs it, for messages.

        Empty if reading needs none.
        """

    @property
    def has_hand_over(self) -> bool:
        """Whether a hand-over decides its start, once the sources before it have finished.

        True for a topic, which is read from explicit offsets on. Files have none: the plan lists
        what is read.
        """

    @property
    def changes(self) -> DeclaredTable | None:
        """The database table whose changes its records are (Debezium); None if records are rows."""

    def envelope_column(self, part: EnvelopePart, /) -> str | None:
        """Return the output column that holds a part of a change event's envelope; else None.

        The envelope is what surrounds the row in a Debezium event: operation, log position, times.
        None, too, if the source holds rows instead of changes.

        Args:
            part: Part of the envelope, such as ``committed_at``.
        """

    def located(self, locate: Callable[[str], str], absolute_url: Callable[[str], str], /) -> Self:
        """Return a copy of the source with its paths made absolute where they have to be.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
            absolute_url: Adds the namenode to ``hdfs:///…``; leaves other paths as they are.

        Raises:
            ValueError: A path is ``hdfs:///…`` and no namenode is declared.
        """

    def contract(self) -> dict[str, object]:
        """Return the declared values that may not change while a checkpoint is in use.

        Their digests are kept in the state; a run is refused after one of them was changed.

        Returns:
            Value by name of the field or group of fields, such as ``sources.history.read``.
        """

    def check_rate(self, limit: RateLimit) -> None:
        """Refuse a rate limit of quantities that this source does not have.

        Called for the declared limit, and whenever another one is to be put into force.

        Args:
            limit: Rate limit per second.

        Raises:
            InputError: Such as ``offsets`` of files; names the quantity and those that are allowed.
        """

    def check_after(self, before: DeclaredSource | None) -> None:
        """Refuse this source if it can't follow the source before it, or can't be the first.

        Called while the pipeline's declaration is validated.

        Args:
            before: The source right before it; None if it is the first.

        Raises:
            ValueError: It can't follow that source, or can't be the first.
        """

    def check_before(self, after: DeclaredSource | None, chain: Chain) -> None:
        """Refuse declared fields that the source after it, or the pipeline, does not fit.

        Called while the pipeline's declaration is validated.

        Args:
            after: The source right after it; None if it is the last.
            chain: The pipeline.

        Raises:
            ValueError: A declared field needs another source after it, or a field of the pipeline
                that is not declared; names both.
        """
