"""Declaration of a source of files: those that are there, or those that keep arriving."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, ByteSize, Field, NonNegativeInt, PositiveInt, model_validator

from sources.common.fields import Columns, Declared, Duration, Instant, Name, Sequence
from sources.common.select import Selection
from sources.config.bad_records import BadRecords
from sources.config.rate_limit import RateLimit, require_meaning
from sources.config.snapshot import SnapshotOptions
from sources.formats.csv import CsvOptions
from sources.hybrid import Boundedness
from sources.storage.partitions import FolderTime


class FileBatch(Declared):
    """How much of the files one micro-batch takes in.

    Attributes:
        files: Splits at most.
        bytes: Size on disk after which no further split is taken.

    """

    files: PositiveInt = 1000
    bytes: ByteSize = ByteSize(4 << 30)


class OffsetColumns(Declared):
    """Columns of history that hold each row's Kafka partition and offset.

    Attributes:
        partition: Name of the one with the partition.
        offset: Name of the one with the offset.
    """

    partition: str
    offset: str


class Converge(Declared):
    """Short bounded rounds over the files that arrived meanwhile, before the hand-over.

    Attributes:
        gap: Hand over once the newest record of the topic is no more than this ahead of history.
        rounds: How many there are at most.

    """

    gap: Duration
    rounds: PositiveInt = 20


class TimeRange(Declared):
    """A range of event times.

    Attributes:
        since: The first one; from the beginning, if left out.
        until: The one after the last; to the end, if left out.

    """

    since: Instant | None = None
    until: Instant | None = None

    @model_validator(mode="after")
    def _is_not_empty(self) -> TimeRange:
        if self.since is not None and self.until is not None and self.since >= self.until:
            message = f"`since` {self.since.isoformat()} is not before `until`"
            raise ValueError(message)
        return self


def _folder_time(pattern: str) -> str:
    FolderTime(pattern)
    return pattern


class FileSource(BadRecords):
    """Files that exist when the plan is made; with a discovery interval, also those that arrive.

    Attributes:
        type: Always ``files``.
        name: Of the source, and of its asset.
        path: Glob or globs; ``**`` crosses folders. Relative to the pipeline's file, or
            ``s3://bucket/…``, or ``hdfs://namenode/…``.
        format: ``json`` stands for JSON lines; ``text`` has the one column ``value``; ``delta`` is
            a Delta table, whose folder ``path`` then is.
        version: Of a Delta table; the newest when the plan is made, if left out.
        columns: Column names and Spark SQL types. Needed for JSON and CSV; others know their own.
        csv: How CSV is written.
        partitions: Columns that only the names of folders hold (``day=2024-01-01``), and their
            types.
        folder_time: The event times in a folder by its name, as in ``dt=%Y-%m-%d/hour=%H``, UTC.
        time_range: Which rows are wanted; files outside of it are not read.
        select: Columns as Spark SQL expressions of those of the files; all as they are, if left
            out. ``CAST(… AS <type>)`` around an expression tells its type.
        batch: Admission of one micro-batch.
        rate: ``bytes``, ``files`` and, of formats that tell them, ``rows`` by second, at most.
        complete_through: Every row up to this time is in the files; their highest event time
            minus the allowed lateness, if left out.
        offsets: How the files tell which Kafka records they hold: ``names`` (as Kafka Connect
            writes them, ``topic+partition+start[+end].ext``) or two columns of Parquet files.
        sequence: Log position of the database snapshot that the files are (PostgreSQL: an LSN,
            ``16/B374D848``); changes at or before it are dropped.
        snapshot: The files are a snapshot of the table whose changes the topic after them holds;
            ``hybrid snapshot`` takes it.
        converge: For a folder that grows while it is read.
        discovery_interval: How often a folder without end is looked through for files that
            arrived (FLIP-27: ``FileSource.monitorContinuously``); without it, the source is
            bounded.

    """

    type: Literal["files"]
    name: Name
    path: str | list[str]
    format: Literal["parquet", "json", "csv", "avro", "orc", "text", "delta"]
    version: NonNegativeInt | None = None
    columns: Columns | None = Field(default=None, alias="schema")
    csv: CsvOptions = CsvOptions()
    partitions: Columns = Field(default_factory=dict)
    folder_time: Annotated[str, AfterValidator(_folder_time)] | None = None
    time_range: TimeRange = TimeRange()
    select: dict[str, str] = Field(default_factory=dict)
    batch: FileBatch = FileBatch()
    rate: RateLimit = RateLimit()
    complete_through: Instant | None = None
    offsets: Literal["names"] | OffsetColumns | None = None
    sequence: Sequence | None = None
    snapshot: SnapshotOptions | None = None
    converge: Converge | None = None
    discovery_interval: Duration | None = None

    def located(self, locate: Callable[[str], str]) -> FileSource:
        """The same with the path of its quarantine made absolute.

        Args:
            locate: Makes a path of the declaration absolute.
        """
        return self.model_copy(update=self.quarantine_located(locate))

    @property
    def boundedness(self) -> Boundedness:
        """Whether only what the plan finds is read."""
        is_bounded = self.discovery_interval is None
        return Boundedness.BOUNDED if is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def patterns(self) -> list[str]:
        """The globs."""
        return [self.path] if isinstance(self.path, str) else self.path

    @property
    def is_parquet(self) -> bool:
        """Whether the files are Parquet: a Delta table's are."""
        return self.format in ("parquet", "delta")

    @property
    def column_names(self) -> list[str] | None:
        """The columns that come out, where the declaration tells them."""
        if self.select:
            return list(self.select)
        return [*self.columns, *self.partitions] if self.columns else None

    @property
    def selection(self) -> Selection:
        """What becomes of the columns of the files."""
        return Selection(self.name, self.select)

    def check_rate(self, limit: RateLimit) -> None:
        """Refuse a limit that means nothing for the files.

        Only some formats tell how many rows there are before they are read.
        """
        if self.is_parquet or self.format == "orc":
            require_meaning(self.name, "a file source", limit, ["bytes", "files", "rows"])
        else:
            kind = f"whose {self.format} files do not tell how many rows they hold"
            kind = kind if limit.rows is not None else "a file source"
            require_meaning(self.name, kind, limit, ["bytes", "files"])

    @model_validator(mode="after")
    def _tells_bad_rows_apart(self) -> FileSource:
        if self.on_bad_record == "fail":
            return self
        asked = f"`on_bad_record: {self.on_bad_record}`"
        if self.format == "text":
            message = f"{asked} has no meaning for text: every line is a row"
            raise ValueError(message)
        if self.format not in ("json", "csv"):
            message = (
                f"{asked} is for json and csv, whose lines can be read one by one: {self.format} "
                "files carry their types, and one that can't be read is damaged as a whole"
            )
            raise ValueError(message)
        if self.format == "csv" and self.csv.multiline:
            message = (
                f"{asked} can't be combined with `csv.multiline`: where a row ends that can't be "
                "read, nothing tells. Leave one of them out"
            )
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _fits_its_format(self) -> FileSource:
        self.check_rate(self.rate)
        if self.format in ("json", "csv") and not self.columns:
            message = f"`schema` is needed: {self.format} files do not carry their types"
            raise ValueError(message)
        if self.format == "text" and self.columns:
            message = "`schema` has no meaning for text: its one column is `value`"
            raise ValueError(message)
        if not self.is_parquet and isinstance(self.offsets, OffsetColumns):
            message = (
                f"`offsets` by columns needs Parquet: of {self.format} files every byte would be "
                "read twice. Use `offsets: names`, or leave it out"
            )
            raise ValueError(message)
        if self.offsets is not None and self.time_range != TimeRange():
            message = "with `time_range` files do not tell which offsets they hold: omit `offsets`"
            raise ValueError(message)
        if self.format == "delta" and len(self.patterns) != 1:
            message = "`path` names several tables: give each a source of its own"
            raise ValueError(message)
        if self.format == "delta" and (self.partitions or self.offsets == "names" or self.converge):
            message = "a Delta table tells its partitions itself, has no names, and does not grow"
            raise ValueError(message)
        if self.discovery_interval is not None:
            _check_endless(self, self.discovery_interval)
        if self.format != "delta" and self.version is not None:
            message = f"`version` has no meaning for {self.format} files"
            raise ValueError(message)
        if doubled := set(self.partitions) & set(self.columns or {}):
            message = f"`{min(doubled)}` is in `schema` and in `partitions`"
            raise ValueError(message)
        if self.snapshot is not None:
            _check_snapshot(self)
        return self


