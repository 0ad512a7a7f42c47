"""Comparison of values decoded in a batch with the same values decoded one by one."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from sources.common.conversion import BadValue, to_arrow_array
from sources.decoding.base import FieldReader
from sources.decoding.row_decoder import RowDecoder


def compare(reader: FieldReader, values: list[bytes | None], columns: pa.Schema) -> int:
    """Compare all rows that are decoded in a batch, to the bit; return how many these are."""
    decoder = RowDecoder(reader, columns)
    rows = decoder.rows(pa.array(values, pa.binary()))
    assert len(rows) == len(values)
    rows.validate(full=True)
    for at, value in enumerate(values):
        if rows[at].is_valid:
            # `repr` distinguishes minus zero from zero, and NaN equals itself.
            assert repr(rows.slice(at, 1).to_pylist()) == repr(_alone(decoder, value, columns))
    return sum(row.is_valid for row in rows)


def damaged(data: st.DataObject, value: bytes) -> bytes:
    """Return a value with up to two bytes removed at some place, and up to two others inserted."""
    at = data.draw(st.integers(0, len(value)))
    cut = data.draw(st.integers(0, 2))
    return value[:at] + data.draw(st.binary(max_size=2)) + value[at + cut :]


def _alone(decoder: RowDecoder, value: bytes | None, columns: pa.Schema) -> list[object] | None:
    try:
        row = decoder.decode(value)
    except BadValue:
        return None
    arrays = [to_arrow_array([each], kind) for each, kind in zip(row, columns.types, strict=True)]
    found: list[object] = pa.StructArray.from_arrays(arrays, fields=list(columns)).to_pylist()
    return found
