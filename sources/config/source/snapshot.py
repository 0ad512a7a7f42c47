"""Snapshot of a database table in files: declaration, manifest, and whether all chunks exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveInt, model_validator

from sources.common.database_snapshot import DatabaseSnapshot
from sources.common.fields import Declared
from sources.common.positions import Offsets
from sources.common.state_document import Part, Record
from sources.common.table_definition import TableDefinition
from sources.config.database_kind import DatabaseKind, kind_of
from sources.config.document.plain_secrets import without_password
from sources.decoding.record_columns import EnvelopePart
from sources.errors import StateError
from sources.storage.folder import Folder

MANIFEST = "_manifest.json"
"""Name of a snapshot's manifest, in the folder of its files."""


class SnapshotOptions(Declared):
    """Snapshot of the table whose changes the next source holds.

    Attributes:
        dsn: How the database is reached. PostgreSQL: a connection string of libpq, such as
            ``host=db dbname=shop user=reader``; the password comes from PGPASSWORD, or from libpq's
            password file. MariaDB and MySQL: ``mariadb://reader@db:3306/shop`` or ``mysql://…``,
            with ``?ssl_ca=<file>`` for TLS; the password comes from MYSQL_PWD, or from the file
            that MYSQL_PWD_FILE names.
        slot: PostgreSQL: name of the connector's replication slot. It has to exist before the
            snapshot is taken: changes made before the slot are in no log.
        connector: URL of the connector in Kafka Connect's REST interface, such as
            ``http://connect:8083/connectors/shop``. With it each look at the pipeline says why the
            connector failed, if it did. MariaDB and MySQL: the snapshot, each launch and each look
            also check that the binary log still has what the connector has not read.
        restart_connector: Let the supervision start a connector again that failed, and tasks of
            it, as rarely as ``supervision.restarts`` says. Needs ``connector``.
        topic: The topic of this table's changes, where the pipeline takes one table over from
            several databases (shards), each with a source with a ``snapshot``. ``sink.key`` then
            has the column that ``include`` fills with ``topic``, which names the shard.
        chunk_rows: Approximate number of rows of a chunk, which becomes one file.
        workers: Number of chunks that are read in parallel.
        follow: When changes are merged into the target: ``after_reading`` once the whole table is
            read; ``while_reading`` once its first chunk is, beside the other ones. The table is
            whole once the last chunk is merged. For ``sink.mode: merge``.

    """

    dsn: Annotated[str, AfterValidator(without_password)]
    slot: str | None = None
    connector: str | None = None
    restart_connector: bool = False
    topic: str | None = None
    chunk_rows: PositiveInt = 500_000
    workers: int = Field(default=4, ge=1, le=64)
    follow: Literal["after_reading", "while_reading"] = "after_reading"

    @property
    def follows_while_reading(self) -> bool:
        """Whether changes are merged while chunks of the table are still being read."""
        return self.follow == "while_reading"

    @property
    def kind(self) -> DatabaseKind:
        """Kind of the database, by the scheme of ``dsn``.

        Raises:
            InputError: No installed extension captures tables of such databases.
        """
        return kind_of(self.dsn)

    @property
    def log_reader(self) -> str:
        """Replication slot, or else the URL of the connector, that reads the database's log.

        Empty if neither is declared.
        """
        return self.slot or self.connector or ""

    @property
    def parts(self) -> tuple[EnvelopePart, ...]:
        """Parts of a change's envelope that the hand-over needs, such as ``position``."""
        return self.kind.parts

    @model_validator(mode="after")
    def _fields_match_the_kind(self) -> SnapshotOptions:
        if self.kind.has_slots and not self.slot:
            message = (
                f"`snapshot` of {self.kind.title} needs `slot`, the name of the connector's "
                "replication slot. Add it, or correct `dsn` if the database is of another kind."
            )
            raise ValueError(message)
        if self.restart_connector and self.connector is None:
            message = (
                "`restart_connector` needs `connector`, the connector's URL in Kafka Connect. Add "
                "it, or remove `restart_connector`."
            )
            raise ValueError(message)
        if self.slot and not self.kind.has_slots:
            message = (
                f"`slot` has no meaning with {self.kind.title}, which has no replication slots. "
                "Remove it; `connector` names the connector."
            )
            raise ValueError(message)
        return self