def _check_snapshot(source: FileSource) -> None:
    """Refuse what means nothing for files that a snapshot makes."""
    given = source.model_fields_set - {"batch", "name", "path", "rate", "snapshot", "type"}
    if source.format != "parquet" or (given := given - {"format"}):
        name = min(given, default="format")
        message = f"with `snapshot` the files are Parquet, as the topic has its rows: omit `{name}`"
        raise ValueError(message)
    if len(source.patterns) != 1 or not source.patterns[0].endswith("/*.parquet"):
        message = "with `snapshot` the `path` is `<folder>/*.parquet`, of a folder of its own"
        raise ValueError(message)
    if "://" in source.patterns[0] or "*" in source.patterns[0].removesuffix("*.parquet"):
        message = "with `snapshot` the `path` is one folder of this machine"
        raise ValueError(message)


def _check_endless(source: FileSource, interval: timedelta) -> None:
    """Refuse what means nothing for a folder that keeps filling."""
    if interval <= timedelta(0):
        message = "`discovery_interval` must be longer than nothing"
        raise ValueError(message)
    if source.format == "delta":
        message = "a Delta table is read at one version: `discovery_interval` has no meaning for it"
        raise ValueError(message)
    ends = {"complete_through", "converge", "offsets", "sequence", "time_range"}
    if given := ends & source.model_fields_set:
        message = f"with `discovery_interval` the source has no end: `{min(given)}` has no meaning"
        raise ValueError(message)
