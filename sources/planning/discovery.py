"""A folder that keeps filling: what arrives is found, written down, and then read.

As FLIP-27's file source does in ``ContinuousFileSplitEnumerator``, the folder is listed at an
interval and a file is new if its path is not known. What is known is in the state, so that a file
is read once whatever its times, however slow a listing is, and whenever the run is stopped.
"""

from __future__ import annotations

import pyarrow as pa

from sources.common.positions import Record, now_ms, span_ms
from sources.common.state import Generation
from sources.errors import StateError
from sources.files.new_files import list_arrived, paths_of
from sources.files.splits import new_files
from sources.planning.context import PipelineContext
from sources.planning.file_plan import FoundFiles, found_files, keep_splits, read_splits


class Discovery(Record):
    """Files that arrived.

    Attributes:
        number: From 1; the plan's listing is before that.
        files: What they are.
    """

    number: int
    files: FoundFiles


def found_so_far(generation: Generation, planned: FoundFiles) -> list[FoundFiles]:
    """What the plan found in a folder, and one more for each discovery."""
    parts = [planned]
    while (known := generation.read(_name(planned.source, len(parts)), Discovery)) is not None:
        parts.append(known.files)
    return parts


class GrowingFolder:
    """All that was found so far in the folder that a generation's last source reads.

    Args:
        context: The pipeline, whose last source is such a folder.

    Attributes:
        parts: What the plan found, and one more for each discovery.
        interval_ms: Between the end of a listing and the start of the next one.

    Raises:
        StateError: The pipeline, or its plan, has no such folder.
    """

    def __init__(self, context: PipelineContext) -> None:
        source, plan = context.pipeline.growing_folder, context.plan
        if source is None or source.discovery_interval is None or plan.folder is None:
            name = context.pipeline.name
            message = f"The last source of pipeline `{name}` is not a folder that keeps growing."
            hint = "Only a last source with `discovery_interval` is listed again."
            raise StateError(message, hint, pipeline=name)
        self.interval_ms = span_ms(source.discovery_interval)
        self._loaded = context.loaded
        self._generation = context.generation
        self._source = source
        self.parts = found_so_far(context.generation, plan.folder)
        every = [*plan.files, *self.parts]
        self._known = paths_of(read_splits(part, context.generation) for part in every)
        self._listed_ms = now_ms()

    @property
    def splits(self) -> int:
        """How many splits were found."""
        return sum(part.splits for part in self.parts)

    @property
    def due_ms(self) -> int:
        """When the next listing is to begin: the interval after the end of the last one."""
        return self._listed_ms + self.interval_ms

    def undiscovered(self) -> set[str]:
        """Paths of the files that are there and that no discovery has found yet.

        Raises:
            InputError: The folder can't be listed.
        """
        return set(new_files(self._loaded, self._source, self._known)["path"].to_pylist())

    def discover(self) -> FoundFiles | None:
        """Look for files that arrived, and write down what they are before anyone reads them.

        Raises:
            InputError: One can't be read, or has other columns; the folder can't be listed.
        """
        columns = self.parts[0].columns
        listing = list_arrived(self._loaded, self._source, self._known, columns)
        self._listed_ms = now_ms()
        if listing is None:
            return None
        found = found_files(self._source, listing)
        keep_splits(found, listing, self._generation)
        number = len(self.parts)
        made = Discovery(number=number, files=found)
        # What stands counts, should two look at once.
        name = _name(self._source.name, number)
        standing = self._generation.put_if_absent(name, made).files
        splits = read_splits(standing, self._generation)
        self._known = pa.chunked_array([*self._known.chunks, *splits["path"].chunks])
        self.parts.append(standing)
        return standing


def _name(source: str, number: int) -> str:
    return f"discoveries/{source}-{number}.json"
