"""Options of a file source: batches, offsets, order by arrival, more rounds, time range, drift."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ByteSize,
    Discriminator,
    Field,
    PositiveInt,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from sources.common.durations import Duration, span_ms
from sources.common.fields import Declared, Instant


class FileBatch(Declared):
    """How many splits of files one micro-batch reads; a split is a file, or a region of one.

    Attributes:
        files: Highest number of splits.
        bytes: Size on disk, such as ``4GiB``; once the splits of a micro-batch reach it, no
            further one is added.

    """

    files: PositiveInt = 1000
    bytes: ByteSize = ByteSize(4 << 30)


class OffsetColumns(Declared):
    """Columns of history that hold the Kafka partition and offset of each row.

    Attributes:
        partition: Column with the partition number.
        offset: Column with the offset.
    """

    partition: str
    offset: str


def _every(value: Any) -> Any:
    """Return a duration or a number of offsets, each of them more than nothing."""
    if isinstance(value, int) and not isinstance(value, bool):
        every: int | timedelta = value
    else:
        try:
            every = TypeAdapter[timedelta](Duration).validate_python(value)
        except ValidationError:
            message = (
                f"`{value}` is neither a duration, such as 10 min, nor a number of offsets. Write "
                "one of them."
            )
            raise ValueError(message) from None
    if not every or (isinstance(every, int) and every < 0):
        message = f"`{value}` is not the length of an interval. Write more than 0."
        raise ValueError(message)
    return every


class ArrivalOrder(Declared):
    """Reading in order of arrival, in the micro-batches of a live run with the same interval.

    Each interval in which rows arrived is one micro-batch, as of a run with this
    ``trigger_interval`` that was never behind: Spark's triggers fall on multiples of it since 1970.
    Or each range of so many offsets, as of a run with this ``max_offsets_per_batch`` that read the
    topic from its beginning.

    Attributes:
        arrival: Column of the files with the time at which a row arrived, such as the timestamp of
            its Kafka record; or the column of ``offsets`` with its offset, for one partition.
        every: Length of an interval: a duration for a column with times, a number for offsets.

    """

    arrival: str
    every: Annotated[timedelta | int, BeforeValidator(_every, json_schema_input_type=str | int)]

    @property
    def is_by_offset(self) -> bool:
        """Whether rows are ordered by their offset, not by a time."""
        return isinstance(self.every, int)

    @property
    def step(self) -> int:
        """Length of an interval: in microseconds, or in offsets."""
        return self.every if isinstance(self.every, int) else span_ms(self.every) * 1000


def _known(value: Any) -> Any:
    if value != "event_time":
        message = (
            f"`{value}` is no order. Write `event_time`, or, with a column of the files that holds "
            "the time of arrival, {arrival: COLUMN, every: 10 min}."
        )
        raise ValueError(message)
    return value


BY_NAME, BY_ARRIVAL = "an order by its name", "an order of arrival"
"""What Pydantic's errors name the two kinds of an order by."""
DeclaredOrder = Annotated[
    Annotated[Literal["event_time"], BeforeValidator(_known), Tag(BY_NAME)]
    | Annotated[ArrivalOrder, Tag(BY_ARRIVAL)],
    Discriminator(lambda value: BY_ARRIVAL if isinstance(value, dict | ArrivalOrder) else BY_NAME),
]
"""``event_time``, or the order of arrival by a column."""


class Converge(Declared):
    """Further bounded rounds over files that arrived in the meantime, before the hand-over.

    Attributes:
        gap: The hand-over takes place once the newest record of the topic is no more than this
            ahead of history.
        rounds: Highest number of rounds; after them the hand-over takes place in any case.

    """

    gap: Duration
    rounds: PositiveInt = 20


class TimeRange(Declared):
    """Half-open range of event times.

    Attributes:
        since: First event time that is read; unlimited by default.
        until: First event time that is no longer read; unlimited by default.

    """

    since: Instant | None = None
    until: Instant | None = None

    @model_validator(mode="after")
    def _is_not_empty(self) -> TimeRange:
        if self.since is not None and self.until is not None and self.since >= self.until:
            message = (
                f"`since: {self.since.isoformat()}` is not before "
                f"`until: {self.until.isoformat()}`, so no row would be read. Correct one of them."
            )
            raise ValueError(message)
        return self


class SchemaDrift(Declared):
    """How files whose columns differ are read as one; ``{}`` for what follows by itself.

    By itself a column that a file lacks is null in its rows, and a narrower type is read as the
    wider one: integers, float as double, decimals with more digits.

    Attributes:
        renamed: Name of a column by the name that it has in other files, such as
            ``{cust: customer_id}``.
        defaults: Value of a column in the rows of files that lack it, such as ``{currency: EUR}``.
    """

    renamed: dict[str, str] = Field(default_factory=dict)
    defaults: dict[str, bool | int | float | str | datetime | date] = Field(default_factory=dict)

    def other_names(self, column: str) -> tuple[str, ...]:
        """Return the older names under which some files have a column; empty if there are none."""
        return tuple(old for old, new in self.renamed.items() if new == column)

    @model_validator(mode="after")
    def _names_are_final(self) -> SchemaDrift:
        for old, new in self.renamed.items():
            if new in self.renamed:
                message = (
                    f"`renamed: {{{old}: {new}}}` names a column that is renamed itself. Write the "
                    f"last name of the column for each of the others: `{old}: "
                    f"{self.renamed[new] if self.renamed[new] != old else '<last name>'}`."
                )
                raise ValueError(message)
        if doubled := set(self.defaults) & set(self.renamed):
            name = min(doubled)
            message = (
                f"`defaults` has the column `{name}`, which is read as `{self.renamed[name]}`. "
                f"Write the default for `{self.renamed[name]}`."
            )
            raise ValueError(message)
        return self
