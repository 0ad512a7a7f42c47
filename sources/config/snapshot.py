"""A snapshot of a database table in files: how it is taken, and what the files are."""

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
        message = "`dsn` can't hold a password: set PGPASSWORD, or use a password file"
        raise ValueError(message)
    return dsn


class SnapshotOptions(Declared):
    """How the snapshot of a table is taken that a topic's changes go on from.

    Attributes:
        dsn: Where the database is, as libpq takes it: ``host=db dbname=shop user=reader``. The
            password comes from PGPASSWORD, or from libpq's password file.
        slot: The connector's replication slot. It has to be there before the snapshot: changes
            made before the slot are in no log.
        chunk_rows: About how many rows are read at once.
        workers: How many chunks are read in parallel.

    """

    dsn: Annotated[str, AfterValidator(_without_password)]
    slot: str
    chunk_rows: PositiveInt = 500_000
    workers: int = Field(default=4, ge=1, le=64)


class Chunk(Part):
    """One part of the table, read and written.

    Attributes:
        rows: How many there are.
        snapshot: Under which of the manifest's snapshots it was read.
    """

    rows: int
    snapshot: int


class SnapshotManifest(Record):
    """What the files of a snapshot are; it lies beside them.

    Attributes:
        table: ``schema.table``.
        key: Column that the chunks divide, and its SQL type; None if there is one chunk only.
        bounds: First key of each chunk but the first, as text.
        snapshots: In the order in which they were taken: there is another one for each time that
            the reading was interrupted.
        offsets: Log ends of the topic right before the first one was taken: every change that
            none of them sees comes later.
        done: Chunks that are there, by number.
    """

    table: str
    key: tuple[str, str] | None
    bounds: list[str]
    snapshots: list[DatabaseSnapshot]
    offsets: Offsets
    done: dict[int, Chunk]

    @property
    def missing(self) -> list[int]:
        """Numbers of the chunks that are not there yet."""
        return [number for number in range(len(self.bounds) + 1) if number not in self.done]

    @property
    def seen(self) -> DatabaseSnapshot:
        """The snapshot that all chunks have seen: the first one.

        Chunks read under a later one hold some changes already; these are merged once more.
        """
        return self.snapshots[0]


def require_snapshot(patterns: Sequence[str], folder: Path, pipeline: str) -> SnapshotManifest:
    """What the files of a snapshot are, once it is complete.

    Args:
        patterns: The source's one glob.
        folder: Of the pipeline's file.
        pipeline: Its name, for people.

    Raises:
        StateError: It was not taken, or not to its end; or the folder holds other files.
    """
    where = folder_of(patterns, folder)
    hint = f"Run `hybrid snapshot` for pipeline `{pipeline}`; what is there is kept."
    try:
        manifest = SnapshotManifest.parse((where / MANIFEST).read_bytes())
    except FileNotFoundError:
        message = f"There is no snapshot in {where}."
        raise StateError(message, hint) from None
    if manifest.missing:
        total = len(manifest.bounds) + 1
        message = f"The snapshot in {where} has {len(manifest.done)} of {total} chunks."
        raise StateError(message, hint)
    found = {path.name for path in where.glob("*.parquet") if not path.name.startswith(("_", "."))}
    if other := found ^ {chunk_name(number) for number in manifest.done}:
        message = f"{where / min(other)} is not as the snapshot left it."
        raise StateError(message, "Remove the folder, and take the snapshot anew.")
    return manifest


def folder_of(patterns: Sequence[str], folder: Path) -> Path:
    """The folder that the files of a snapshot lie in: that of its one glob."""
    return (folder / patterns[0]).parent


def chunk_name(number: int) -> str:
    """The file of a chunk."""
    return f"part-{number:05}.parquet"
