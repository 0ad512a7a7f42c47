"""Snapshot of a database table in files: its declaration, and the manifest of its files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, PositiveInt

from sources.common.fields import Declared
from sources.common.positions import DatabaseSnapshot, Offsets, Part, Record
from sources.errors import StateError

MANIFEST = "_manifest.json"
_SECRET = re.compile(r"password\s*=|://[^/@]*:[^/@]*@", re.IGNORECASE)


def _without_password(dsn: str) -> str:
    if _SECRET.search(dsn):
        message = "`dsn` can't contain a password: set PGPASSWORD, or use a password file."
        raise ValueError(message)
    return dsn


class SnapshotOptions(Declared):
    """Snapshot of the table whose changes the next source holds.

    Attributes:
        dsn: Connection string of libpq, such as ``host=db dbname=shop user=reader``. The password
            comes from PGPASSWORD, or from libpq's password file.
        slot: Name of the connector's replication slot. It has to exist before the snapshot is
            taken: changes made before the slot are in no log.
        chunk_rows: Approximate number of rows of a chunk, which becomes one file.
        workers: Number of chunks that are read in parallel.

    """

    dsn: Annotated[str, AfterValidator(_without_password)]
    slot: str
    chunk_rows: PositiveInt = 500_000
    workers: int = Field(default=4, ge=1, le=64)


class Chunk(Part):
    """Part of the table that is written to a file.

    Attributes:
        rows: Number of rows.
        snapshot: Index of the manifest's snapshot under which it was read.
    """

    rows: int
    snapshot: int


class SnapshotManifest(Record):
    """Manifest of a snapshot, next to its files.

    Attributes:
        table: ``schema.table``.
        key: Column by which chunks are divided, and its SQL type; None if there is only one chunk.
        bounds: First key of each chunk but the first, as text.
        snapshots: Database snapshots in the order in which they were taken: one, and one more for
            each time that reading was interrupted.
        offsets: Log ends of the topic right before the first one was taken: every change that
            none of them sees comes later.
        done: Chunks that are written, by number.
    """

    table: str
    key: tuple[str, str] | None
    bounds: list[str]
    snapshots: list[DatabaseSnapshot]
    offsets: Offsets
    done: dict[int, Chunk]

    @property
    def missing(self) -> list[int]:
        """Numbers of the chunks that are not written yet."""
        return [number for number in range(len(self.bounds) + 1) if number not in self.done]

    @property
    def seen(self) -> DatabaseSnapshot:
        """Database snapshot that the hand-over goes by: the first one.

        Chunks read under a later one already hold some changes; these are merged again.
        """
        return self.snapshots[0]


def require_snapshot(patterns: Sequence[str], folder: Path, pipeline: str) -> SnapshotManifest:
    """Return the manifest of a snapshot that is complete.

    Args:
        patterns: The one glob of the source.
        folder: Folder of the pipeline's file.
        pipeline: Name of the pipeline, for messages.

    Raises:
        StateError: The snapshot was not taken, or not completely; or the folder holds other files.
    """
    where = folder_of(patterns, folder)
    hint = f"Run `hybrid snapshot` for pipeline `{pipeline}`; chunks that are written are kept."
    try:
        manifest = SnapshotManifest.parse((where / MANIFEST).read_bytes())
    except FileNotFoundError:
        message = f"There is no snapshot in {where}."
        raise StateError(message, hint, pipeline=pipeline, file=str(where)) from None
    if manifest.missing:
        total = len(manifest.bounds) + 1
        message = f"The snapshot in {where} has {len(manifest.done)} of {total} chunks."
        raise StateError(message, hint, pipeline=pipeline, file=str(where))
    present = {
        path.name for path in where.glob("*.parquet") if not path.name.startswith(("_", "."))
    }
    if other := present ^ {chunk_name(number) for number in manifest.done}:
        message = f"File {where / min(other)} is missing, or was added after the snapshot."
        hint = "Remove the folder, and take the snapshot again."
        raise StateError(message, hint, pipeline=pipeline, file=str(where / min(other)))
    return manifest


def folder_of(patterns: Sequence[str], folder: Path) -> Path:
    """Return the folder of a snapshot's files.

    Args:
        patterns: The one glob of the source.
        folder: Folder of the pipeline's file.
    """
    return (folder / patterns[0]).parent


def chunk_name(number: int) -> str:
    """Return the name of a chunk's file."""
    return f"part-{number:05}.parquet"
