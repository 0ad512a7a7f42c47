"""Plan of a bounded file source: its splits in reading order, and the expected end position."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from sources.common.counting import counted
from sources.common.durations import in_full
from sources.common.positions import EndPosition, HeldOffsets
from sources.common.schema import names_and_types
from sources.common.state_document import Part
from sources.common.times import iso, to_ms, to_us
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.file_options import ArrivalOrder, OffsetColumns
from sources.config.source.file_source import FileSource
from sources.config.source.snapshot import SnapshotManifest, folder_of, require_snapshot
from sources.errors import InputError
from sources.files.columns.drifted_layouts import Layout
from sources.files.columns.mapped_columns import MappedColumns
from sources.files.held_offsets import offsets_in_files
from sources.files.listing.split_table import FileListing, with_later_columns
from sources.files.tables.table_position import TablePosition
from sources.planning.absent_names import judge_names_of_files
from sources.planning.event_times import (
    EventTimes,
    event_range_ms,
    event_times_of,
    judge_outside,
    misread_unit,
)
from sources.planning.files.copied_files import CopiedFiles
from sources.planning.files.micro_batches import micro_batches
from sources.state.generation import Generation
from sources.state.state_table import read_state_table, write_state_table

MANY_FILES = 10_000
"""Files of a source from which on the plan warns that most of them are small."""
_SMALL_BYTES = 1 << 20


class FoundFiles(Part):
    """Files of one listing of a source; their splits are a Parquet table next to this document.

    Attributes:
        source: Name of the source.
        format: Format of the files.
        splits_file: Path of the table of splits, relative to the generation's folder.
        splits: Number of splits: files, or regions of large ones.
        bytes: Bytes of all splits.
        rows: Number of rows; None where the format does not record it.
        read: Column names and Spark SQL types of the files, partition columns included.
        columns: Output columns of the source, after ``select``: names and Spark SQL types.
        partitions: Partition columns, whose values are in the paths and not in the files.
        times: Event times of the files: which count, and how many rows have others.
        layouts: How the columns of the files differ from ``read``; empty unless ``schema_drift`` is
            declared. A split's ``layout`` is its index in this list.
        mapping: Names of the columns inside the files of a table; None if they are the same.
        parsed: Path of the first Parquet file that Spark's own reader does not accept, so that this
            project's tasks parse all files; for a growing folder without files, its pattern; of one
            of several inputs, whose micro-batches may be empty, its place. None if Spark reads the
            files.
        absent: Warnings about declared names that no sampled row has.
        position: Version of the Delta table that the files are of; None without one.
    """

    source: str
    format: str
    splits_file: str
    splits: int
    bytes: int
    rows: int | None
    read: dict[str, str]
    columns: dict[str, str]
    partitions: list[str]
    times: EventTimes
    layouts: list[Layout] = Field(default_factory=list)
    mapping: MappedColumns | None = None
    parsed: str | None = None
    absent: list[str] = Field(default_factory=list)
    position: TablePosition | None = None


class FilePlan(FoundFiles):
    """Plan of a bounded file source.

    Attributes:
        event_min_ms: Lowest event time of the rows within the bounds of ``event_time``, in ms.
        disorder_ms: Out-of-orderness: how many milliseconds a micro-batch reaches back behind the
            highest event time read before it; an estimate where event times are sampled.
        end: End position of the source, expected once all its files are read.
        table: Folder of a table that is declared by its name; None if a path is declared.
        order: Declared order of arrival; None if the files are read in order of event time.
        copied: Which files become files of the target as they are; None unless declared.
        is_open: Whether the files are chunks (ranges of the primary key) of a database snapshot
            that is still being taken; the run of the topic after it adds the missing ones.
    """

    event_min_ms: int
    disorder_ms: int
    end: EndPosition
    table: str | None = None
    order: ArrivalOrder | None = None
    copied: CopiedFiles | None = None
    is_open: bool = False

    @property
    def out_of_orderness(self) -> str:
        """The out-of-orderness in words; ``unknown (in samples: …)`` where times are sampled."""
        found = in_full(self.disorder_ms)
        return found if self.end.event_times == "exact" else f"unknown (in samples: {found})"


def found_files(source: FileSource, listing: FileListing) -> FoundFiles:
    """Describe a listing of a source as a document; writes nothing.

    Each call invents a new name for the table of splits, which :func:`keep_splits` writes.
    """
    splits = listing.splits
    return FoundFiles(
        source=source.name,
        format=source.format,
        splits_file=f"splits/{source.name}-{uuid.uuid4().hex[:12]}.parquet",
        splits=len(splits),
        bytes=pc.sum(splits["length"], min_count=0).as_py(),
        rows=None if splits["rows"].null_count else pc.sum(splits["rows"], min_count=0).as_py(),
        read=names_and_types(listing.read),
        columns=names_and_types(listing.columns),
        partitions=listing.partitions,
        times=event_times_of(listing),
        layouts=listing.layouts,
        mapping=listing.mapping,
        parsed=listing.parsed,
        position=listing.position,
    )


def plan_files(
    loaded: LoadedPipeline,
    source: FileSource,
    listing: FileListing,
    earlier: Sequence[pa.Table] = (),
    otherwise_ms: int | None = None,
) -> tuple[FilePlan, list[str]]:
    """Plan a bounded source's files: return the plan, and warnings for people. Writes nothing.

    Files are opened only if the source declares ``offsets`` by columns: those columns are then
    read, and the last rows of some partitions.

    Args:
        loaded: The pipeline.
        source: Declaration of the source.
        listing: Splits of the source.
        earlier: Split tables of earlier sources with the same ``offsets``, whose offsets the end
            position has to include.
        otherwise_ms: Event time, in Unix milliseconds, at which the source ends if no row has an
            event time that counts; None to refuse such files.

    Raises:
        InputError: No row has an event time that counts; some have others, and
            ``event_time.outside`` is ``fail``; or the files do not carry their offsets as declared
            in ``offsets``, or no single topic follows that offset columns could belong to.
        UnavailableError: A storage does not answer.
        StateError: The files are a database snapshot that is not complete.
    """
    pipeline = loaded.pipeline
    name = source.name
    splits = listing.splits
    found = found_files(source, listing)
    outside = judge_outside(name, pipeline.event_time, found.times)
    names = judge_names_of_files(pipeline, source, listing)
    times = event_range_ms(splits) or (None if otherwise_ms is None else (otherwise_ms,) * 2)
    manifest = None
    if source.snapshot is not None:
        manifest = _manifest_of(loaded, source)
        # A table may well be empty.
        times = times or (manifest.seen.taken_ms, manifest.seen.taken_ms)
    if times is None:
        hold = counted(pc.count_distinct(splits["path"]).as_py(), "file holds", "files hold")
        looked = "" if listing.exact else ", by a sample of their rows,"
        message = f"Source `{name}`: its {hold}{looked} no rows with a time that counts."
        hint = (
            f"At least one row needs a value of the event-time column "
            f"`{pipeline.event_time.column}` within its bounds: the end of the source decides "
            "where the next one starts. Correct which files or table it reads, or remove it."
        )
        text = " ".join([message, *outside, *listing.warnings])
        raise InputError(text, hint, source=name, column=pipeline.event_time.column)
    begin_ms, end_ms = times
    if source.time_range.since is not None:
        begin_ms = max(begin_ms, to_ms(source.time_range.since))
    held, warnings = _held(pipeline, source, listing, pa.concat_tables([*earlier, splits]))
    if source.arrival is not None and source.arrival.is_by_offset:
        _require_one_partition(name, source.arrival, held)
    if manifest is not None:
        # All changes that the snapshot does not see come after these offsets.
        offsets = dict(manifest.offsets)
        for shard in pipeline.shards.values():
            # The topic of all shards starts by the end of the last one.
            offsets |= _manifest_of(loaded, shard).offsets
        held = HeldOffsets(next=offsets, exact=True, holes={})
    elif source.exported_offsets is not None:
        held = HeldOffsets(next=source.exported_offsets, exact=True, holes={})
    part = FilePlan(
        **{**dict(found), "absent": names},
        event_min_ms=begin_ms,
        disorder_ms=_disorder_ms(splits, source),
        end=EndPosition(
            source=name,
            event_time_ms=end_ms,
            complete_through_ms=_complete_through_ms(pipeline, source, end_ms),
            event_times="exact" if listing.exact else "sampled",
            offsets=held,
            sequence=source.sequence,
            snapshot=None if manifest is None else manifest.seen,
            definition=None if manifest is None else manifest.definition,
            splits=found.splits,
            rows=_rows_read(pipeline, found),
        ),
        table=None if source.table is None else source.patterns[0],
        order=source.arrival,
        is_open=manifest is not None and pc.count_distinct(splits["path"]).as_py() < manifest.total,
    )
    warnings += [*outside, *listing.warnings, *names, *listing_warnings(found, splits)]
    if part.is_open and manifest is not None:
        warnings.append(
            f"Source `{name}`: {found.splits:,} of {counted(manifest.total, 'chunk')} of the "
            "snapshot can be read by now; the others are added while changes are followed, and the "
            "table is whole after the last one."
        )
    if part.disorder_ms and source.arrival is None:
        warnings.append(
            f"Source `{name}`: event times of micro-batches are out of order by "
            f"{'up to' if listing.exact else 'at least'} {in_full(part.disorder_ms)}; a "
            "watermark delay has to be longer than that."
        )
    return part, warnings


def _manifest_of(loaded: LoadedPipeline, source: FileSource) -> SnapshotManifest:
    """Return the manifest of a source's database snapshot.

    The source's listing has refused one that has to be complete.
    """
    where = loaded.place(folder_of(source.patterns))
    return require_snapshot(where, loaded.pipeline.name, is_open=True)


def listing_warnings(part: FoundFiles, splits: pa.Table) -> list[str]:
    """Return warnings about listings and event times that look like a mistake.

    Rows without an event time, many small files, and event times in a wrong unit.

    Args:
        part: Document of the listing.
        splits: Its table of splits (:data:`sources.files.listing.split_table.SPLITS`).

    Returns:
        Sentences; an empty list if nothing is suspicious.
    """
    warnings = []
    name = part.source
    nulls = pc.sum(splits["nulls"]).as_py()
    if nulls:
        warnings.append(
            f"Source `{name}`: {counted(nulls, 'row has', 'rows have')} no event time: read with "
            "the others, but in no window, and not recognized by a seam by event time."
        )
    files = pc.count_distinct(splits["path"]).as_py()
    if files >= MANY_FILES and part.bytes / files < _SMALL_BYTES:
        warnings.append(
            f"Source `{name}`: {counted(files, 'file')} of "
            f"{part.bytes / files / 1024:,.1f} KiB on average; most of the time is spent "
            "on opening them. Compact them if possible."
        )
    if (times := event_range_ms(splits)) is not None and (unit := misread_unit(*times)):
        low, high = map(iso, times)
        warnings.append(
            f"Source `{name}`: its event times are from {low} to {high}, probably {unit}."
        )
    return warnings


def plans_alike(
    pipeline: Pipeline, source: FileSource, before: Sequence[FilePlan]
) -> list[FilePlan]:
    """Return the plans of earlier file sources that declare the same ``offsets`` as a source.

    Only the files of all of them together show which Kafka offsets history holds. Empty if there
    are none. Sources without ``offsets`` are alike, too.

    Args:
        pipeline: The pipeline's declaration.
        source: The source.
        before: Plans of the file sources before it.
    """
    return [part for part in before if pipeline.file_source(part.source).offsets == source.offsets]


def _rows_read(pipeline: Pipeline, found: FoundFiles) -> int | None:
    """Return the number of rows of a listing that are read; None where it is unknown."""
    if found.rows is None or pipeline.event_time.outside == "keep":
        return found.rows
    return found.rows - found.times.outside


def _complete_through_ms(pipeline: Pipeline, source: FileSource, end_ms: int) -> int:
    """Return the time through which history is complete: as declared, or by the highest time read.

    The end of ``time_range`` may lie beyond the data, so it says nothing about completeness.
    """
    if source.complete_through is None:
        return end_ms - pipeline.lateness_ms
    declared_ms, until = to_ms(source.complete_through), source.time_range.until
    return declared_ms if until is None else min(declared_ms, (to_us(until) - 1) // 1000)


def _held(
    pipeline: Pipeline, source: FileSource, listing: FileListing, splits: pa.Table
) -> tuple[HeldOffsets | None, list[str]]:
    if source.offsets is None:
        return None, []
    if source.arrival is not None:
        # A file has a split for each interval.
        splits = splits.group_by("path", use_threads=False).aggregate([("rows", "sum")])
        splits = splits.rename_columns(["path", "rows"])
    paths = splits["path"].to_pylist()
    if isinstance(source.offsets, OffsetColumns):
        live = pipeline.topic_after(source.name)
        if live is None or len(live.topics) != 1:
            name = source.name
            found = f"it is {live.subscription}" if live else "no Kafka source follows"
            message = (
                f"Source `{name}`: `offsets` by columns needs a single declared topic after it, "
                f"to which the offsets belong; {found}."
            )
            hint = (
                "Declare one `topic` for the next Kafka source, or `offsets: names` here if file "
                "names contain the topic."
            )
            raise InputError(message, hint, source=name, field="offsets")
        return offsets_in_files().by_columns(pipeline, source, listing, paths)
    return offsets_in_files().by_names(paths, splits["rows"].to_pylist())


def _require_one_partition(name: str, order: ArrivalOrder, held: HeldOffsets | None) -> None:
    """Refuse an order by offsets of several partitions, which have none in common."""
    partitions = sorted(held.next) if held is not None else []
    if len(partitions) > 1:
        message = (
            f"Source `{name}`: `order` goes by the offsets in `{order.arrival}`, but the files "
            f"hold records of {len(partitions)} partitions, {partitions[0]} and others, whose "
            "offsets do not say which arrived first."
        )
        hint = "Name a column with the time of arrival: `order: {arrival: COLUMN, every: 10 min}`."
        raise InputError(message, hint, source=name, field="order.arrival")


def _disorder_ms(splits: pa.Table, source: FileSource) -> int:
    """Return how far a micro-batch reaches back behind the highest event time before it (ms).

    Order within a batch does not matter: Spark's watermark advances between batches.
    """
    starts = micro_batches(splits, source)[:-1]
    if not len(starts):
        return 0
    top, bottom = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    lows = splits["event_min_us"].fill_null(top).to_numpy()
    highs = splits["event_max_us"].fill_null(bottom).to_numpy()
    before = np.maximum.accumulate(highs)[starts - 1]
    lowest = np.minimum.reduceat(lows, starts)
    known = (before > bottom) & (lowest < top)
    return max(int((before - lowest)[known].max(initial=0)) // 1000, 0)


def keep_splits(files: FoundFiles, listing: FileListing, generation: Generation) -> None:
    """Write the table of splits of a listing to the generation's folder, as Parquet.

    Called right before the document that names it is written; without that, nobody reads it.

    Args:
        files: Document of the listing, which names the file.
        listing: The splits.
        generation: State of the generation.

    Raises:
        StateError: The file can't be written.
        UnavailableError: The state's store does not answer.
    """
    write_state_table(generation, files.splits_file, listing.splits)


def read_splits(files: FoundFiles, generation: Generation) -> pa.Table:
    """Read the table of splits of a listing from the generation's folder.

    Args:
        files: Document of the listing, which names the file.
        generation: State of the generation.

    Returns:
        A table of schema :data:`sources.files.listing.split_table.SPLITS`, in reading order.

    Raises:
        StateError: The file is missing or can't be read.
        UnavailableError: The state's store does not answer.
    """
    return with_later_columns(read_state_table(generation, files.splits_file))
