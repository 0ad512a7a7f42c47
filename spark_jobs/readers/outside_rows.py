"""Staging of the rows of files whose event time does not count.

Tasks stage those of the formats that they parse. Those of Parquet files are left out by Spark, by a
condition on the column, so that no row passes through Python; which files have such rows is known
from the plan, and the driver stages the rows of each listing once, for the first micro-batch after
it. Either way they are then collected like bad rows (:mod:`spark_jobs.readers.bad_records`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.positions import Record, bounds_us
from sources.config.event_time import EventTime
from sources.config.file_source import FileSource
from sources.files.outside_rows import outside_of_parquet
from sources.planning.event_times import EventTimes, judge_outside
from sources.state.generation import Generation
from sources.storage.stores import Stores
from spark_jobs.checkpoint import offset_log
from spark_jobs.readers.bad_records import STAGED, staged_rows, staging_folder

BOUNDS = pa.schema([("_event_low_us", pa.int64()), ("_event_high_us", pa.int64())])
"""Columns with the bounds of the listing that a row's file is from, in microseconds."""
_PLACE = ("path", "partition")


class StagedOutside(Record):
    """Note that rows of a listing whose event time does not count are staged.

    Attributes:
        batch: Number of the micro-batch that they are staged for.
    """

    batch: int


def counts(event_time: str) -> Column:
    """Return the condition that a row's event time is within :data:`BOUNDS`, or null."""
    at = F.col(f"`{event_time}`")
    low, high = BOUNDS.names
    return at.isNull() | F.unix_micros(at).between(F.col(low), F.col(high))


def stage_outside(
    source: FileSource,
    event_time: EventTime,
    generation: Generation,
    listing: tuple[int, pa.Table, EventTimes],
    columns: Sequence[str],
    stores: Stores,
) -> None:
    """Stage the rows of a listing of Parquet files whose event time does not count, once.

    Call it while no micro-batch of these files can begin. After a crash it is repeated for the same
    micro-batch, until that one is committed.

    Args:
        source: Declaration of the source.
        event_time: Declaration of the event time, with the policy for such rows.
        generation: State of the generation, which keeps the rows for the driver to collect.
        listing: Number of the listing, from 0; its splits; and its event times.
        columns: Names of the columns that the content of a row has.
        stores: Storages that the files may be in.

    Raises:
        InputError: The policy is ``fail`` by now; or a file can't be read.
        StateError: The state folder can't be written.
    """
    number, splits, times = listing
    event = source.event_column(event_time.column)
    if not times.outside or event is None:
        return
    committed = offset_log.last_committed(generation.checkpoint)
    done = -1 if committed is None else committed
    name = f"bad/{source.name}-outside-{number}.json"
    staged = generation.read(name, StagedOutside)
    if staged is not None and staged.batch <= done:
        return
    judge_outside(source.name, event_time, times)
    # Noted first: a run that was interrupted in between has not begun a micro-batch.
    staged = generation.put_if_absent(name, StagedOutside(batch=done + 1))
    folder = staging_folder(generation, source.name).folder(str(staged.batch))
    keeps = event_time.outside == "quarantine"
    bounds = bounds_us(times.not_before_ms, times.not_after_ms)
    bad = splits.filter(pc.greater(splits["outside"], 0))
    out = pa.BufferOutputStream()
    with pq.ParquetWriter(out, STAGED) as writer:
        for path, partition in zip(*(bad[name].to_pylist() for name in _PLACE), strict=True):
            for rows in outside_of_parquet(path, partition, columns, event, bounds, stores):
                writer.write_batch(staged_rows(rows, "outside", keeps=keeps))
    folder.replace_bytes(f"outside-{number}.parquet", out.getvalue().to_pybytes())
