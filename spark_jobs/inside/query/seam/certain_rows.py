"""Rows of the seam that are certainly new, or certainly in history, by the tasks that parse.

A row is new if history has no row with its key. Of each part of a key tasks know the values that
the kept keys have, so they leave some new rows to the filter, and never write one that history has.
A row is in history if that has one with the same values. Of all others, the filter decides. Tasks
get the rows or keys of history only up to :data:`.duplicate_filters.MOST_BROADCAST`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sources.common.positions import Offsets, TopicPartition
from sources.decoding.batch_cursor import Mask, as_mask
from spark_jobs.inside.query.seam.same_rows import SameRows, is_exact
from spark_jobs.inside.readers.topics.kafka_stream import OFFSET, PARTITION, TOPIC

_US = 1000  # microseconds in a millisecond


def are_compared_exactly(keys: pa.Schema, columns: pa.Schema) -> bool:
    """Return whether Arrow finds key values equal exactly where Spark does, so that it is certain.

    Args:
        keys: Columns of the kept keys.
        columns: Columns of the rows, which have those of the keys.
    """
    return all(columns.field(key.name).type == key.type and is_exact(key.type) for key in keys)


@dataclass(frozen=True)
class CertainRows:
    """Check of rows against the kept keys of history, for the tasks that parse them.

    Attributes:
        ends: First offset beyond the seam, of each partition with offsets in it.
        keys: Values that each column of the key has in the kept keys.
        event_time: Name of the event-time column.
        keys_from_ms: Keys of rows before this event time (ms) are not kept.
        copies: Recognizes rows that history has; None if only the filter can.
    """

    ends: Offsets
    keys: Mapping[str, pa.Array]
    event_time: str
    keys_from_ms: int
    copies: SameRows | None = None

    def judge(self, rows: pa.RecordBatch) -> tuple[Mask, Mask]:
        """Return which rows history has certainly not delivered, and which it certainly has.

        Args:
            rows: Parsed rows with their topic, partition and offset (``LOG_COLUMNS``).

        Returns:
            Two masks with a value for each row. Where both are false, the filter has to decide.
            Rows beyond the seam are all new.
        """
        inside = self._are_inside(rows)
        if not inside.any():
            return ~inside, inside
        found = (
            as_mask(pc.is_in(rows.column(name), value_set=values))
            for name, values in self.keys.items()
        )
        times = rows.column(self.event_time).cast(pa.int64())
        is_older = as_mask(pc.less(times, self.keys_from_ms * _US).fill_null(fill_value=False))
        may_be_held = inside & (reduce(np.logical_and, found) | is_older)
        if self.copies is None:
            return ~may_be_held, np.zeros(len(rows), bool)
        return ~may_be_held, self.copies.are_in(rows, may_be_held)

    def _are_inside(self, rows: pa.RecordBatch) -> Mask:
        offsets = rows.column(OFFSET).to_numpy()
        inside = np.zeros(len(rows), bool)
        topics, partitions = rows.column(TOPIC), rows.column(PARTITION)
        found = product(pc.unique(topics).to_pylist(), pc.unique(partitions).to_pylist())
        # Mostly one, as a consumer fetches the records of one partition after those of another.
        for at in {TopicPartition(*each) for each in found} & self.ends.keys():
            is_here = pc.and_(pc.equal(topics, at.topic), pc.equal(partitions, at.partition))
            inside |= (offsets < self.ends[at]) & as_mask(is_here)
        return inside
