"""Snapshots of database tables: which sources declare one, and what a complete one is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource


@dataclass(frozen=True)
class TakenSnapshot:
    """A complete snapshot of one table.

    Attributes:
        document: Table, rows, chunks, time and log position of the snapshot, as a JSON object.
        text: The same in sentences, a line each; then the warnings.
        position: Position in the database's log, by the database's name for it, such as its LSN or
            GTID.
    """

    document: dict[str, Any]
    text: str
    position: dict[str, str | int]


def snapshot_sources(loaded: LoadedPipeline) -> list[FileSource]:
    """Return the sources with a `snapshot`, a copy of a database table; empty without any."""
    return [
        source
        for source in loaded.pipeline.sources
        if isinstance(source, FileSource) and source.snapshot is not None
    ]
