"""Snapshots of a pipeline's database tables: copied once, alone under a lock, or several as one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from orchestration.capture.snapshots import TakenSnapshot, snapshot_sources
from sources.common.counting import counted
from sources.common.times import iso
from sources.config.loader import LoadedPipeline
from sources.config.source.snapshot import SnapshotManifest
from sources.errors import HybridError, InputError, RunError, StateError
from sources.planning.context import PipelineContext
from sources.planning.files.open_snapshot import WholeTable, find_whole, open_source
from spark_jobs.launch import run_control
from spark_jobs.run_state.lock import take_lock

if TYPE_CHECKING:
    from hybrid_extensions.cdc.databases.captured_table import Exported
    from hybrid_extensions.cdc.databases.snapshot_copy import SnapshotCopy

# Readers of the folder pass over names with an underscore.
_LOCK = "_snapshot"
_POLL_S = 0.3


def take(
    loaded: LoadedPipeline, report: Callable[[str], None], *, first_only: bool = False
) -> list[TakenSnapshot]:
    """Copy all declared database tables into files; chunks that were copied before are kept.

    Only chunks that are missing are read; a complete snapshot is returned as it is.

    Args:
        loaded: The pipeline.
        report: Called with a line for each chunk that is copied.
        first_only: Copy one chunk of a table whose changes are followed while the others are read
            (``follow: while_reading``).

    Returns:
        The snapshot of each table, in the order of the sources.

    Raises:
        InputError: No source declares a `snapshot`, or the database does not meet the requirements
            of capturing changes.
        StateError: Another process copies the same table into the same folder (transient).
        RunError: The copy was interrupted; the chunks that are complete are kept.
        UnavailableError: The database or a store does not answer.
    """
    # The database driver takes a while to import, and few commands need it.
    from hybrid_extensions.cdc.databases.snapshot_copy import SnapshotCopy  # noqa: PLC0415

    sources = snapshot_sources(loaded)
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
        _taken(
            source.name,
            _copy(each, first_only=first_only and source.follows_while_reading),
            each.warnings,
        )
        for source, each in zip(sources, copies, strict=True)
    ]


def take_rest(
    context: PipelineContext, report: Callable[[str], None], tell: Callable[[str], None]
) -> WholeTable | None:
    """Copy the chunks of an open snapshot that are missing, and wait until the table is whole.

    The live run merges each chunk while it merges changes. Safe to repeat: chunks that are written
    are kept, and a table that is whole is left as it is. It waits without limit while the live run
    runs.

    Args:
        context: The pipeline and its state.
        report: Called with a line for each chunk that is copied.
        tell: Called with a sentence when all are copied, and the live run has to merge the rest.

    Returns:
        The mark that the table is whole; None if the snapshot was complete when it was planned.

    Raises:
        StateError: Another process copies the same chunks (transient).
        InputError: The database does not meet the requirements of capturing changes.
        RunError: The copy was interrupted, or the live run is not running; chunks that are
            complete are kept.
        UnavailableError: The database or a store does not answer.
    """
    generation, live = context.generation, context.pipeline.sources[-1].name
    if (source := open_source(context)) is None:
        beside = [
            each.name for each in snapshot_sources(context.loaded) if each.follows_while_reading
        ]
        marks = [find_whole(generation, name) for name in beside]
        return next((each for each in marks if each is not None), None)
    take(context.loaded, report)
    tell("All chunks are read; the live run merges the last ones.")
    while (mark := find_whole(generation, source.name)) is None:
        if run_control.find_running(generation, live) is None:
            message = (
                f"All chunks of snapshot `{source.name}` are read, but the live run of "
                f"`{live}`, which merges them, is not running: the table is not whole yet."
            )
            hint = "Read why with `hybrid logs P`, then start it again: `hybrid run P`."
            raise RunError(message, hint, source=live)
        time.sleep(max(_POLL_S, generation.poll_s))
    return mark


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
    from hybrid_extensions.cdc.databases.snapshot_copy import SnapshotCopy, snapshot_of  # noqa: PLC0415

    every = [
        (loaded.pipeline.name, source, SnapshotCopy(loaded, source, report))
        for loaded in pipelines
        for source in snapshot_sources(loaded)
    ]
    due = [each for each in every if not each[2].is_done(first_only=each[1].follows_while_reading)]
    if not due:
        return {}
    found: dict[str, TakenSnapshot | HybridError] = {}
    with snapshot_of([snapshot for *_, snapshot in due]) as exported:
        for name, source, snapshot in due:
            try:
                manifest = _copy(snapshot, exported, first_only=source.follows_while_reading)
                found[name] = _taken(source.name, manifest, snapshot.warnings)
            except HybridError as error:
                found[name] = error
    return found


def _copy(
    snapshot: SnapshotCopy, exported: Exported | None = None, *, first_only: bool
) -> SnapshotManifest:
    """Copy the missing chunks of a table, as the only process that writes to their folder.

    A snapshot in which nothing is missing needs no lock, so its folder need not be writable.

    Raises:
        StateError: Another process holds the folder's lock (transient).
        InputError, RunError, UnavailableError: As :meth:`SnapshotCopy.take`.
    """
    if snapshot.is_done(first_only=first_only):
        return snapshot.take(exported, first_only=first_only)
    if (lock := take_lock(snapshot.folder, _LOCK)) is None:
        message = (
            f"Another process copies the database table into {snapshot.folder}; two of them would "
            "overwrite each other's chunks. Nothing was copied by this one."
        )
        hint = (
            "Wait until it has ended, then try again: chunks that it has copied are kept. Of two "
            "pipelines, give one another `path`."
        )
        raise StateError(message, hint, transient=True, file=snapshot.folder.url)
    try:
        return snapshot.take(exported, first_only=first_only)
    finally:
        lock.release()


def _taken(source: str, manifest: SnapshotManifest, warnings: list[str]) -> TakenSnapshot:
    """Describe a complete snapshot."""
    rows, seen = sum(chunk.rows for chunk in manifest.done.values()), manifest.seen
    chunks = counted(len(manifest.done), "chunk")
    if manifest.missing:
        chunks = f"{len(manifest.done):,} of {counted(manifest.total, 'chunk')}"
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
        f"{chunks} ({_listed(seen.summary())}).",
        *warnings,
    ]
    return TakenSnapshot(document, "\n".join(lines), seen.summary())


def _listed(summary: dict[str, str | int]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in summary.items())
