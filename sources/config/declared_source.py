"""What every source's declaration can answer without looking at data or at a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, Self

from sources.common.select import Selection
from sources.config.rate_limit import RateLimit
from sources.config.sink import Sink
from sources.config.snapshot import SnapshotOptions
from sources.decoding.added_columns import AddedColumn
from sources.decoding.value_format import EnvelopePart
from sources.hybrid import Source

LagUnit = Literal["records", "files"]


class Chain(Protocol):
    """What a source's checks need to know of the pipeline around it."""

    @property
    def event_time(self) -> str:
        """Event-time column."""

    @property
    def sequence(self) -> str | None:
        """Column with a row's log position."""

    @property
    def sink(self) -> Sink:
        """Target table."""


class DeclaredSource(Source, Protocol):
    """A source as it is declared, whatever its kind.

    Code that does not read the source itself asks these questions instead of asking which kind it
    has. A new kind of source implements them, and joins :data:`sources.config.pipeline.SourceSpec`.
    """

    @property
    def type(self) -> str:
        """Kind of the source, as in YAML."""

    @property
    def rate(self) -> RateLimit:
        """Declared rate limit."""

    @property
    def on_bad_record(self) -> Literal["fail", "drop", "quarantine"]:
        """What happens to a record that can't be read."""

    @property
    def select(self) -> Mapping[str, str]:
        """Output columns as Spark SQL expressions; empty if all columns are kept as they are."""

    @property
    def selection(self) -> Selection:
        """Evaluator of ``select``."""

    @property
    def column_names(self) -> list[str] | None:
        """Names of the output columns; None if only the data or another source knows them."""

    @property
    def patterns(self) -> Sequence[str]:
        """Globs of the files that are read; empty for a topic."""

    @property
    def snapshot(self) -> SnapshotOptions | None:
        """How its files are taken from a database table; None if nothing has to be taken."""

    @property
    def functions(self) -> Mapping[str, str]:
        """User functions that the declaration names: field to ``module:function``."""

    @property
    def lag_unit(self) -> LagUnit:
        """What the lag of a live run over this source counts."""

    @property
    def has_hand_over(self) -> bool:
        """Whether a start position is decided for it once the sources before it have finished.

        True for a topic, which is read from explicit offsets on. Files have none: the plan lists
        what is read.
        """

    @property
    def holds_changes(self) -> bool:
        """Whether its records are changes of a database table, not rows."""

    @property
    def added_columns(self) -> Mapping[str, AddedColumn] | None:
        """Columns that the table whose changes it holds got after the generation had begun."""

    @property
    def ignored_columns(self) -> Sequence[str] | None:
        """Columns of that table that no output column is made of."""

    def envelope_column(self, part: EnvelopePart, /) -> str | None:
        """Return the column that a part of a change's envelope fills, or None.

        Args:
            part: Part of the envelope.
        """

    def located(self, locate: Callable[[str], str], absolute_url: Callable[[str], str], /) -> Self:
        """Return the source with absolute paths.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
            absolute_url: Adds the namenode to ``hdfs:///…``; leaves other paths as they are.
        """

    def contract(self) -> dict[str, object]:
        """Return what may not change while a checkpoint is in use: field or group to value."""

    def check_rate(self, limit: RateLimit) -> None:
        """Refuse a rate limit that has no meaning for this source.

        Args:
            limit: The limit.

        Raises:
            InputError: Names the limit and those that have a meaning.
        """

    def check_after(self, before: DeclaredSource | None) -> None:
        """Refuse this source where the chain has it.

        Args:
            before: The source right before it; None if it is the first.

        Raises:
            ValueError: It can't follow that source, or can't be the first.
        """

    def check_before(self, after: DeclaredSource | None, chain: Chain) -> None:
        """Refuse what this source declares about the source that follows, or about the pipeline.

        Args:
            after: The source right after it; None if it is the last.
            chain: The pipeline.

        Raises:
            ValueError: Names the field and what it needs.
        """
