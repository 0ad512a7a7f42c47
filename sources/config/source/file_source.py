"""Declaration of a file source: the files that exist, or a folder that keeps growing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, NonNegativeInt, PrivateAttr, model_validator

from sources.common.durations import Duration
from sources.common.fields import AssetName, Columns, Instant, Name, Sequence
from sources.common.positions import Offsets
from sources.common.sql.select import EventColumn, Selection
from sources.config.source.bad_record_policy import BadRecords
from sources.config.source.declared_source import Chain, DeclaredSource
from sources.config.source.file_format_checks import check_format, check_offsets, check_place
from sources.config.source.file_option_conflicts import (
    check_arrival,
    check_arrival_offsets,
    check_bad_rows,
    check_drift,
    check_endless,
    check_snapshot,
    check_snapshot_changes,
    check_snapshot_sequence,
)
from sources.config.source.file_options import (
    ArrivalOrder,
    Converge,
    DeclaredOrder,
    FileBatch,
    OffsetColumns,
    SchemaDrift,
    TimeRange,
)
from sources.config.source.rate_limit import RateLimit, require_meaning
from sources.config.source.snapshot import SnapshotOptions
from sources.decoding.record_columns import EnvelopePart
from sources.formats.csv_options import CsvOptions
from sources.hybrid import Boundedness
from sources.storage.folder_partitions import FolderTime


def _folder_time(pattern: str) -> str:
    FolderTime(pattern)
    return pattern


_EXTRAS = {"avro": "avro", "iceberg": "lake"}


class FileSource(BadRecords):
    """Files: those that exist when the plan is made or, with an interval, also later ones.

    Attributes:
        type: Always ``files``.
        name: Name of the source and of its asset: lower case letters, digits and underscores.
        asset: Key of the Dagster asset that this data is, such as ``raw/orders``; by default a key
            made of its address.
        path: Glob or list of globs; ``**`` matches any number of folders. Relative to the
            pipeline's file, or ``s3://bucket/…``, ``hdfs://namenode/…``, ``gs://bucket/…``, or
            ``abfss://container@account.dfs.core.windows.net/…``. Names that begin with ``_`` or
            ``.`` are ignored. Required, except for a table with a name.
        format: File format. ``json`` means JSON lines; ``text`` gives one column, ``value``;
            ``delta`` reads a Delta table, whose folder ``path`` then is; ``iceberg`` an Iceberg
            table, whose metadata file (``….metadata.json``), or folder with a
            ``metadata/version-hint.text``, ``path`` is.
        table: Name of a table, instead of ``path``. Delta: ``schema.table`` in the catalog of
            Spark's session. Iceberg: ``catalog.namespace.table``, the catalog as PyIceberg is
            configured. The plan looks up its place; runs go by that.
        version: Delta: version of the table; Iceberg: id of a snapshot. By default the newest one
            at planning time.
        columns: Column names and Spark SQL types. Required for JSON and CSV; other formats carry
            their own.
        csv: CSV dialect.
        partitions: Partition columns and their Spark SQL types: columns whose values are only in
            folder names, such as ``day=2024-01-01``.
        schema_drift: Parquet, Avro and ORC: files whose columns differ are read as one, where no
            value loses anything; without it, or a ``schema`` for Avro, they are refused.
        folder_time: Format of folder names that tell the event times inside of them, in UTC, such
            as ``dt=%Y-%m-%d/hour=%H``.
        time_range: Event times to read. Files outside of it are not opened.
        select: Output columns as Spark SQL expressions of the columns of the files; all columns
            unchanged by default. ``CAST(… AS <type>)`` around an expression declares its type.
        order: Order in which the rows are read: ``event_time`` reads each file as a whole, by its
            lowest event time; ``{arrival: COLUMN, every: 10 min}`` reads Parquet files as a live
            run would have, so that rows that came late are late.
        batch: Size limits of one micro-batch; with ``order: event_time`` only.
        rate: Rate limit per second: ``bytes``, ``files`` and, for Parquet, ORC and Delta,
            ``rows``.
        complete_through: Time up to which the files hold every row. By default their highest
            event time minus ``allowed_lateness``.
        offsets: Where the files hold the Kafka offsets of their rows: ``names`` for file names as
            Kafka Connect writes them (``topic+partition+start[+end].ext``), or two columns of
            Parquet files.
        sequence: Log position of the database snapshot that the files are (PostgreSQL: an LSN,
            such as ``16/B374D848``); changes at or before it are dropped.
        snapshot: The files are a snapshot of the table whose changes the next source holds;
            ``hybrid snapshot`` takes it.
        converge: For a folder that grows while it is read: further rounds before the hand-over.
        discovery_interval: Time between two listings of a folder, or two looks at the log of a
            Delta table, that is read without end (FLIP-27: ``FileSource.monitorContinuously``).
            Without it the source is bounded.

    """

    type: Literal["files"]
    name: Name
    asset: AssetName | None = None
    path: str | list[str] | None = None
    format: Literal["parquet", "json", "csv", "avro", "orc", "text", "delta", "iceberg"]
    table: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")] | None = None
    version: NonNegativeInt | None = None
    columns: Columns | None = Field(default=None, alias="schema")
    csv: CsvOptions = CsvOptions()
    partitions: Columns = Field(default_factory=dict)
    schema_drift: SchemaDrift | None = None
    folder_time: Annotated[str, AfterValidator(_folder_time)] | None = None
    time_range: TimeRange = TimeRange()
    select: dict[str, str] = Field(default_factory=dict)
    order: DeclaredOrder = "event_time"
    batch: FileBatch = FileBatch()
    rate: RateLimit = RateLimit()
    complete_through: Instant | None = None
    offsets: Literal["names"] | OffsetColumns | None = None
    sequence: Sequence | None = None
    snapshot: SnapshotOptions | None = None
    converge: Converge | None = None
    discovery_interval: Duration | None = None
    _is_parsed: bool = PrivateAttr(default=False)

    @property
    def boundedness(self) -> Boundedness:
        """``BOUNDED``, or ``CONTINUOUS_UNBOUNDED`` if ``discovery_interval`` is declared."""
        is_bounded = self.discovery_interval is None
        return Boundedness.BOUNDED if is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def patterns(self) -> list[str]:
        """Declared globs of the files, as a list even if ``path`` is a single one.

        For a table that is declared by its name this is its folder, once the plan has looked it up
        (:mod:`sources.planning.files.table_places`); until then it is empty.
        """
        return [self.path] if isinstance(self.path, str) else self.path or []

    @property
    def exported_offsets(self) -> Offsets | None:
        """Kafka offsets that an export says its files hold; None of files that others wrote."""
        return None

    @property
    def shown_place(self) -> str:
        """Name of the table, or the globs, for display."""
        return self.table or ", ".join(self.patterns)

    def require_place(self) -> None:
        """Refuse a source whose place is looked up elsewhere and is not known; called by the plan.

        Does nothing for one that declares its place.
        """

    @property
    def is_placed_by_plan(self) -> bool:
        """Whether the plan looks up the place, which all that follows goes by: a table's name."""
        return self.table is not None

    @property
    def is_parquet(self) -> bool:
        """Whether the data files are Parquet: ``format`` is that, or a table's."""
        return self.format == "parquet" or self.is_table

    @property
    def reads_candidate(self) -> bool:
        """Whether it reads the table of another pipeline's candidate, which no reader sees yet.

        False here; a source of an extension may do so.
        """
        return False

    @property
    def is_table(self) -> bool:
        """Whether one version of a table is read: ``format`` is ``delta`` or ``iceberg``."""
        return self.format in ("delta", "iceberg")

    @property
    def arrival(self) -> ArrivalOrder | None:
        """The declared order of arrival; None if the rows are read by event time."""
        return self.order if isinstance(self.order, ArrivalOrder) else None

    @property
    def is_read_by_spark(self) -> bool:
        """Whether Spark's own reader reads the files, each as a whole: Parquet by event time.

        If False, this project's tasks parse them split by split.
        """
        return self.is_parquet and self.arrival is None and not self._is_parsed

    def parsed(self) -> FileSource:
        """Return a copy whose Parquet files this project's tasks parse, as Spark's reader can't."""
        copy = self.model_copy()
        copy._is_parsed = True
        return copy

    @property
    def drift(self) -> SchemaDrift | None:
        """How files whose columns differ are read as one; None if all must have the same columns.

        Avro files with a declared ``schema`` may differ without ``schema_drift``, too.
        """
        if self.schema_drift is None and self.format == "avro" and self.columns:
            return SchemaDrift()
        return self.schema_drift

    @property
    def names_inside(self) -> list[str] | None:
        """Names that the declared columns may have inside files; None without ``schema``.

        Includes older names of renamed columns, and partition columns.
        """
        if self.columns is None:
            return None
        drift = self.schema_drift or SchemaDrift()
        others = (old for old, new in drift.renamed.items() if new in self.columns)
        return [*self.columns, *others, *self.partitions]

    @property
    def column_names(self) -> list[str] | None:
        """Declared names of the output columns; None if only the files contain them."""
        if self.select:
            return list(self.select)
        return [*self.columns, *self.partitions] if self.columns else None

    @property
    def selection(self) -> Selection:
        """Expressions of ``select`` and their types; made at each access, without reading data."""
        return Selection(self.name, self.select)

    def event_column(self, event_time: str) -> EventColumn | None:
        """Return the files' column that the event time is read from, with its unit, or None.

        Also the column inside ``timestamp_seconds``, ``timestamp_millis`` or ``timestamp_micros``.
        None if another expression than these or a plain column computes the event time, or
        ``select`` does not have it.

        Args:
            event_time: Event-time column of the output, after ``select``.

        Raises:
            InputError: An expression of ``select`` is not SQL.
        """
        event = self.selection.event_column(event_time)
        if event is None or self.schema_drift is None:
            return event
        return event._replace(others=self.schema_drift.other_names(event.name))

    @property
    def functions(self) -> dict[str, str]:
        """Empty: a file source declares no user functions."""
        return {}

    @property
    def extras(self) -> list[tuple[str, str]]:
        """Extras of this project that reading needs, each with what needs it, for messages.

        Empty if it needs none.
        """
        found = (
            [(_EXTRAS[self.format], f"`format: {self.format}`")] if self.format in _EXTRAS else []
        )
        if any(pattern.startswith("hdfs://") for pattern in self.patterns):
            found.append(("hdfs", "an `hdfs://` path"))
        return [*found, (self.snapshot.kind.name, "`snapshot`")] if self.snapshot else found

    @property
    def has_hand_over(self) -> bool:
        """False: the plan lists the files, so no start position is decided for them."""
        return False

    @property
    def changes(self) -> None:
        """None: files hold rows, not changes of a database table."""
        return

    def envelope_column(self, _part: EnvelopePart) -> str | None:
        """Return None, whatever the part: files hold rows, no change events with an envelope.

        For a topic of changes it is the column with a part of Debezium's event, such as the
        position.
        """
        return None

    def located(
        self, locate: Callable[[str], str], absolute_url: Callable[[str], str]
    ) -> FileSource:
        """Return a copy with the namenode in ``hdfs:///…`` and an absolute quarantine path.

        Globs of local files stay relative to the pipeline's file.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
            absolute_url: Adds the namenode to ``hdfs:///…``; leaves other paths as they are.

        Raises:
            ValueError: A path is ``hdfs:///…`` and no namenode is declared.
        """
        paths = [absolute_url(pattern) for pattern in self.patterns] or None
        return self.model_copy(update={**self.quarantine_located(locate), "path": paths})

    def contract(self) -> dict[str, object]:
        """Return the declared values that may not change while a checkpoint is in use.

        Returns:
            Value by name of the field or group of fields, such as ``sources.NAME.end``.
        """
        end = self.model_dump(mode="json", include={"complete_through", "offsets", "sequence"})
        if self.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
            end["boundedness"] = self.boundedness.value
        read = {"partitions", "select", "time_range", "version"}
        place = f"sources.{self.name}"
        contract: dict[str, object] = {
            place: [self.type, self.format, self.table or self.patterns, self.columns],
            f"{place}.end": end,
            f"{place}.read": {
                **self.model_dump(mode="json", include=read),
                "csv": self.csv.contract(),
            },
        }
        if self.arrival is not None:
            contract[f"{place}.order"] = self.arrival.model_dump(mode="json")
        if self.schema_drift is not None:
            contract[f"{place}.schema_drift"] = self.schema_drift.model_dump(mode="json")
        if self.snapshot is not None:
            contract[f"{place}.snapshot"] = self.snapshot.topic or True
        return contract

    def check_rate(self, limit: RateLimit) -> None:
        """Refuse limits that files do not have.

        ``bytes`` and ``files`` are allowed; ``rows`` too for Parquet, ORC, and tables of Delta and
        Iceberg, which record how many rows a file holds.

        Args:
            limit: Rate limit per second.

        Raises:
            InputError: The limit has ``offsets``, or ``rows`` for another format.
        """
        if self.is_parquet or self.format == "orc":
            require_meaning(self.name, "a file source", limit, ["bytes", "files", "rows"])
        else:
            kind = f"whose {self.format} files do not record how many rows they hold"
            kind = kind if limit.rows is not None else "a file source"
            require_meaning(self.name, kind, limit, ["bytes", "files"])

    def check_after(self, before: DeclaredSource | None) -> None:
        """Refuse files right after a topic, and a table that is followed after anything.

        Rows that are in both could not be recognized.

        Args:
            before: The source right before this one; None if this is the first.

        Raises:
            ValueError: The source before reads a topic, or this one follows a table.
        """
        if before is not None and before.has_hand_over:
            message = (
                f"source `{self.name}`: files can't come after the topics of source "
                f"`{before.name}`, as rows that are in both could not be recognized. Move "
                f"`{self.name}` before `{before.name}`."
            )
            raise ValueError(message)
        if before is not None and self.is_table and self.discovery_interval is not None:
            message = (
                f"source `{self.name}` follows a table, so it can't come after source "
                f"`{before.name}`: it reads the rows that the table has, too, before those that "
                f"are appended. Remove `{before.name}`, or `discovery_interval`."
            )
            raise ValueError(message)

    @property
    def follows_while_reading(self) -> bool:
        """Whether it is a database snapshot that is still read while its changes are followed.

        As declared (``follow``), whether or not all of it is read by now.
        """
        return self.snapshot is not None and self.snapshot.follows_while_reading

    def check_before(self, after: DeclaredSource | None, chain: Chain) -> None:
        """Refuse ``snapshot``, ``converge`` or ``sequence`` if the next source does not fit.

        Args:
            after: The source right after this one; None if this is the last.
            chain: The pipeline.

        Raises:
            ValueError: A declared one of the three needs another source after it, or fields of the
                pipeline that are not declared.
        """
        if self.snapshot is not None:
            # Snapshots of other shards may be in between.
            changes = after if self.snapshot.topic is None else chain.topic_after(self.name)
            check_snapshot_changes(self.name, self.snapshot, changes, chain)
        if self.converge is not None and (after is None or not after.has_hand_over):
            message = (
                f"source `{self.name}` can't `converge`: no topic comes after it. Remove "
                f"`converge`, or put a source with `type: kafka` right after `{self.name}`."
            )
            raise ValueError(message)
        if self.sequence is not None:
            check_snapshot_sequence(self.name, after, chain)

    @model_validator(mode="after")
    def _is_consistent(self) -> FileSource:
        if self.on_bad_record != "fail":
            check_bad_rows(self.format, self.on_bad_record, multiline=self.csv.multiline)
        self.check_rate(self.rate)
        self._check_place()
        check_format(self)
        check_offsets(self)
        if self.discovery_interval is not None:
            check_endless(self.format, self.discovery_interval, self.model_fields_set)
        if self.schema_drift is not None:
            check_drift(self.format, self.schema_drift, self.offsets)
        if self.arrival is not None:
            check_arrival(self.format, self.model_fields_set)
            check_arrival_offsets(self.arrival, self.offsets)
        if self.snapshot is not None:
            check_snapshot(self.format, self.patterns, self.model_fields_set)
        return self

    def _check_place(self) -> None:
        """Refuse files without a place; files of an export get theirs with the generation."""
        check_place(self)
