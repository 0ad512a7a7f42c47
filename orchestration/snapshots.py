"""The snapshots of database tables that a pipeline begins with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sources.common.positions import iso
from sources.config.file_source import FileSource
from sources.config.loader import LoadedPipeline
from sources.errors import InputError


@dataclass(frozen=True)
class Taken:
    """One snapshot.

    Attributes:
        document: As JSON has it.
        text: In words.
    """

    document: dict[str, Any]
    text: str


def declared(loaded: LoadedPipeline) -> list[FileSource]:
    """The sources whose files are snapshots that the pipeline takes."""
    return [
        source
        for source in loaded.pipeline.sources
        if isinstance(source, FileSource) and source.snapshot is not None
    ]


def take(loaded: LoadedPipeline, report: Callable[[str], None]) -> list[Taken]:
    """Take what is not there yet.

    Args:
        loaded: The pipeline.
        report: Told of each chunk.

    Raises:
        InputError: No source declares a `snapshot`; or the database is not as needed.
        RunError: The reading was interrupted; what is there is kept.
    """
    # The driver takes a while to import, and few need it.
    from sources.databases.snapshot_copy import TableSnapshot  # noqa: PLC0415

    sources = declared(loaded)
    if not sources:
        message = f"No source of pipeline `{loaded.pipeline.name}` declares a `snapshot`."
        raise InputError(message, "Add `snapshot: {dsn: …, slot: …}` to its source of files.")
    taken = []
    for source in sources:
        made = TableSnapshot(loaded, source, report)
        manifest = made.take()
        rows = sum(chunk.rows for chunk in manifest.done.values())
        seen = manifest.seen
        document = {
            "source": source.name,
            "table": manifest.table,
            "rows": rows,
            "chunks": len(manifest.done),
            "interrupted": len(manifest.snapshots) - 1,
            **seen.model_dump(mode="json"),
            "warnings": made.warnings,
        }
        lines = [
            f"{source.name}: {rows:,} rows of {manifest.table} as of {iso(seen.taken_ms)}, in "
            f"{len(manifest.done)} chunks; {len(seen.in_progress)} transactions were in flight.",
            *made.warnings,
        ]
        taken.append(Taken(document, "\n".join(lines)))
    return taken