class Chunk(Part):
    """Part of the database table that was written to one file.

    Attributes:
        rows: Number of rows.
        snapshot: Index in ``snapshots`` of the manifest: the database snapshot that it was read in.
    """

    rows: int
    snapshot: int


class SnapshotManifest(Record):
    """Manifest of a snapshot: the document next to its files that says what is written.

    Attributes:
        table: ``schema.table``.
        key: Column by which chunks are divided, and its SQL type; None if the table can't be
            divided, so that it is one chunk.
        bounds: First key of each chunk but the first, as text.
        snapshots: Database snapshots in the order in which they were taken: one, and one more for
            each time that reading was interrupted.
        offsets: Log end of each partition of the topic, right before the first snapshot was taken:
            every change that the snapshot does not contain comes at or after it.
        done: Chunks that are written, by number from 0.
        definition: The table's columns and key in the database's catalog at that time; None if that
            is not known.
    """

    table: str
    key: tuple[str, str] | None
    bounds: list[str]
    snapshots: list[DatabaseSnapshot]
    offsets: Offsets
    done: dict[int, Chunk]
    definition: TableDefinition | None = None

    @property
    def total(self) -> int:
        """Number of chunks of the whole table, written or not."""
        return len(self.bounds) + 1

    @property
    def missing(self) -> list[int]:
        """Numbers, from 0, of the chunks that are not written yet; empty once it is complete."""
        return [number for number in range(self.total) if number not in self.done]

    @property
    def files(self) -> set[str]:
        """Names of the files of the chunks that are written; empty before the first one."""
        return {chunk_name(number) for number in self.done}

    @property
    def seen(self) -> DatabaseSnapshot:
        """The first database snapshot, by which the hand-over decides which changes are contained.

        Chunks read in a later one already contain some later changes; these are merged again, which
        does no harm.
        """
        return self.snapshots[0]


def require_snapshot(where: Folder, pipeline: str, *, is_open: bool = False) -> SnapshotManifest:
    """Return the manifest of a database snapshot, after checking that it is complete.

    Names of files are compared; no data file is opened.

    Args:
        where: Folder of its files.
        pipeline: Name of the pipeline, for messages.
        is_open: Chunks may still be missing, but not all; the file of a missing one may be there.

    Raises:
        StateError: The snapshot was not taken, or not completely; a file of it is missing, or
            another Parquet file is in its folder; or the manifest is damaged.
        UnavailableError: The folder's store does not answer.
        InputError: The folder's store refuses.
    """
    hint = f"Run `hybrid snapshot P` with the file of pipeline `{pipeline}`."
    manifest = where.read(MANIFEST, SnapshotManifest)
    if manifest is None:
        message = f"There is no snapshot of the database table in {where}: {MANIFEST} is missing."
        raise StateError(message, hint, pipeline=pipeline, file=where.url)
    if manifest.missing and not (is_open and manifest.done):
        message = (
            f"The snapshot in {where} is not complete: {len(manifest.done)} of {manifest.total} "
            "chunks are written."
        )
        kept = f"{hint} Chunks that are already written are kept."
        raise StateError(message, kept, pipeline=pipeline, file=where.url)
    present = {
        name
        for name in where.names("*.parquet")
        if "/" not in name and not name.startswith(("_", "."))
    }
    unfinished = {chunk_name(number) for number in manifest.missing}
    if other := (present - unfinished) ^ manifest.files:
        is_missing = min(other) not in present
        path = where.location(min(other))
        message = (
            f"File {path} of the snapshot is missing."
            if is_missing
            else f"File {path} was added to the folder of the snapshot."
        )
        hint = (
            f"{'Restore the file' if is_missing else 'Move the file elsewhere'}; or remove the "
            f"folder, and take the snapshot again with `hybrid snapshot P` (pipeline `{pipeline}`)."
        )
        raise StateError(message, hint, pipeline=pipeline, file=path)
    return manifest


def folder_of(patterns: Sequence[str]) -> str:
    """Return the declared folder of a snapshot's files: ``copy`` of the glob ``copy/*.parquet``.

    The current folder, ``.``, if the glob has no slash.

    Args:
        patterns: Globs of the source, of which a snapshot has exactly one.
    """
    return patterns[0].rpartition("/")[0] or "."


def chunk_name(number: int) -> str:
    """Return the file name of a chunk (part of the table, from 0): ``part-00003.parquet``."""
    return f"part-{number:05}.parquet"
