"""Speeds that the project's benchmarks measured, for estimates before a pipeline's first run.

From ``docs/benchmarks.md`` and the table of ``docs/capacity.md``, which say how they were measured:
two cores, rows of four narrow columns, a target that is appended to, everything on one machine.
Formats that no benchmark reads have the figures of the slowest one that is parsed alike.
"""

from __future__ import annotations

from typing import NamedTuple

ROWS_PER_S_BY_FILE_FORMAT = {
    "parquet": 780_000,
    "delta": 780_000,
    "iceberg": 780_000,
    "csv": 780_000,
    "text": 780_000,
    "json": 620_000,
    "avro": 620_000,
    "orc": 620_000,
}
"""Rows per second and core, from files to an appended Delta table (``history-*.json``)."""
BYTES_PER_ROW = {
    "parquet": 25,
    "delta": 25,
    "iceberg": 25,
    "orc": 25,
    "avro": 25,
    "csv": 47,
    "text": 47,
    "json": 78,
}
"""Bytes on disk of a row of the benchmarks: a row that is wider counts as several."""
RECORDS_PER_S_BY_TOPIC_FORMAT = {
    "json": 360_000,
    "raw": 360_000,
    "avro": 360_000,
    "protobuf": 360_000,
    "debezium": 38_000,
}
"""Records per second and core, the broker's share included (``catch-up-*.json``)."""
MERGED_ROWS_PER_S = 38_000
"""Rows per second and core that a MERGE by key takes (``changes.json``)."""
COMMIT_S = 1.0
"""Seconds that each micro-batch costs whatever its size: half a second, doubled."""
SPARK_START_S = 20.0
"""Seconds until a driver's first micro-batch is committed: the worst of ``switch.json``, cold."""
SHARE = 0.5
"""Share of these speeds that an estimate counts on: rows and machines differ."""


class Work(NamedTuple):
    """Amount that a source has to read, and what its speed depends on.

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
        """How long this takes with a running driver, by a cautious share of the speed."""
        return self.records / (self.per_s * self.cores * SHARE) + self.batches * COMMIT_S
