"""Opening of Parquet files with Arrow, with the same options everywhere."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq


def parquet_file(file: Any) -> pq.ParquetFile:
    """Open a Parquet file; INT96 times are read in microseconds, as in Spark.

    Args:
        file: Its path, or its open content.

    Raises:
        pyarrow.ArrowException: It is damaged.
        OSError: It can't be read.
    """
    # Nanoseconds, Arrow's default, end in 2262.
    return pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
