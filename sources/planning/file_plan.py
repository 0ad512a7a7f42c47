"""Plan of one file source: its splits in reading order, and the end position to expect."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sources.common.positions import EndPosition, HeldOffsets, Part, iso, to_ms, to_us
from sources.common.schema import names_and_types
from sources.common.state import Generation
from sources.config.file_options import FileBatch, OffsetColumns
from sources.config.file_source import FileSource
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.snapshot import require_snapshot
from sources.errors import InputError
from sources.files.held_offsets import held_by_columns, held_by_names
from sources.files.split_table import FileListing

Ints = npt.NDArray[np.int64]
_MANY_FILES = 10_000
_SMALL_BYTES = 1 << 20
# Event times before 1990 or more than ten years ahead are rather another unit than true.
_EARLIEST_MS = 631_152_000_000
_AHEAD_MS = 10 * 365 * 86_400_000


class FoundFiles(Part):
    """What one listing of a file source found; its splits are a Parquet table beside this document.

    Attributes:
        splits, bytes, rows: How much there is; ``rows`` is None where the format does not tell.
        splits_file: The table of splits, relative to the generation's folder.
        read: Column names and Spark SQL types of the files, partition columns included.
        columns: Those that come out of the source's ``select``.
        partitions: Columns that no file holds.
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


class FilePlan(FoundFiles):
    """Plan of one bounded file source.

    Attributes:
        event_min_ms: Lowest event time.
        disorder_ms: How far a micro-batch reaches back behind what is read before it; an
            estimate where event times are sampled.
        end: The end position to expect.
    """

    event_min_ms: int
    disorder_ms: int
    end: EndPosition


def found_files(source: FileSource, listing: FileListing) -> FoundFiles:
    """What a listing found, as a document; its splits are yet to be kept."""
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
    )


def plan_files(
    loaded: LoadedPipeline,
    source: FileSource,
    listing: FileListing,
    earlier: Sequence[pa.Table] = (),
) -> tuple[FilePlan, list[str]]:
    """Plan of the files of one listing, and what people should know about it.

    Args:
        loaded: The pipeline.
        source: The source.
        listing: Its splits.
        earlier: Splits that were planned before and tell their offsets in the same way: what the
            source's end says of offsets holds for all of them together.

    Raises:
        InputError: No row has a time, or the files do not tell their offsets as declared.
    """
    pipeline = loaded.pipeline
    name = source.name
    splits = listing.splits
    times = event_range_ms(splits)
    manifest = None
    if source.snapshot is not None:
        manifest = require_snapshot(source.patterns, loaded.folder, pipeline.name)
        # A table may well be empty.
        times = times or (manifest.seen.taken_ms, manifest.seen.taken_ms)
    if times is None:
        message = f"Source `{name}`: its {len(splits)} files hold no rows with a time."
        hint = f"History needs at least one row with `{pipeline.event_time}`."
        raise InputError(" ".join([message, *listing.warnings]), hint)
    begin_ms, end_ms = times
    complete_ms = _complete_through_ms(pipeline, source, end_ms)
    if source.time_range.until is not None:
        # Nothing from there on is read, though files hold it.
        last_ms = (to_us(source.time_range.until) - 1) // 1000
        end_ms, complete_ms = min(end_ms, last_ms), min(complete_ms, last_ms)
    if source.time_range.since is not None:
        begin_ms = max(begin_ms, to_ms(source.time_range.since))
    held, warnings = _held(pipeline, source, pa.concat_tables([*earlier, splits]))
    if manifest is not None:
        # No change that the snapshot does not see lies before.
        held = HeldOffsets(next=manifest.offsets, exact=True, holes={})
    found = found_files(source, listing)
    part = FilePlan(
        **dict(found),
        event_min_ms=begin_ms,
        disorder_ms=_disorder_ms(splits, source.batch),
        end=EndPosition(
            source=name,
            event_time_ms=end_ms,
            complete_through_ms=complete_ms,
            event_times="exact" if listing.exact else "sampled",
            offsets=held,
            sequence=source.sequence,
            snapshot=None if manifest is None else manifest.seen,
            splits=found.splits,
            rows=found.rows,
        ),
    )
    warnings += [*listing.warnings, *suspicions(found, splits)]
    if part.disorder_ms:
        warnings.append(
            f"Source `{name}`: micro-batches reach back in event time by up to "
            f"{part.disorder_ms / 1000:,.0f} s; a watermark must allow for more than that."
        )
    return part, warnings


