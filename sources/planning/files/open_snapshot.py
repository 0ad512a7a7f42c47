"""Database snapshot that stays open: its chunks are read next to the topic of the table's changes.

Its first chunk is planned and read as any history, so the topic starts where the log ended before
that chunk was read. Each later chunk is a round of the plan, which the run of the topic adds. Rows
of a snapshot have no log position: whenever one is merged, a change or delete of its key wins. So
it does not matter under which later snapshot a chunk was read: the changes that it contains are in
the topic, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sources.common.counting import counted
from sources.common.state_document import Record
from sources.common.times import iso, now_ms
from sources.config.source.file_source import FileSource
from sources.config.source.snapshot import (
    MANIFEST,
    SnapshotManifest,
    folder_of,
    require_snapshot,
)
from sources.errors import StateError
from sources.files.listing.new_files import list_arrived, paths_of
from sources.planning.context import PipelineContext
from sources.planning.files.file_plan import FilePlan, read_splits
from sources.planning.files.rounds import Due, history_of, make_round
from sources.planning.plan import Plan, find_plan
from sources.state.generation import Generation
from sources.storage.folder import Folder

_LISTED_MS = 1000
_WHY = "chunks of the snapshot were read"


class WholeTable(Record):
    """Mark of a generation: all chunks of the snapshot are merged, so the table is whole.

    Attributes:
        source: Name of the source with the snapshot.
        chunks: Number of chunks.
        at_ms: When the last one was seen to be merged, in Unix milliseconds.
    """

    source: str
    chunks: int
    at_ms: int


class OpenSnapshot:
    """Snapshot of a generation whose chunks are added to the plan as they are written.

    Args:
        context: The pipeline and its state.
        source: The source with the snapshot, which :func:`open_source` returns.

    Attributes:
        interval_ms: Time between two looks at the snapshot's folder, in milliseconds.
        is_complete: Whether all chunks are written and planned, as of the last look.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """

    interval_ms = _LISTED_MS

    def __init__(self, context: PipelineContext, source: FileSource) -> None:
        self._context, self._source = context, source
        self._history = history_of(context.generation, context.plan, source.name)
        self._known = self._paths(self.parts)
        self._looked_ms = now_ms()
        self.is_complete = False

    @property
    def parts(self) -> list[FilePlan]:
        """What is planned so far: the first chunks, then those of each round."""
        return self._history.parts

    @property
    def splits(self) -> int:
        """Number of splits, one for each chunk, that are planned so far."""
        return sum(part.splits for part in self.parts)

    @property
    def due_ms(self) -> int:
        """When the next look is due (Unix ms)."""
        return self._looked_ms + self.interval_ms

    def discover(self) -> FilePlan | None:
        """Look for chunks that were written, and plan them as a round, before anything reads them.

        Returns:
            The chunks; None if there are no new ones.

        Raises:
            InputError: A chunk can't be read, or the storage refuses.
            StateError: The snapshot's manifest is damaged, or a chunk that it names is missing.
            UnavailableError: The storage does not answer.
        """
        if self.is_complete:
            return None
        context, source = self._context, self._source
        where = context.loaded.place(folder_of(source.patterns))
        manifest = require_snapshot(where, context.pipeline.name, is_open=True)
        self._looked_ms = now_ms()
        if len(manifest.done) == len(self._known.unique()):
            self.is_complete = not manifest.missing
            return None
        first = self.parts[0]
        listing = list_arrived(
            context.loaded,
            source,
            self._known,
            first.read,
            first.columns,
            is_parsed=first.parsed is not None,
        )
        if listing is None:
            return None
        # No file of a snapshot decides about the seam: its log position does.
        due = Due(_WHY, self._history.seam_end)
        made = make_round(context, source, self._history, listing, due)
        self._history.parts.append(made.files)
        self._known = pa.chunked_array(
            [*self._known.chunks, *self._paths([made.files]).chunks], pa.string()
        )
        return made.files

    def _paths(self, parts: Sequence[FilePlan]) -> pa.ChunkedArray:
        return paths_of(read_splits(part, self._context.generation) for part in parts)

    def keep_whole(self) -> WholeTable:
        """Record that the table is whole; call it once all chunks are committed.

        Returns:
            The mark; an earlier one stays.

        Raises:
            StateError: The state can't be written.
            UnavailableError: The state's store does not answer.
        """
        chunks = len(self._known.unique())
        mark = WholeTable(source=self._source.name, chunks=chunks, at_ms=now_ms())
        return self._context.generation.put_if_absent(_name(self._source.name), mark)


def open_source(context: PipelineContext) -> FileSource | None:
    """Return the source whose snapshot is still open in a generation; None if the table is whole.

    Raises:
        StateError: There is no plan yet, or the state is damaged.
        UnavailableError: The state's store does not answer.
    """
    return _open_source(context, context.plan)


def open_in_words(context: PipelineContext) -> str | None:
    """Return a clause about a snapshot that is still being read; None if the table is whole.

    Such as ``snapshot: 3 of 10 chunks; the table is not whole yet``. None, too, before a plan.

    Raises:
        InputError: The store of the snapshot refuses.
        StateError: The state is damaged.
        UnavailableError: A store does not answer.
    """
    where = _open_folder(context)
    return None if where is None else _in_words(where, where.read(MANIFEST, SnapshotManifest))


def _in_words(where: Folder, manifest: SnapshotManifest | None) -> str:
    if manifest is None:
        return f"snapshot: {where} has lost {MANIFEST}; the table is not whole"
    done, total = len(manifest.done), counted(manifest.total, "chunk")
    return f"snapshot: {done:,} of {total}; the table is not whole yet"


def require_whole(context: PipelineContext, doing: str) -> None:
    """Refuse what needs the whole table, as long as its snapshot is being read.

    Args:
        context: The pipeline and its state.
        doing: What is refused, as a past participle, such as ``compared``.

    Raises:
        InputError: The store of the snapshot refuses.
        StateError: The table is not whole yet (transient), or the snapshot has lost its manifest;
            or the state is damaged.
        UnavailableError: A store does not answer.
    """
    if (where := _open_folder(context)) is None:
        return
    manifest, name = where.read(MANIFEST, SnapshotManifest), context.pipeline.name
    message = f"The table of pipeline `{name}` can't be {doing}: {_in_words(where, manifest)}."
    hint = (
        "`hybrid run P` reads the other chunks, and ends once the table is whole; `hybrid status "
        "P` shows how far it is."
    )
    if manifest is None:
        hint = (
            f"Restore {where.location(MANIFEST)}. If it is lost, take a new snapshot, into a new "
            "folder, and begin a new generation with it: `hybrid generation new P`."
        )
    raise StateError(message, hint, transient=manifest is not None, pipeline=name)


def whole_in_words(mark: WholeTable) -> str:
    """Return a sentence that says since when the table is whole, and by how many chunks."""
    chunks = counted(mark.chunks, "chunk")
    return f"The table is whole since {iso(mark.at_ms)}: {chunks} of the snapshot are merged."


def find_whole(generation: Generation, source: str) -> WholeTable | None:
    """Return the mark that the table is whole; None before it is, or if it was from the start.

    Args:
        generation: State of the generation.
        source: Name of the source with the snapshot.

    Raises:
        StateError: The document is damaged.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(_name(source), WholeTable)


def _open_folder(context: PipelineContext) -> Folder | None:
    """Return the folder of the snapshot that is still open; None if there is none, or no plan."""
    plan = find_plan(context.generation)
    source = None if plan is None else _open_source(context, plan)
    return None if source is None else context.loaded.place(folder_of(source.patterns))


def _open_source(context: PipelineContext, plan: Plan) -> FileSource | None:
    for part in plan.files:
        if part.is_open and find_whole(context.generation, part.source) is None:
            return context.pipeline.file_source(part.source)
    return None


def _name(source: str) -> str:
    return f"whole/{source}.json"
