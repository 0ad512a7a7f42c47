"""Why a planned Parquet file is rewritten instead of copied: deleted rows, folder, time, footer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hybrid_extensions.copied_files.why_rewritten import why_rewritten
from sources.common.times import to_us
from sources.config.source.file_source import FileSource
from sources.formats.parquet.footer import read_footer
from sources.formats.parquet.table_file import column_range
from sources.storage.folder_partitions import values_of
from sources.storage.stores import Stores

_AT_ONCE = 16
_NO_TIME = "some of its rows are outside of `time_range`"


class JudgedFile(NamedTuple):
    """Planned file, and why it has to be rewritten instead of copied, if it has.

    Attributes:
        path: Its path.
        size: Its size in bytes.
        partition: Value of each partition column as text, by name; None for null.
        footer: Its Parquet footer; None if a reason was found without reading it.
        why: Why it has to be rewritten, in words; None if it can be copied.
    """

    path: str
    size: int
    partition: dict[str, str | None]
    footer: pq.FileMetaData | None
    why: str | None


def judge_files(
    source: FileSource,
    event_time: str,
    splits: pa.Table,
    read: pa.Schema,
    partitions: Sequence[str],
    stores: Stores,
) -> Iterator[JudgedFile]:
    """Find out, file by file, which planned Parquet files can be copied into the target.

    Yields the files in order, one at a time because footers need much memory. Called only where the
    declaration allows copies (:mod:`hybrid_extensions.copied_files.copyable_sources`).

    Args:
        source: Declaration of the source.
        event_time: Name of the event-time column.
        splits: Splits, each a whole file: a table of schema
            :data:`sources.files.listing.split_table.SPLITS`.
        read: Columns of the source, partition columns included.
        partitions: Names of the partition columns, which no file holds.
        stores: Storages of the pipeline.

    Raises:
        InputError: A file can't be read.
    """
    inside = pa.schema([field for field in read if field.name not in partitions])

    def judge(row: dict[str, Any]) -> JudgedFile:
        values = values_of(row["partition"])
        footer = None
        why = _why_by_plan(row) or _why_by_folder(values, read)
        if why is None:
            footer = read_footer(row["path"], stores)
            why = why_rewritten(footer, inside) or _why_by_time(source, event_time, footer)
            if why is None and footer.num_rows != row["rows"]:
                why = "its number of rows differs from the planned one"
        return JudgedFile(row["path"], row["size"], values, footer, why)

    names = ["path", "size", "partition", "deleted", "rows", "outside"]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield from pool.map(judge, splits.select(names).to_pylist())


def _why_by_plan(row: dict[str, Any]) -> str | None:
    if row["deleted"] is not None:
        return "it has deleted rows"
    return "event times of its rows are outside of the bounds" if row["outside"] else None


def _why_by_folder(values: dict[str, str | None], read: pa.Schema) -> str | None:
    """Return why a value in a folder's name can't be one of a Delta log as it is."""
    for name, text in values.items():
        kind = read.field(name).type
        if text is None or (pa.types.is_string(kind) and text):
            continue
        try:
            # A date has one spelling, a number many: 7 and 07.
            is_same = (pa.types.is_integer(kind) or pa.types.is_date(kind)) and text == str(
                pa.scalar(text).cast(kind)
            )
        except pa.ArrowInvalid:
            is_same = False
        if not is_same:
            return f"the value of partition column `{name}` would be written otherwise"
    return None


def _why_by_time(source: FileSource, event_time: str, footer: pq.FileMetaData) -> str | None:
    """Return why not all rows of a file are read, if they are not."""
    since, until = source.time_range.since, source.time_range.until
    if since is None and until is None:
        return None
    found = column_range(footer, event_time)
    if found is None or found.nulls is None:
        return _NO_TIME
    if found.low is None:
        return None
    is_early = since is not None and found.low < to_us(since)
    return _NO_TIME if is_early or (until is not None and found.high >= to_us(until)) else None
