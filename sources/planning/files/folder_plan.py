"""Plan of a folder or table that keeps growing: its files at planning time.

Files of a folder that another source reads are left out; a table that is followed has no other
source before it.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.new_files import paths_of
from sources.files.listing.source_listing import list_source, new_files, nothing_yet
from sources.files.listing.split_table import FileListing
from sources.files.time_range import time_limits
from sources.planning.absent_names import judge_names_of_files
from sources.planning.event_times import judge_outside
from sources.planning.files.file_plan import FoundFiles, found_files, listing_warnings


def plan_folder(
    loaded: LoadedPipeline, source: FileSource, before: Mapping[str, FileListing], clock_ms: int
) -> tuple[FoundFiles, FileListing, list[str]]:
    """Plan the files of a folder, or of a table, that keeps growing; there may be none yet.

    Nothing is written.

    Args:
        loaded: The pipeline.
        source: Its last source, a folder or a Delta table with ``discovery_interval``.
        before: Listings of the file sources before it, by name; their files are not read again.
        clock_ms: The clock at which the bounds of event times are measured, in Unix milliseconds.

    Returns:
        The document of its files, their listing with the table of splits, and warnings.

    Raises:
        InputError: A file can't be read, there is no file and the columns are neither declared nor
            known from an earlier source, rows have event times that do not count and
            ``event_time.outside`` is ``fail``, a source before it reads only some rows
            (``time_range.until``) of a file that is in both, or the table is the pipeline's own
            target.
        UnavailableError: A storage does not answer.
        StateError: The files are a database snapshot that is not complete.
    """
    splits = {name: earlier.splits for name, earlier in before.items()}
    event_time = loaded.pipeline.event_time
    listing = (
        _table(loaded, source, clock_ms)
        if source.is_table
        else list_source(loaded, source, paths_of(splits.values()), clock_ms=clock_ms)
    )
    if listing is None:
        common = next((earlier.columns for earlier in before.values()), None)
        limits = time_limits(event_time, source.time_range, clock_ms)
        listing = nothing_yet(source, event_time.column, common, limits)
    _require_whole(loaded, source, splits)
    found = found_files(source, listing)
    outside = judge_outside(source.name, event_time, found.times)
    names = judge_names_of_files(loaded.pipeline, source, listing)
    return (
        found.model_copy(update={"absent": names}),
        listing,
        [
            *outside,
            *listing.warnings,
            *listing_warnings(found, listing.splits),
            *names,
        ],
    )


def _table(loaded: LoadedPipeline, source: FileSource, clock_ms: int) -> FileListing:
    """List a table that is followed; refuse the pipeline's own target, which would never end."""
    source.require_place()
    if loaded.place(source.patterns[0]).url == loaded.target.url:
        message = (
            f"Source `{source.name}` follows {loaded.target.url}, the table that this pipeline "
            "writes to: each row would be read and written again without end."
        )
        hint = "Name the table of another pipeline, or another `sink.path`."
        raise InputError(message, hint, source=source.name, table=loaded.target.url)
    return list_source(loaded, source, clock_ms=clock_ms)


def _require_whole(
    loaded: LoadedPipeline, source: FileSource, before: Mapping[str, pa.Table]
) -> None:
    """Refuse a file of which an earlier source reads some rows only: the others would be lost.

    Nothing is before a table that is followed.
    """
    for name, splits in before.items():
        if loaded.pipeline.file_source(name).time_range.until is None:
            continue
        others = paths_of(part for other, part in before.items() if other != name)
        every = set(new_files(loaded, source, others)["path"].to_pylist())
        shared = sorted(every & set(splits["path"].to_pylist()))
        if shared:
            message = (
                f"Source `{name}` reads {shared[0]} up to `time_range.until`; source "
                f"`{source.name}`, which has the file in its folder, too, would not read the other "
                "rows of it: they would be missing from the table."
            )
            hint = (
                f"Remove `time_range.until` from source `{name}`, or keep the files of the two "
                "sources in separate folders."
            )
            raise InputError(message, hint, source=name, file=shared[0])
