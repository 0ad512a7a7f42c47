"""The declaration of a pipeline: sources in order, a transform, a sink, a state folder."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    PositiveInt,
    model_validator,
)

from sources.hybrid import Boundedness, HybridSource
from sources.schema import parse_schema

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_DURATION = re.compile(r"(\d+)\s*(ms|milliseconds?|s|seconds?|min|minutes?|h|hours?|d|days?)")
_UNIT_MS = {"ms": 1, "mi": 60_000, "s": 1_000, "h": 3_600_000, "d": 86_400_000}
RESERVED_NAMES = {"plan"}


def _duration(value: Any) -> Any:
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip().lower())):
        unit = match[2]
        if unit.startswith("milli"):
            factor = 1
        else:
            factor = next(ms for key, ms in _UNIT_MS.items() if unit.startswith(key))
        return timedelta(milliseconds=int(match[1]) * factor)
    return value


def _name(value: str) -> str:
    if not _NAME.fullmatch(value) or value in RESERVED_NAMES or value.endswith("_start"):
        message = (
            f"`{value}` can't be a name: lower case letters, digits and underscores, starting "
            "with a letter, not `plan` and not ending in `_start`"
        )
        raise ValueError(message)
    return value


def _columns(value: dict[str, str]) -> dict[str, str]:
    parse_schema(value)
    return value


def _instant(value: datetime) -> datetime:
    if value.tzinfo is None:
        message = f"`{value.isoformat()}` needs a time zone, such as {value.isoformat()}Z"
        raise ValueError(message)
    return value.astimezone(UTC)


Name = Annotated[str, AfterValidator(_name)]
Duration = Annotated[timedelta, BeforeValidator(_duration)]
Columns = Annotated[dict[str, str], AfterValidator(_columns)]


class Declared(BaseModel):
    """Base of all declarations: unknown fields are refused, values don't change."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class FileBatch(Declared):
    """How much of the files one micro-batch takes in.

    Attributes:
        files: Splits at most.
        bytes: Size on disk at most; one split is always taken.

    """

    files: PositiveInt = 1000
    bytes: ByteSize = ByteSize(1 << 30)


class FileSource(Declared):
    """A bounded source: files that exist when the plan is made.

    Attributes:
        path: Glob or globs; ``**`` crosses folders. Relative to the pipeline's file.
        format: ``parquet``, or ``json`` for JSON lines.
        columns: Column names and Spark SQL types. Needed for JSON; Parquet knows its own.
        batch: Admission of one micro-batch.

    """

    type: Literal["files"]
    name: Name
    path: str | list[str]
    format: Literal["parquet", "json"]
    columns: Columns | None = Field(default=None, alias="schema")
    batch: FileBatch = FileBatch()

    @property
    def boundedness(self) -> Boundedness:
        """Files are bounded."""
        return Boundedness.BOUNDED

    @property
    def patterns(self) -> list[str]:
        """The globs."""
        return [self.path] if isinstance(self.path, str) else self.path

    @model_validator(mode="after")
    def _json_needs_columns(self) -> FileSource:
        if self.format == "json" and not self.columns:
            message = "`schema` is needed: JSON lines do not carry their types"
            raise ValueError(message)
        return self


class StartAtOffsets(Declared):
    """A fixed hand-over: the first offset to read, for every partition of the topic."""

    offsets: dict[int, int] = Field(min_length=1)


class StartAtTimestamp(Declared):
    """A fixed hand-over: the first record whose timestamp is at or after this time."""

    timestamp: Annotated[datetime, AfterValidator(_instant)]


