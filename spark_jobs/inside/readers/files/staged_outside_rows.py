"""Staging of rows of files whose event time is out of bounds.

Tasks stage those of the formats that they parse. Those of Parquet files are left out by Spark, by a
condition on the column, so that no row passes through Python; which files have such rows is known
from the plan, and the driver stages the rows of each listing once, for the first micro-batch after
it. Either way they are then collected like bad rows
(:mod:`spark_jobs.inside.readers.staged_bad_records`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.sql.sql_names import in_backticks
from sources.common.times import bounds_us
from sources.config.source.event_time import EventTime
from sources.config.source.file_source import FileSource
from sources.files.outside_bounds import PlannedParquetRows, outside_of_parquet
from sources.planning.event_times import judge_outside
from sources.planning.files.file_plan import FoundFiles
from sources.state.generation import Generation
from sources.storage.stores import Stores
from spark_jobs.inside.readers.files.staged_listings import folder_to_stage
from spark_jobs.inside.readers.staged_bad_records import STAGED, staged_rows

BOUNDS = pa.schema([("_event_low_us", pa.int64()), ("_event_high_us", pa.int64())])
"""Columns with the bounds of the listing that a row's file is from, in microseconds."""
_PLACE = ("path", "partition", "deleted")


def event_time_counts(event_time: str) -> Column:
    """Return the condition that a row's event time is null or within its :data:`BOUNDS`.

    The bounds are inclusive, and columns of the row.

    Args:
        event_time: Name of the event-time column.
    """
    at = F.col(in_backticks(event_time))
    low, high = BOUNDS.names
    return at.isNull() | F.unix_micros(at).between(F.col(low), F.col(high))


def stage_outside(
    source: FileSource,
    event_time: EventTime,
    generation: Generation,
    listing: tuple[int, pa.Table, FoundFiles],
    columns: Sequence[str],
    stores: Stores,
) -> None:
    """Stage the rows of a listing of Parquet files whose event time is out of bounds, once.

    Called by the driver while no micro-batch of these files can begin. After a crash it is repeated
    for the same micro-batch, until that one is committed.

    Args:
        source: Declaration of the source.
        event_time: Declaration of the event time, with the policy for such rows.
        generation: State of the generation, which keeps the rows for the driver to collect.
        listing: Number of the listing, from 0; its splits; and its document.
        columns: Names of the columns that the content of a row has.
        stores: Storages that the files may be in.

    Raises:
        InputError: There are such rows, and ``event_time.outside`` is ``fail`` by now; or a file
            can't be read.
        StateError: The state is damaged, or can't be written.
        UnavailableError: The storage or the state's store does not answer.
    """
    number, splits, found = listing
    times = found.times
    event = source.event_column(event_time.column)
    if not times.outside or event is None:
        return
    folder = folder_to_stage(generation, source.name, f"outside-{number}")
    if folder is None:
        return
    judge_outside(source.name, event_time, times)
    keeps = event_time.outside == "quarantine"
    bounds = bounds_us(times.not_before_ms, times.not_after_ms)
    bad = splits.filter(pc.greater(splits["outside"], 0))
    out = pa.BufferOutputStream()
    with pq.ParquetWriter(out, STAGED) as writer:
        for path, partition, deleted in zip(
            *(bad[name].to_pylist() for name in _PLACE), strict=True
        ):
            file = PlannedParquetRows(path, partition, deleted, found.mapping)
            for rows in outside_of_parquet(file, columns, event, bounds, stores):
                writer.write_batch(staged_rows(rows, "outside", keeps=keeps))
    folder.replace_bytes(f"outside-{number}.parquet", out.getvalue().to_pybytes())
