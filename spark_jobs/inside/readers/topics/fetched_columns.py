"""Columns of records that a task has fetched, by the names that parsing has for them.

Columns with the bounds of event times, the same in each row, follow those of the record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sources.decoding.batch_cursor import Mask
from spark_jobs.inside.readers.topics.decode_records import ORIGINS
from spark_jobs.inside.readers.topics.range_records import RECORDS, Fetched

BOUNDS = EARLIEST, LATEST = "__earliest", "__latest"
"""Names of the columns with the lowest and the highest event time that counts."""


@dataclass(frozen=True)
class FetchedColumns:
    """Columns of the records that a consumer has fetched, by the names that parsing has for them.

    Attributes:
        record_columns: The part of a record by the declared column that it fills.
        bounds_ms: Lowest and highest event time that count, in Unix milliseconds; None if all do.
    """

    record_columns: Mapping[str, str]
    bounds_ms: tuple[int, int] | None = None

    def of(self, names: Sequence[str], fetched: Fetched) -> pa.RecordBatch:
        """Return columns of fetched records by their names in parsing, then those of the bounds.

        Args:
            names: Names of ``LOG_COLUMNS``, ``RECORD`` or declared columns of a record.
            fetched: The records.
        """
        origins = [self.origin(name) for name in names]
        records = fetched.batch(pa.schema(list(dict.fromkeys(map(RECORDS.field, origins)))))
        bounds = dict(zip(BOUNDS, self.bounds_ms or (), strict=False))
        arrays = [records.column(origin) for origin in origins]
        arrays += [pa.repeat(bound, len(records)) for bound in bounds.values()]
        return pa.RecordBatch.from_arrays(arrays, [*names, *bounds])

    def left(self, names: Sequence[str], fetched: Fetched, mask: Mask) -> pa.RecordBatch:
        """Return columns of some names, as :meth:`of`, of the records for which a mask is true."""
        return self.of(names, fetched.where(mask))

    def origin(self, name: str) -> str:
        """Return which column of a consumer's records has one of these names."""
        return self.record_columns.get(name) or ORIGINS[name]
