"""Rows of a topic that are copies of history's: told by tasks where all values are the same."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.common.positions import TopicPartition
from sources.common.schema import TIMESTAMP
from spark_jobs.inside.query.seam import same_rows
from spark_jobs.inside.query.seam.certain_rows import CertainRows
from spark_jobs.inside.query.seam.same_rows import SameRows
from spark_jobs.inside.readers.topics.kafka_stream import LOG_COLUMNS
from tests.properties import examples

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("value", pa.float64()),
        ("raw", pa.binary()),
        ("yes", pa.bool_()),
        ("at", TIMESTAMP),
    ]
)


def table(*of: tuple[Any, ...], schema: pa.Schema = COLUMNS) -> pa.Table:
    columns = [list(column) for column in zip(*of, strict=True)] or [[] for _ in schema]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def copies(history: pa.Table) -> SameRows:
    found = SameRows.of(history, COLUMNS.names, COLUMNS)
    assert found is not None
    return found


def found_in(history: pa.Table, live: pa.Table) -> list[bool]:
    (batch,) = live.combine_chunks().to_batches()
    return [bool(each) for each in copies(history).are_in(batch, np.ones(len(batch), bool))]


def bits(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with the bits of its numbers in floating point: 0.0 is not -0.0, NaN is NaN."""
    return tuple(struct.pack("d", each) if isinstance(each, float) else each for each in row)


ROWS = st.tuples(
    st.one_of(st.none(), st.integers(0, 3)),
    st.one_of(st.none(), st.sampled_from(["", "a", "b"])),
    st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf])),
    st.one_of(st.none(), st.sampled_from([b"", b"a"])),
    st.one_of(st.none(), st.booleans()),
    st.one_of(st.none(), st.integers(0, 1)),
)


@examples(300)
@given(history=st.lists(ROWS, min_size=1), live=st.lists(ROWS, min_size=1))
def test_a_row_is_found_if_history_has_its_values_nulls_included(
    history: list[tuple[Any, ...]], live: list[tuple[Any, ...]]
) -> None:
    had = {bits(row) for row in history}
    assert found_in(table(*history), table(*live)) == [bits(row) in had for row in live]


def test_rows_that_are_not_asked_for_are_not_looked_at() -> None:
    row = (1, "a", 1.0, b"", True, 5)
    (batch,) = table(row, row, row).combine_chunks().to_batches()
    found = copies(table(row)).are_in(batch, np.array([False, True, False]))
    assert found.tolist() == [False, True, False]
    assert not copies(table(row)).are_in(batch, np.zeros(3, bool)).any()


@pytest.mark.parametrize(
    ("kind", "live"),
    [
        pytest.param(pa.list_(pa.int64()), pa.list_(pa.int64()), id="lists"),
        pytest.param(pa.decimal128(10, 2), pa.decimal128(10, 2), id="decimals"),
        pytest.param(pa.int32(), pa.int64(), id="another type in the topic"),
        pytest.param(pa.int64(), None, id="a column that the topic lacks"),
    ],
)
def test_other_columns_are_left_to_spark(kind: pa.DataType, live: pa.DataType | None) -> None:
    known = pa.schema([("id", pa.int64()), ("other", kind)]).empty_table()
    columns = pa.schema([("id", pa.int64()), *([] if live is None else [("other", live)])])
    assert SameRows.of(known, ["id", "other"], columns) is None
    assert SameRows.of(known, ["id"], columns) is not None


def test_rows_that_are_too_large_for_tasks_are_left_to_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(same_rows, "MOST_BYTES", 10)
    assert SameRows.of(table((1, "a", 1.0, b"", True, 5)), COLUMNS.names, COLUMNS) is None


def test_a_row_with_a_key_of_history_and_other_values_is_neither_new_nor_old() -> None:
    ends = {TopicPartition("t", 0): 10}
    history = table((1, "a", 1.0, b"", True, 5000))
    check = CertainRows(ends, {"id": history["id"].combine_chunks()}, "at", 0, copies(history))
    live = [
        (1, "a", 1.0, b"", True, 5000),
        (1, "b", 1.0, b"", True, 5000),
        (2, "a", 1.0, b"", True, 5000),
    ]
    log = pa.table(
        {
            LOG_COLUMNS[0]: pa.array(["t"] * 4),
            LOG_COLUMNS[1]: pa.array([0] * 4, pa.int32()),
            # The last one is the first again, beyond the seam.
            LOG_COLUMNS[2]: pa.array([7, 8, 9, 10], pa.int64()),
        }
    )
    rows = table(*live, live[0])
    for name in COLUMNS.names:
        log = log.append_column(name, rows[name])
    (batch,) = log.combine_chunks().to_batches()
    new, old = check.judge(batch)
    assert (new.tolist(), old.tolist()) == (
        [False, False, True, True],
        [True, False, False, False],
    )
