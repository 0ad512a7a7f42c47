"""The rows that a small MERGE hands to Delta's Rust library."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from spark_jobs.inside.sink.merging.small_merge import copy_rows


def without_offsets() -> pa.Array:
    """An empty array as Arrow's Java library 18 sends it: with a buffer of offsets of no bytes."""
    return pa.StringArray.from_buffers(0, pa.py_buffer(b""), pa.py_buffer(b""))


def offsets_of(array: pa.Array) -> Iterator[int]:
    """Bytes of the offsets of all texts in an array."""
    if pa.types.is_map(array.type):
        yield from offsets_of(array.keys)
        yield from offsets_of(array.items)
    elif pa.types.is_list(array.type):
        yield from offsets_of(array.values)
    else:
        yield array.buffers()[1].size


def test_offsets_that_were_left_out_are_filled_in() -> None:
    empty, ends = without_offsets(), pa.array([0, 0, 0], pa.int32())
    columns = {
        "tags": pa.ListArray.from_arrays(ends, empty),
        "labels": pa.MapArray.from_arrays(ends, empty, empty),
    }
    rows = pa.table(columns)
    filled = copy_rows(rows)
    assert filled.to_pylist() == rows.to_pylist()
    assert filled.schema == rows.schema
    for name in columns:
        assert 0 in set(offsets_of(rows[name].chunk(0)))
        assert 0 not in set(offsets_of(filled[name].chunk(0)))
