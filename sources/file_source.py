"""Declaration of a bounded source: files."""

from __future__ import annotations

from typing import Literal

from pydantic import ByteSize, Field, PositiveInt, model_validator

from sources.declared import Columns, Declared, Duration, Instant, Name, Sequence
from sources.hybrid import Boundedness


class FileBatch(Declared):
    """How much of the files one micro-batch takes in.

    Attributes:
        files: Splits at most.
        bytes: Size on disk at most; one split is always taken.

    """

    files: PositiveInt = 1000
    bytes: ByteSize = ByteSize(1 << 30)


class OffsetColumns(Declared):
    """Columns of history that hold each row's Kafka partition and offset."""

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


class FileSource(Declared):
    """A bounded source: files that exist when the plan is made.

    Attributes:
        path: Glob or globs; ``**`` crosses folders. Relative to the pipeline's file.
        format: ``parquet``, or ``json`` for JSON lines.
        columns: Column names and Spark SQL types. Needed for JSON; Parquet knows its own.
        batch: Admission of one micro-batch.
        complete_through: Every row up to this time is in the files; their highest event time
            minus the allowed lateness, if left out.
        offsets: How the files tell which Kafka records they hold: ``names`` (as Kafka Connect
            writes them, ``topic+partition+start[+end].ext``) or two columns of Parquet files.
        sequence: Log position of the database snapshot that the files are (PostgreSQL: an LSN,
            ``16/B374D848``); changes at or before it are dropped.
        converge: For a folder that grows while it is read.

    """

    type: Literal["files"]
    name: Name
    path: str | list[str]
    format: Literal["parquet", "json"]
    columns: Columns | None = Field(default=None, alias="schema")
    batch: FileBatch = FileBatch()
    complete_through: Instant | None = None
    offsets: Literal["names"] | OffsetColumns | None = None
    sequence: Sequence | None = None
    converge: Converge | None = None

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
        if self.format == "json" and isinstance(self.offsets, OffsetColumns):
            message = (
                "`offsets` by columns needs Parquet: of JSON lines every byte would be read twice. "
                "Use `offsets: names`, or leave it out"
            )
            raise ValueError(message)
        return self