class KafkaSource(Declared):
    """An unbounded source: one Kafka topic.

    Attributes:
        topic: Its name.
        bootstrap_servers: ``host:port`` list, or ``local`` for the broker of this machine.
        format: How a record's value is written.
        columns: Column names and Spark SQL types; those of the source before, if left out.
        start: ``previous`` (from the end of the source before), ``earliest``, or fixed.
        max_offsets_per_batch: Offsets that one micro-batch takes in at most, all partitions.
        trigger_interval: Time between the starts of two micro-batches.

    """

    type: Literal["kafka"]
    name: Name
    topic: str
    bootstrap_servers: str = "local"
    format: Literal["json"] = "json"
    columns: Columns | None = Field(default=None, alias="schema")
    start: Literal["previous", "earliest"] | StartAtOffsets | StartAtTimestamp = "previous"
    max_offsets_per_batch: PositiveInt = 1_000_000
    trigger_interval: Duration = timedelta(seconds=1)

    @property
    def boundedness(self) -> Boundedness:
        """A topic has no end."""
        return Boundedness.CONTINUOUS_UNBOUNDED


SourceSpec = Annotated[FileSource | KafkaSource, Field(discriminator="type")]


class Sink(Declared):
    """The target Delta table.

    Attributes:
        path: Its folder. Relative to the pipeline's file.
        mode: ``append`` for rows that never change, ``merge`` to update by key.
        key: Columns that identify a row of the target.
        partition_by: Columns whose values become folders.

    """

    path: str
    mode: Literal["append", "merge"]
    key: list[str] = Field(min_length=1)
    partition_by: list[str] = []


class Audit(Declared):
    """How the target is proved.

    Attributes:
        sql: File with a DuckDB query over the view ``input`` (every input row once, by key)
            that computes, independently of Spark, what the target must hold.

    """

    sql: str


class SparkSettings(Declared):
    """How Spark is started.

    Attributes:
        master: Spark's master URL.
        driver_memory: Heap of the driver, as Spark writes it.
        conf: More Spark properties.

    """

    master: str = "local[*]"
    driver_memory: str = "2g"
    conf: dict[str, str] = {}


class Pipeline(Declared):
    """A chain of sources, a transform and a sink.

    Attributes:
        name: Of the pipeline, and of its group of assets.
        sources: In order; all but the last are bounded (FLIP-150).
        event_time: Timestamp column that tells when a row happened.
        key: Columns that identify an input row, the same in all sources.
        allowed_lateness: History is complete up to its end minus this.
        seam_filter: ``key`` removes live rows that history has delivered; ``off`` does not.
        transform: ``module:function``, from DataFrame to DataFrame, for all sources alike.
        sink: The target.
        state: Folder for plan, positions and checkpoint. Relative to the pipeline's file.
        audit: The independent computation.
        spark: How Spark is started.

    """

    name: Name
    sources: list[SourceSpec]
    event_time: str
    key: list[str] = []
    allowed_lateness: Duration = timedelta(0)
    seam_filter: Literal["key", "off"] = "key"
    transform: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    sink: Sink
    state: str
    audit: Audit | None = None
    spark: SparkSettings = SparkSettings()

    @model_validator(mode="after")
    def _chain_is_sound(self) -> Pipeline:
        HybridSource.of(self.sources)
        for before, source in zip([None, *self.sources], self.sources, strict=False):
            if before is None and isinstance(source, KafkaSource):
                # A topic alone is a stream, not a backfill; it has no end to start from.
                if source.start == "previous":
                    message = (
                        f"source `{source.name}` is the first: `start: previous` has no meaning"
                    )
                    raise ValueError(message)
                if source.columns is None:
                    message = f"source `{source.name}` is the first: it needs a `schema`"
                    raise ValueError(message)
        has_hand_over = len(self.sources) > 1 and isinstance(self.sources[-1], KafkaSource)
        if has_hand_over and self.seam_filter == "key" and not self.key:
            message = (
                "`key` is needed: without the columns that identify a row, live rows that history "
                "already delivered can't be told. Declare it, or write `seam_filter: off`"
            )
            raise ValueError(message)
        return self

    def hybrid_source(self) -> HybridSource[FileSource | KafkaSource]:
        """The chain."""
        return HybridSource.of(self.sources)

    def source(self, name: str) -> FileSource | KafkaSource:
        """The source of this name."""
        return next(source for source in self.sources if source.name == name)
