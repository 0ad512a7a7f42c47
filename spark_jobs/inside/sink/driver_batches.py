"""Micro-batches of a topic whose rows the driver reads itself, if they are small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame


@dataclass(frozen=True)
class DriverBatches:
    """Small micro-batches without a Spark job, and all others by Spark.

    Spark plans each micro-batch before anybody knows how many records it has, and the parsing of a
    record is most of a plan. So the query reads records as they are.

    Attributes:
        rows: Returns the rows of a micro-batch, given its number; None if Spark has to read it.
        records: Returns a stream of the records, before they are parsed.
        parsed: Returns the rows of the records of a micro-batch with a number, by Spark.
    """

    rows: Callable[[int], pa.RecordBatch | None]
    records: Callable[[], DataFrame]
    parsed: Callable[[DataFrame, int], DataFrame]
