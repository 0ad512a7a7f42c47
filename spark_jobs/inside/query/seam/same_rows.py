"""Copies of history's rows, found by parsing tasks: compared bit by bit, up to 64 MiB of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sources.decoding.batch_cursor import Mask

MOST_BYTES = 64 << 20
"""Bytes of history's rows in memory up to which tasks get them."""
_ROW = "__row"
_IS_NULL = "__is_null_"
_EXACT = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_boolean,
    pa.types.is_date,
    pa.types.is_timestamp,
)
_BITS = {pa.float64(): pa.int64(), pa.float32(): pa.int32()}
_NOTHING = {pa.string(): "", pa.binary(): b"", pa.bool_(): False}


def is_exact(kind: pa.DataType) -> bool:
    """Return whether values of a type are equal in Arrow exactly where they are in Spark.

    So it is for integers, texts, bytes, booleans, dates and timestamps.
    """
    return any(is_kind(kind) for is_kind in _EXACT)


@dataclass(frozen=True)
class SameRows:
    """Rows of history, by whose values tasks recognize their copies in the topic.

    Values are compared bit by bit: what Spark finds equal beyond that, such as 0.0 and -0.0, is
    left to Spark.

    Attributes:
        rows: The rows, with the columns that are compared.
    """

    rows: pa.Table

    @classmethod
    def of(cls, known: pa.Table, names: Sequence[str], columns: pa.Schema) -> SameRows | None:
        """Return the rows for tasks; None if Arrow can't compare them, or if they are large.

        Args:
            known: Rows of history.
            names: Names of the columns that are compared.
            columns: Columns of the topic's rows.
        """
        rows = known.select(names)
        is_able = all(
            field.name in columns.names
            and columns.field(field.name).type == field.type
            and (is_exact(field.type) or field.type in _BITS)
            for field in rows.schema
        )
        return cls(rows.combine_chunks()) if is_able and rows.nbytes <= MOST_BYTES else None

    def are_in(self, rows: pa.RecordBatch, mask: Mask) -> Mask:
        """Return which rows of a batch history has, of those for which a mask is true.

        Args:
            rows: Parsed rows.
            mask: Which rows are compared; for the others the result is false.
        """
        found, numbers = np.zeros(len(rows), bool), np.flatnonzero(mask)
        if not len(numbers):
            return found
        names = self.rows.column_names
        looked_at = pa.Table.from_batches([rows.select(names).take(pa.array(numbers))])
        nullable = [
            name for name in names if looked_at[name].null_count or self.rows[name].null_count
        ]
        known = _comparable(self.rows, nullable)
        asked = _comparable(looked_at, nullable).append_column(_ROW, pa.array(numbers))
        same = asked.join(known, keys=known.column_names, join_type="left semi")
        found[same[_ROW].to_numpy()] = True
        return found


def _comparable(rows: pa.Table, nullable: Sequence[str]) -> pa.Table:
    """Return rows with columns that a join of Arrow compares exactly, which has no equal nulls."""
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    for name in rows.column_names:
        column = rows[name].combine_chunks()
        if (bits := _BITS.get(column.type)) is not None:
            column = column.view(bits)
        if name in nullable:
            columns[f"{_IS_NULL}{name}"] = pc.is_null(column)
            column = column.fill_null(pa.scalar(_NOTHING.get(column.type, 0), column.type))
        columns[name] = column
    return pa.table(columns)
