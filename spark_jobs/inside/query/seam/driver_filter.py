"""Filter of a seam for rows in the driver's memory, where each row can be judged by itself.

Spark and DuckDB evaluate the same conditions. A row that must end the run is left to Spark, which
says where it is.
"""

from __future__ import annotations

from functools import cached_property

import duckdb
import pyarrow as pa

from sources.common.sql.sql_names import column_list, quoted
from sources.decoding.batch_cursor import as_mask
from spark_jobs.inside.query.seam.duplicate_filters import HeldConditions, SeamFilter

_ALIKE = (pa.types.is_integer, pa.types.is_string)


class DriverFilter:
    """Filter that removes from a micro-batch in memory the rows that history contains.

    Args:
        conditions: The conditions of the seam's filter, for DuckDB.
    """

    def __init__(self, conditions: HeldConditions) -> None:
        self._names = list(dict.fromkeys(conditions.columns))
        refused = " OR ".join(f"({each})" for each in conditions.refused.values()) or "false"
        self._query = (
            f"SELECT {conditions.held} AS held, coalesce({refused}, false) AS refused "
            f"FROM (SELECT {column_list(self._names)} FROM given)"
        )

    @cached_property
    def _duckdb(self) -> duckdb.DuckDBPyConnection:
        # One thread keeps the order of the rows, and starts no others.
        return duckdb.connect(config={"threads": 1})

    @classmethod
    def of(cls, seam: SeamFilter, columns: pa.Schema) -> DriverFilter | None:
        """Return the counterpart of a seam's filter in the driver; None if only Spark can decide.

        The driver can if a row's own integers and texts show whether history contains it.

        Args:
            seam: The filter.
            columns: Columns of the rows.
        """
        conditions = seam.conditions(quoted)
        if conditions is None:
            return None
        kinds = [columns.field(name).type for name in conditions.columns]
        is_able = all(any(is_alike(kind) for is_alike in _ALIKE) for kind in kinds)
        return cls(conditions) if is_able else None

    def new(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the rows that history does not contain; None if one of them must end the run."""
        given = pa.Table.from_batches([rows.select(self._names)])
        with self._duckdb.cursor() as cursor:
            cursor.register("given", given)
            found = cursor.sql(self._query).to_arrow_table()
        if as_mask(found["refused"].combine_chunks()).any():
            return None
        return rows.filter(pa.array(~as_mask(found["held"].combine_chunks())))
