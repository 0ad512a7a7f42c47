"""Rows of a seam that tasks may write: never one whose key history has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.common.positions import TopicPartition
from sources.common.schema import TIMESTAMP
from spark_jobs.inside.query.seam.certain_rows import CertainRows, are_compared_exactly
from spark_jobs.inside.readers.topics.kafka_stream import LOG_COLUMNS
from tests.properties import examples

ENDS = {TopicPartition("a", 0): 100, TopicPartition("b", 1): 50}
KEYS_FROM_MS = 1000


def rows(*of: tuple[Any, ...]) -> pa.RecordBatch:
    kinds = [pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.string(), TIMESTAMP]
    columns = [list(column) for column in zip(*of, strict=True)]
    columns[-1] = [ms and datetime.fromtimestamp(ms / 1000, UTC) for ms in columns[-1]]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, [*LOG_COLUMNS, "id", "name", "at"])


def check_of(*keys: tuple[int | None, str | None]) -> CertainRows:
    ids, names = ([key[part] for key in keys] for part in range(2))
    values = {"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())}
    return CertainRows(ENDS, values, "at", KEYS_FROM_MS)


def new_of(check: CertainRows, *of: tuple[Any, ...]) -> list[bool]:
    new, held = check.judge(rows(*of))
    # Without rows of history nobody but the filter knows what it has.
    assert not held.any()
    return [bool(each) for each in new]


@pytest.mark.parametrize(
    ("row", "is_new"),
    [
        pytest.param(("a", 0, 99, 7, "x", 2000), False, id="with a kept key"),
        pytest.param(("a", 0, 99, 8, "x", 2000), True, id="with another key"),
        pytest.param(("a", 0, 99, 7, "y", 2000), False, id="with parts of two kept keys"),
        pytest.param(("a", 0, 99, None, None, 2000), False, id="with a kept key of nulls"),
        pytest.param(("a", 0, 99, 8, "x", 999), False, id="older than the kept keys"),
        pytest.param(("a", 0, 99, 8, "x", None), True, id="without a time"),
        pytest.param(("a", 0, 100, 7, "x", 2000), True, id="beyond the seam"),
        pytest.param(("b", 1, 49, 7, "x", 2000), False, id="in another partition"),
        pytest.param(("b", 1, 50, 7, "x", 2000), True, id="beyond the seam of another partition"),
        pytest.param(("b", 0, 0, 7, "x", 2000), True, id="in a partition without a seam"),
    ],
)
def test_a_row_is_new_only_if_history_cannot_have_its_key(
    row: tuple[Any, ...], is_new: bool
) -> None:
    check = check_of((7, "x"), (9, "y"), (None, None))
    assert new_of(check, row) == [is_new]
    # The same beside a row of each partition.
    others = [("a", 0, 1, 8, "x", 2000), ("b", 1, 1, 8, "x", 2000)]
    assert new_of(check, others[0], row, others[1]) == [True, is_new, True]


IDS, NAMES = st.one_of(st.none(), st.integers(0, 5)), st.one_of(st.none(), st.sampled_from("xyz"))


@examples(200)
@given(
    keys=st.lists(st.tuples(IDS, NAMES), min_size=1),
    live=st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.integers(0, 1),
            st.integers(0, 120),
            IDS,
            NAMES,
            st.one_of(st.none(), st.integers(900, 1100)),
        ),
        min_size=1,
    ),
)
def test_no_row_of_history_is_ever_written(
    keys: list[tuple[int | None, str | None]], live: list[tuple[Any, ...]]
) -> None:
    for row, is_new in zip(live, new_of(check_of(*keys), *live), strict=True):
        topic, partition, offset, *key, at = row
        is_inside = offset < ENDS.get(TopicPartition(topic, partition), 0)
        may_be_held = tuple(key) in keys or (at is not None and at < KEYS_FROM_MS)
        assert not (is_new and is_inside and may_be_held)
        assert is_new or is_inside


@pytest.mark.parametrize(
    ("of_keys", "of_rows", "is_exact"),
    [
        (pa.int64(), pa.int64(), True),
        (pa.string(), pa.string(), True),
        (TIMESTAMP, TIMESTAMP, True),
        (pa.int32(), pa.int64(), False),
        (pa.float64(), pa.float64(), False),
        (pa.list_(pa.int64()), pa.list_(pa.int64()), False),
    ],
)
def test_keys_are_compared_by_tasks_only_where_equal_is_equal_to_spark(
    of_keys: pa.DataType, of_rows: pa.DataType, is_exact: bool
) -> None:
    keys, columns = pa.schema([("id", of_keys)]), pa.schema([("id", of_rows), ("v", pa.int8())])
    assert are_compared_exactly(keys, columns) is is_exact
