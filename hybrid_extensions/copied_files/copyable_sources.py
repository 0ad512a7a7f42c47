"""Which sources' files may be copied as they are (`sink.copy_files`); how many, by the plan.

Whether the transform leaves every row as it is needs Spark, and is looked at with the transform.
"""

from __future__ import annotations

from collections.abc import Sequence

from hybrid_extensions.copied_files.judged_files import judge_files
from sources.config.loader import LoadedPipeline
from sources.config.source.file_options import TimeRange
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.columns.mapped_columns import MappedColumns
from sources.files.listing.split_table import FileListing
from sources.planning.files.copied_files import CopiedFiles, RewrittenFiles

_HINT = "Remove `sink.copy_files`: all rows are then rewritten, and the table holds the same."


def why_none(
    loaded: LoadedPipeline,
    source: FileSource,
    partitions: Sequence[str],
    mapping: MappedColumns | None,
) -> str | None:
    """Return why the declaration allows no file of a source to be copied; None if it allows it.

    A clause without a full stop, for messages. No file is opened.

    Args:
        loaded: The pipeline.
        source: Declaration of the source.
        partitions: Names of the partition columns, which no file holds.
        mapping: Names of the columns inside the files of a table; None if they are the same.
    """
    pipeline, sink = loaded.pipeline, loaded.pipeline.sink
    if source.format not in ("parquet", "delta") or not source.is_read_by_spark:
        return "only files of `format: parquet` or `delta` that are read by event time can be"
    if mapping is not None:
        return "the table that they are of has other names for its columns"
    if source.select:
        return "`select` is declared for it"
    if pipeline.row_rules.rules or pipeline.row_rules.sample is not None:
        return "`rules` and `sample` need a look at each row"
    if pipeline.changes_target:
        return "`on_schema_change` may change columns of the table"
    if {*partitions} != {*sink.partition_by}:
        own, of = (", ".join(names) or "none" for names in (partitions, sink.partition_by))
        return f"their partition columns ({own}) are not those of `sink.partition_by` ({of})"
    target = loaded.target.url
    places = [target, *(loaded.locate(each) for each in source.patterns)]
    stores = {place.partition("://")[0] if "://" in place else "" for place in places}
    if stores not in ({""}, {"s3"}):
        return f"they and {target} are neither both in S3 nor both on this machine"
    return None


def plan_copies(loaded: LoadedPipeline, source: FileSource, listing: FileListing) -> CopiedFiles:
    """Count which files of a bounded source are copied as they are, with ``sink.copy_files``.

    Reads the footer of each file.

    Args:
        loaded: The pipeline.
        source: Declaration of the source.
        listing: Its splits and columns.

    Raises:
        InputError: ``sink.copy_files`` is declared, and not one file can be copied: names the
            reason. With a time range, that is an error only where the declaration itself rules out
            copies; else all files are counted as those that are written anew.
    """
    pipeline = loaded.pipeline
    read_as = source if listing.parsed is None else source.parsed()
    why = why_none(loaded, read_as, listing.partitions, listing.mapping)
    if why is not None:
        message = f"`sink.copy_files`: the files of source `{source.name}` can't be copied: {why}."
        raise InputError(message, _HINT, source=source.name, field="sink.copy_files")
    copied, size, reasons = 0, 0, dict[str, list[str]]()
    for file in judge_files(
        source,
        pipeline.event_time.column,
        listing.splits,
        listing.read,
        listing.partitions,
        pipeline.stores,
    ):
        if file.why is None:
            copied += 1
            size += file.size
        else:
            reasons.setdefault(file.why, []).append(file.path)
    # The recomputation of a short range may well cut all of its files.
    if reasons and not copied and source.time_range == TimeRange():
        why, (path, *_) = next(iter(reasons.items()))
        message = (
            f"`sink.copy_files`: no file of source `{source.name}` can be copied; {path}: {why}."
        )
        raise InputError(message, _HINT, source=source.name, file=path)
    return CopiedFiles(
        files=copied,
        bytes=size,
        rewritten=[
            RewrittenFiles(why=why, files=len(paths), such_as=paths[0])
            for why, paths in reasons.items()
        ],
    )
