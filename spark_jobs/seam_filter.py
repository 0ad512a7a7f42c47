"""Removes live rows that history has delivered.

The seam is an interval of offsets, from the start offsets to the log ends read when history was
listed. Inside it a live row is dropped if history holds its key. The keys compared are those of
history's last stretch, kept beside the checkpoint; a row of the seam that is older than these is
rare, and is looked up in the whole of history once somebody has met it.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.pipeline import KafkaSource, Pipeline
from sources.positions import iso
from sources.schema import parse_schema
from spark_jobs.kafka_place import OFFSET, PARTITION, parse_values, read_topic

OLDER_ROW = "OLDER_THAN_SEAM_KEYS"


class SeamFilter:
    """The filter of one hand-over.

    Args:
        folder: Where the keys are kept, beside the checkpoint.
        history: All bounded sources before the topic, as one batch.
        pipeline: Tells the key and the event-time column.
        keys_from_ms: Keys of rows before this event time are not kept.
        ends: First offset beyond the seam, by partition.
    """

    def __init__(
        self,
        folder: Path,
        history: DataFrame,
        pipeline: Pipeline,
        keys_from_ms: int,
        ends: Mapping[int, int],
    ) -> None:
        self._folder = folder
        self._history = history
        self._key = pipeline.key
        self._event_time = pipeline.event_time
        self._keys_from = F.timestamp_millis(F.lit(keys_from_ms))
        self._keys_from_ms = keys_from_ms
        self._ends = dict(ends)

    def apply(self, live: DataFrame) -> DataFrame:
        """Drop the live rows of the seam that history holds.

        Args:
            live: Parsed rows with :data:`PARTITION` and :data:`OFFSET`.
        """
        spark = live.sparkSession
        keys = self._kept_keys(spark)
        matches = [live[name].eqNullSafe(keys[f"__{name}"]) for name in self._key]
        delivered = reduce(lambda left, right: left & right, matches) & self._in_seam(live)
        remaining = live.join(F.broadcast(keys), delivered, "left_anti")
        older = self._older_folder()
        if not older.exists():
            return self._refuse_older(remaining)
        known = spark.read.parquet(str(older)).select(
            F.col(PARTITION).alias("__p"), F.col(OFFSET).alias("__o")
        )
        same = (remaining[PARTITION] == known["__p"]) & (remaining[OFFSET] == known["__o"])
        return remaining.join(F.broadcast(known), same, "left_anti")

    def look_up_older(
        self, spark: SparkSession, source: KafkaSource, columns: Mapping[str, str],
        starts: Mapping[int, int],
    ) -> int:  # fmt: skip
        """Find the rows of the seam that are older than the kept keys and that history holds.

        Reads the seam of the topic and the whole of history once; the offsets found are kept.

        Returns:
            How many there are.
        """
        raw = read_topic(spark, source, starts, self._ends)
        rows = parse_values(raw, parse_schema(columns)).where(self._is_older(F.col))
        found = rows.join(
            self._history.select(*(F.col(name).alias(f"__{name}") for name in self._key)),
            reduce(
                lambda left, right: left & right,
                [F.col(name).eqNullSafe(F.col(f"__{name}")) for name in self._key],
            ),
            "left_semi",
        ).select(PARTITION, OFFSET)
        self._keep(found, self._older_folder())
        return spark.read.parquet(str(self._older_folder())).count()

    def is_passed(self, offsets: Mapping[int, int]) -> bool:
        """Whether a stream that has read up to these offsets has left the seam behind."""
        return all(offsets.get(number, 0) >= end for number, end in self._ends.items())

    def _kept_keys(self, spark: SparkSession) -> DataFrame:
        folder = self._folder / "keys"
        if not folder.exists():
            recent = self._history.where(F.col(self._event_time) >= self._keys_from)
            renamed = [F.col(name).alias(f"__{name}") for name in self._key]
            self._keep(recent.select(*renamed).distinct(), folder)
        return spark.read.parquet(str(folder))

    def _older_folder(self) -> Path:
        return self._folder / "older"

    def _keep(self, rows: DataFrame, folder: Path) -> None:
        # Written aside and renamed: a folder that is there is complete.
        temporary = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
        rows.coalesce(1).write.parquet(str(temporary))
        try:
            temporary.rename(folder)
        except OSError:
            shutil.rmtree(temporary)
            if not folder.exists():
                raise

    def _in_seam(self, live: DataFrame) -> Column:
        pairs = [F.lit(part) for item in self._ends.items() for part in item]
        end = F.element_at(F.create_map(*pairs), live[PARTITION])
        return F.coalesce(live[OFFSET] < end, F.lit(False))

    def _is_older(self, column: Callable[[str], Column]) -> Column:
        return column(self._event_time) < self._keys_from

    def _refuse_older(self, live: DataFrame) -> DataFrame:
        """Stop at the first row that the kept keys say nothing of."""
        message = F.concat(
            F.lit(f"{OLDER_ROW}: partition "),
            live[PARTITION],
            F.lit(", offset "),
            live[OFFSET],
            F.lit(f" is before {iso(self._keys_from_ms)}"),
        )
        is_older = self._in_seam(live) & self._is_older(lambda name: live[name])
        # A comparison with the error keeps Spark from dropping the branch as unused.
        checked = F.when(is_older, F.raise_error(message).cast("boolean")).otherwise(F.lit(True))
        return live.where(checked)
