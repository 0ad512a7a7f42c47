"""Plan of one file source: its splits in reading order, and the end position to expect."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sources.document import LoadedPipeline
from sources.errors import InputError
from sources.file_source import FileSource, OffsetColumns
from sources.files import FileListing
from sources.held import held_by_columns, held_by_names
from sources.pipeline import Pipeline
from sources.positions import EndPosition, HeldOffsets, Part, to_ms
from sources.schema import names_and_types
from sources.state import Generation


class FilePlan(Part):
    """Plan of one file source; its splits are a Parquet table beside this document.

    Attributes:
        splits, bytes, rows: How much there is; ``rows`` is None where the format does not tell.
        splits_file: The table of splits, relative to the generation's folder.
        columns: Column names and Spark SQL types.
        disorder_ms: How far a split can reach back behind the ones read before it.
        end: The end position to expect.
    """

    source: str
    format: str
    splits_file: str
    splits: int
    bytes: int
    rows: int | None
    event_min_ms: int
    columns: dict[str, str]
    disorder_ms: int
    end: EndPosition


def plan_files(
    loaded: LoadedPipeline, name: str, listing: FileListing, earlier: Sequence[pa.Table] = ()
) -> tuple[FilePlan, list[str]]:
    """Plan of the files of one listing, and what people should know about it.

    Args:
        loaded: The pipeline.
        name: The source.
        listing: Its splits.
        earlier: Splits that were planned before and tell their offsets in the same way: what the
            source's end says of offsets holds for all of them together.

    Raises:
        InputError: No row has a time, or the files do not tell their offsets as declared.
    """
    pipeline = loaded.pipeline
    source = pipeline.source(name)
    assert isinstance(source, FileSource)
    splits = listing.splits
    if splits["event_max_us"].null_count == len(splits):
        message = f"Source `{name}`: its {len(splits)} files hold no rows with a time."
        raise InputError(message, f"History needs at least one row with `{pipeline.event_time}`.")
    end_ms = pc.max(splits["event_max_us"]).as_py() // 1000
    rows = None if splits["rows"].null_count else pc.sum(splits["rows"]).as_py()
    held, warnings = _held(pipeline, source, pa.concat_tables([*earlier, splits]))
    part = FilePlan(
        source=name,
        format=source.format,
        splits_file=f"splits/{name}-{uuid.uuid4().hex[:12]}.parquet",
        splits=len(splits),
        bytes=pc.sum(splits["size"]).as_py(),
        rows=rows,
        event_min_ms=pc.min(splits["event_min_us"]).as_py() // 1000,
        columns=names_and_types(listing.columns),
        disorder_ms=_disorder_ms(splits),
        end=EndPosition(
            source=name,
            event_time_ms=end_ms,
            complete_through_ms=_complete_through_ms(pipeline, source, end_ms),
            event_times="exact" if listing.exact else "sampled",
            offsets=held,
            sequence=source.sequence,
            splits=len(splits),
            rows=rows,
        ),
    )
    if part.disorder_ms:
        warnings.append(
            f"Source `{name}`: splits overlap in event time by up to "
            f"{part.disorder_ms / 1000:,.0f} s; a watermark delay below that can drop rows."
        )
    return part, warnings


def told_alike(pipeline: Pipeline, name: str, before: Sequence[FilePlan]) -> list[FilePlan]:
    """Those plans of earlier sources whose files tell their offsets in the same way as a source's.

    Args:
        pipeline: The declaration.
        name: The source.
        before: Plans of the sources before it.
    """

    def told(source: str) -> object:
        declared = pipeline.source(source)
        assert isinstance(declared, FileSource)
        return declared.offsets

    return [part for part in before if told(part.source) == told(name)]


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


def _disorder_ms(splits: pa.Table) -> int:
    dated = splits.filter(pc.is_valid(splits["event_min_us"]))
    highest = pc.cumulative_max(dated["event_max_us"].combine_chunks())
    back = pc.subtract(highest[:-1], dated["event_min_us"].combine_chunks()[1:])
    worst = pc.max(back).as_py() if len(back) else 0
    return max(worst // 1000, 0)


def keep_splits(plan: FilePlan, listing: FileListing, generation: Generation) -> None:
    """Write the table of splits of a planned source, in order."""
    path = generation.path(plan.splits_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(listing.splits, path)


def read_splits(plan: FilePlan, generation: Generation) -> pa.Table:
    """The table of splits of a planned source (:data:`sources.files.SPLITS`), in order."""
    return pq.read_table(generation.path(plan.splits_file))
