"""Discovery of files in a folder or table that keeps growing: listed, kept in the state, then read.

As in FLIP-27's ``ContinuousFileSplitEnumerator``, the folder is listed at an interval and a file is
new if its path is not known. Known paths are in the state, so that a file is read once whatever its
times, however slow a listing is, and whenever the run is stopped. Of a Delta table its commits are
read in place of a listing: each discovery has the version up to which they are known.
"""

from __future__ import annotations

import pyarrow as pa

from sources.common.durations import span_ms
from sources.common.state_document import Record
from sources.common.times import now_ms
from sources.errors import StateError
from sources.files.listing.new_files import list_arrived, paths_of
from sources.files.listing.source_listing import new_files
from sources.files.tables.table_commits import Appended, TableCommits
from sources.files.tables.table_position import TablePosition
from sources.planning.context import PipelineContext
from sources.planning.event_times import judge_outside
from sources.planning.files.file_plan import FoundFiles, found_files, keep_splits, read_splits
from sources.planning.files.passed_range import position_after
from sources.state.generation import Generation


class Discovery(Record):
    """Record of the new files that one later listing of a growing folder found.

    Attributes:
        number: Number of the discovery, from 1; the listing of the plan comes before.
        files: The new files; their splits are in a table next to this document.
    """

    VERSION = 2

    number: int
    files: FoundFiles


def found_so_far(generation: Generation, planned: FoundFiles) -> list[FoundFiles]:
    """Read all files of a growing folder that the state knows: the plan's, then each discovery's.

    Args:
        generation: State of the generation.
        planned: Files of the folder that the plan lists.

    Raises:
        StateError: A document is damaged.
        UnavailableError: The state's store does not answer.
    """
    parts = [planned]
    while (known := generation.read(_name(planned.source, len(parts)), Discovery)) is not None:
        parts.append(known.files)
    return parts


class GrowingFolder:
    """Folder that a generation's last source reads without end, and its files so far.

    Args:
        context: The pipeline, whose last source is such a folder, and its state.

    Attributes:
        parts: Files of the folder that the plan lists, and those of each discovery; in memory.
        interval_ms: Time between the end of a listing and the start of the next one, in
            milliseconds.

    Raises:
        StateError: There is no plan, the last source of the pipeline or of its plan is not a folder
            with ``discovery_interval``, or the state is damaged.
        UnavailableError: The state's store does not answer.
    """

    def __init__(self, context: PipelineContext) -> None:
        source, plan = context.pipeline.growing_folder, context.plan
        if source is None or source.discovery_interval is None or plan.folder is None:
            name = context.pipeline.name
            last = context.pipeline.sources[-1].name
            message = (
                f"The last source of pipeline `{name}`, `{last}`, is not a folder that keeps "
                "growing, or was none when the pipeline was planned."
            )
            hint = (
                f"Declare `discovery_interval` for source `{last}` if its folder keeps growing; if "
                "the pipeline is planned already, begin a new generation then: `hybrid generation "
                "new P`."
            )
            raise StateError(
                message,
                hint,
                pipeline=name,
                source=last,
                generation=context.generation.info.generation,
            )
        self.interval_ms = span_ms(source.discovery_interval)
        self._loaded = context.loaded
        self._generation = context.generation
        self._source = source
        self.parts = found_so_far(context.generation, plan.folder)
        every = [*plan.files, *self.parts]
        self._known = paths_of(read_splits(part, context.generation) for part in every)
        self._position = position_after(context.generation, self.parts)
        self._listed_ms = now_ms()

    @property
    def splits(self) -> int:
        """Number of splits (files, or regions of large ones) found so far; nothing is read."""
        return sum(part.splits for part in self.parts)

    @property
    def position(self) -> TablePosition | None:
        """Version of the table up to which all is found; None for a folder."""
        return self._position

    @property
    def due_ms(self) -> int:
        """When the next listing is due (Unix ms): ``interval_ms`` after the end of the last one."""
        return self._listed_ms + self.interval_ms

    def undiscovered(self) -> set[str]:
        """List the folder, and return the paths of files that no discovery has recorded yet.

        Empty if there are none. Nothing is written. Used to tell whether input is waiting.

        Raises:
            InputError: The storage refuses; or a table that is followed removes or rewrites rows.
            UnavailableError: The storage does not answer.
        """
        if self._position is not None:
            return set(self._appended(self._position, to_read=False).paths)
        return set(new_files(self._loaded, self._source, self._known)["path"].to_pylist())

    def before_a_range(self) -> set[str]:
        """Return the paths of files that commits before the next replaced range append.

        As :meth:`undiscovered`, of a table that is followed; but what follows is no error.

        Raises:
            InputError: The storage refuses; or the table removes or rewrites other rows before.
            UnavailableError: The storage does not answer.
        """
        if self._position is None:
            return self.undiscovered()
        return set(self._appended(self._position, to_read=True).paths)

    def discover(self) -> FoundFiles | None:
        """List the folder, and write new files to the state, before anything reads them.

        Returns:
            The new files; if another process recorded this discovery first, those that it found.
            None if there are none.

        Raises:
            InputError: A file can't be read, has other columns than planned, or has rows whose
                event time does not count and ``event_time.outside`` is ``fail``; a table that is
                followed removes or rewrites rows; or the storage refuses.
            StateError: The state is damaged, or can't be written.
            UnavailableError: The storage, or the state's store, does not answer.
        """
        planned = self.parts[0]
        known: pa.ChunkedArray | Appended = self._known
        if self._position is not None:
            known = self._appended(self._position, to_read=True)
            if not known.paths:
                # Commits without rows, such as a compaction: only this process skips them.
                self._position, self._listed_ms = known.position, now_ms()
                if known.replaced is not None:
                    self._pass(known.position)
                return None
        listing = list_arrived(
            self._loaded,
            self._source,
            known,
            planned.read,
            planned.columns,
            is_parsed=planned.parsed is not None,
        )
        self._listed_ms = now_ms()
        if listing is None:
            return None
        arrived = found_files(self._source, listing)
        judge_outside(self._source.name, self._loaded.pipeline.event_time, arrived.times)
        keep_splits(arrived, listing, self._generation)
        number = len(self.parts)
        made = Discovery(number=number, files=arrived)
        # If two list the folder at once, the first one to write decides.
        name = _name(self._source.name, number)
        standing = self._generation.put_if_absent(name, made).files
        splits = read_splits(standing, self._generation)
        self._known = pa.chunked_array([*self._known.chunks, *splits["path"].chunks])
        self._position = standing.position
        self.parts.append(standing)
        return standing

    def _pass(self, before: TablePosition) -> None:
        """Go on after a replaced range, if another process has recorded that it was followed."""
        passed = position_after(self._generation, self.parts)
        if passed is not None and passed.version > before.version:
            self._position = passed

    def _appended(self, position: TablePosition, *, to_read: bool) -> Appended:
        table = self._loaded.place(position.place)
        found = TableCommits(self._source.name, table).appended_after(position, to_read=to_read)
        return found._replace(mapping=self.parts[0].mapping)


def _name(source: str, number: int) -> str:
    return f"discoveries/{source}-{number}.json"