def suspicions(part: FoundFiles, splits: pa.Table) -> list[str]:
    """What looks wrong in the statistics of a listing."""
    found = []
    name = part.source
    nulls = pc.sum(splits["nulls"]).as_py()
    if nulls:
        found.append(
            f"Source `{name}`: {nulls:,} rows have no event time; they are read with the others, "
            "but no seam by time and no window can place them."
        )
    files = pc.count_distinct(splits["path"]).as_py()
    if files >= _MANY_FILES and part.bytes / files < _SMALL_BYTES:
        found.append(
            f"Source `{name}`: {files:,} files of {part.bytes / files / 1024:,.1f} KiB on average; "
            "most of the time will go into opening them. Compact them if you can."
        )
    if (times := event_range_ms(splits)) is not None and (unit := misread_unit(*times)):
        low, high = map(iso, times)
        found.append(
            f"Source `{name}`: its event times go from {low} to {high}; they look like {unit}."
        )
    return found


def event_range_ms(splits: pa.Table) -> tuple[int, int] | None:
    """Lowest and highest event time of splits; None if no row has one."""
    low, high = pc.min(splits["event_min_us"]).as_py(), pc.max(splits["event_max_us"]).as_py()
    return None if low is None or high is None else (low // 1000, high // 1000)


def misread_unit(low_ms: int, high_ms: int) -> str | None:
    """What a range of event times looks like that is far in the past or the future.

    Args:
        low_ms: Lowest one, as it was read.
        high_ms: Highest one.

    Returns:
        The suspicion in words; None if the times are plausible as they are.
    """

    def plausible(factor: float) -> bool:
        low, high = low_ms * factor, high_ms * factor
        return low >= _EARLIEST_MS and high <= time.time() * 1000 + _AHEAD_MS

    if plausible(1):
        return None
    readings = {
        1000: "seconds read as milliseconds",
        1_000_000: "seconds read as microseconds, or milliseconds read as nanoseconds",
        1 / 1000: "microseconds read as milliseconds, or milliseconds read as seconds",
        1 / 1_000_000: "nanoseconds read as milliseconds, or microseconds read as seconds",
    }
    return next((words for factor, words in readings.items() if plausible(factor)), None)


def plans_alike(
    pipeline: Pipeline, source: FileSource, before: Sequence[FilePlan]
) -> list[FilePlan]:
    """Return the plans of earlier sources that hold their offsets where a source's files do.

    Args:
        pipeline: The declaration.
        source: The source.
        before: Plans of the sources before it.
    """
    return [part for part in before if pipeline.file_source(part.source).offsets == source.offsets]


def _complete_through_ms(pipeline: Pipeline, source: FileSource, end_ms: int) -> int:
    if source.complete_through is not None:
        return to_ms(source.complete_through)
    return end_ms - pipeline.lateness_ms


def _held(
    pipeline: Pipeline, source: FileSource, splits: pa.Table
) -> tuple[HeldOffsets | None, list[str]]:
    if source.offsets is None:
        return None, []
    paths = splits["path"].to_pylist()
    if isinstance(source.offsets, OffsetColumns):
        live = pipeline.topic_after(source.name)
        if live is None or len(live.topics) != 1:
            message = f"Source `{source.name}`: `offsets` by columns needs one topic to belong to."
            raise InputError(message, "Name a single `topic`, or use `offsets: names`.")
        columns = source.offsets
        return held_by_columns(paths, live.topics[0], columns.partition, columns.offset)
    return held_by_names(paths, splits["rows"].to_pylist())


def batch_ends(lengths: Sequence[int], limit: FileBatch) -> Ints:
    """How splits fall into micro-batches: the number of splits up to the end of each.

    A batch takes splits until it has reached one of its limits, as Delta's source does
    (``AdmissionLimits`` there).
    """
    ends: list[int] = []
    first, size = 0, 0
    for at, length in enumerate(lengths):
        if at > first and (at - first >= limit.files or size >= limit.bytes):
            ends.append(at)
            first, size = at, 0
        size += length
    return np.array([*ends, len(lengths)] if lengths else [], np.int64)


def _disorder_ms(splits: pa.Table, limit: FileBatch) -> int:
    """How far a micro-batch reaches back behind the highest event time before it.

    Inside of a batch order does not matter: Spark's watermark moves between them.
    """
    starts = batch_ends(splits["length"].to_pylist(), limit)[:-1]
    if not len(starts):
        return 0
    top, bottom = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    lows = splits["event_min_us"].fill_null(top).to_numpy()
    highs = splits["event_max_us"].fill_null(bottom).to_numpy()
    before = np.maximum.accumulate(highs)[starts - 1]
    lowest = np.minimum.reduceat(lows, starts)
    known = (before > bottom) & (lowest < top)
    return max(int((before - lowest)[known].max(initial=0)) // 1000, 0)


def keep_splits(found: FoundFiles, listing: FileListing, generation: Generation) -> None:
    """Write the table of splits of a listing, in order."""
    path = generation.path(found.splits_file)
    with generation.writing(path):
        pq.write_table(listing.splits, path)


def read_splits(found: FoundFiles, generation: Generation) -> pa.Table:
    """The table of splits of a listing (:data:`sources.files.split_table.SPLITS`), in order."""
    return pq.read_table(generation.path(found.splits_file))
