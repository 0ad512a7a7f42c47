"""Snapshots of database tables that are copied into files as a pipeline's first source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sources.common.counting import counted
from sources.common.positions import iso
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.config.source.snapshot import SnapshotManifest
from sources.errors import HybridError, InputError


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


def declared(loaded: LoadedPipeline) -> list[FileSource]:
    """Return the sources with a `snapshot`, that is, a copy of a database table."""
    return [
        source
        for source in loaded.pipeline.sources
        if isinstance(source, FileSource) and source.snapshot is not None
    ]


def take(loaded: LoadedPipeline, report: Callable[[str], None]) -> list[TakenSnapshot]:
    """Copy all declared database tables into files; chunks that were copied before are kept.

    Only chunks that are missing are read; a complete snapshot is returned as it is.

    Args:
        loaded: The pipeline.
        report: Called with a line for each chunk that is copied.

    Returns:
        The snapshot of each table, in the order of the sources.

    Raises:
        InputError: No source declares a `snapshot`, or the database does not meet the requirements
            of capturing changes.
        RunError: The copy was interrupted; the chunks that are complete are kept.
        UnavailableError: The database or a store does not answer.
    """
    # The database driver takes a while to import, and few commands need it.
    from sources.databases.snapshot_copy import SnapshotCopy  # noqa: PLC0415

    sources = declared(loaded)
    if not sources:
        name = loaded.pipeline.name
        message = f"No source of pipeline `{name}` declares a `snapshot`."
        hint = (
            "To copy a database table first, add `snapshot: {dsn: …}` to the source of files; "
            "otherwise leave `hybrid snapshot P` out and run `hybrid plan P`."
        )
        raise InputError(message, hint, pipeline=name, field="snapshot")
    copies = [SnapshotCopy(loaded, source, report) for source in sources]
    if len(copies) > 1:
        # A shard that can't be captured is told before another one is copied.
        for each in copies:
            each.require_table()
    return [
        _taken(source.name, each.take(), each.warnings)
        for source, each in zip(sources, copies, strict=True)
    ]


def take_together(
    pipelines: Sequence[LoadedPipeline], report: Callable[[str], None]
) -> dict[str, TakenSnapshot | HybridError]:
    """Copy the tables of several pipelines as of one point in time.

    Only tables whose copy is not complete are read. One that fails holds up no other.

    Args:
        pipelines: Pipelines of one database, each with a `snapshot`.
        report: Called with a line for each chunk that is copied.

    Returns:
        By name of the pipeline the snapshot that was taken now, or the error why it was not;
        without those that were complete.

    Raises:
        InputError: The database refuses, or does not meet the requirements of capturing changes;
            nothing was copied.
        UnavailableError: The database does not answer.
    """
    from sources.databases.snapshot_copy import SnapshotCopy, snapshot_of  # noqa: PLC0415

    every = [
        (loaded.pipeline.name, source, SnapshotCopy(loaded, source, report))
        for loaded in pipelines
        for source in declared(loaded)
    ]
    due = [each for each in every if not each[2].is_complete()]
    if not due:
        return {}
    found: dict[str, TakenSnapshot | HybridError] = {}
    with snapshot_of([snapshot for *_, snapshot in due]) as exported:
        for name, source, snapshot in due:
            try:
                manifest = snapshot.take(exported)
                found[name] = _taken(source.name, manifest, snapshot.warnings)
            except HybridError as error:
                found[name] = error
    return found


def _taken(source: str, manifest: SnapshotManifest, warnings: list[str]) -> TakenSnapshot:
    """Describe a complete snapshot."""
    rows, seen = sum(chunk.rows for chunk in manifest.done.values()), manifest.seen
    document = {
        "source": source,
        "table": manifest.table,
        "rows": rows,
        "chunks": len(manifest.done),
        "interrupted": len(manifest.snapshots) - 1,
        **seen.model_dump(mode="json"),
        "warnings": warnings,
    }
    lines = [
        f"{source}: {counted(rows, 'row')} of {manifest.table} as of {iso(seen.taken_ms)}, in "
        f"{counted(len(manifest.done), 'chunk')} ({_listed(seen.summary())}).",
        *warnings,
    ]
    return TakenSnapshot(document, "\n".join(lines), seen.summary())


def _listed(summary: dict[str, str | int]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in summary.items())
