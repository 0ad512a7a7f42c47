"""Speeds by the benchmarks, for estimates of a first run: rows per second and core, halved.

From ``docs/benchmarks.md`` and the table of ``docs/capacity.md``, which say how they were measured:
two cores, rows of four narrow columns, a target that is appended to, everything on one machine.
Formats that no benchmark reads have the figures of the slowest one that is parsed alike.
"""

from __future__ import annotations

from typing import NamedTuple


class FileSpeed(NamedTuple):
    """Speed at which a format of files is read into an appended Delta table, by the benchmarks.

    Attributes:
        measured: Name of the format that was measured, for messages.
        rows_per_s: Rows per second and core.
        bytes_per_row: Bytes on disk of a row of the benchmarks: a wider row counts as several.
    """

    measured: str
    rows_per_s: int
    bytes_per_row: int


_PARQUET = FileSpeed("Parquet", 780_000, 25)
_CSV = FileSpeed("CSV", 780_000, 47)
_PARSED = FileSpeed("JSON lines", 620_000, 25)
FILE_SPEEDS = {
    "parquet": _PARQUET,
    "delta": _PARQUET,
    "iceberg": _PARQUET,
    "csv": _CSV,
    "text": _CSV,
    "json": FileSpeed("JSON lines", 620_000, 78),
    "avro": _PARSED,
    "orc": _PARSED,
}
"""Speeds of the formats of files."""
RECORDS_PER_S = 360_000
"""Records of a topic per second and core, the broker's share included (``catch-up-*.json``)."""
CHANGES_PER_S = 38_000
"""The same, where they are changes of Debezium."""
MERGED_ROWS_PER_S = 38_000
"""Rows per second and core that a MERGE by key takes (``changes.json``)."""
COMMIT_S = 1.0
"""Seconds that each micro-batch costs whatever its size: half a second, doubled."""
SPARK_START_S = 20.0
"""Seconds until a driver's first micro-batch is committed: the worst of ``switch.json``, cold."""
SHARE = 0.5
"""Share of these speeds that an estimate counts on: rows and machines differ."""


class Work(NamedTuple):
    """Amount of data that a source has to read, and what determines its speed.

    Attributes:
        records: Rows or Kafka records.
        batches: Micro-batches.
        per_s: Records per second and core.
        cores: Cores that read at the same time.
    """

    records: float
    batches: int
    per_s: float
    cores: int

    @property
    def seconds(self) -> float:
        """Estimated seconds to read it with a running driver, at half of the measured speed.

        Each micro-batch costs a second besides.
        """
        return self.records / (self.per_s * self.cores * SHARE) + self.batches * COMMIT_S
