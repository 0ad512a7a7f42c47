"""The independent comparison of the load on MySQL sees each difference."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from benchmarks.counted_rows import Counted, count_differences

ROW = {
    "id": 1,
    "total": Decimal("1.50"),
    "placed": datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    "note": '{"a":0.5,"b":"x"}',
    "receipt": b"\x00\xff",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_deltalake(tmp_path / "t", pa.Table.from_pylist([ROW, ROW | {"id": 2, "note": None}]))
    return tmp_path / "t"


def found(path: Path, *rows: dict[str, Any]) -> Counted:
    # A driver's times have no zone, and the server's JSON has blanks.
    written = [
        row | {"placed": row["placed"].replace(tzinfo=None), "note": row["note"]} for row in rows
    ]
    return count_differences(written, list(ROW), path)


def test_equal_rows_are_equal_whatever_their_text(path: Path) -> None:
    second = ROW | {"id": 2, "note": None}
    spaced = ROW | {"note": '{"b": "x", "a": 0.50}'}
    assert found(path, second, spaced) == Counted(2, 2, 0, [])


@pytest.mark.parametrize(
    "change",
    [
        {"total": Decimal("1.51")},
        {"placed": datetime(2026, 1, 1, 0, 0, 0, 2, tzinfo=UTC)},
        {"note": '{"a": 0.5, "b": "y"}'},
        {"receipt": None},
        {"id": 3},
    ],
)
def test_each_value_that_differs_counts(path: Path, change: dict[str, Any]) -> None:
    assert found(path, ROW | change, ROW | {"id": 2, "note": None}).different == 2


def test_rows_that_are_missing_or_doubled_count(path: Path) -> None:
    second = ROW | {"id": 2, "note": None}
    assert found(path, ROW).different == 1
    assert found(path, ROW, second, second).different == 1


def test_a_column_that_the_table_lacks_is_an_error(path: Path) -> None:
    with pytest.raises(KeyError):
        count_differences([ROW | {"more": 1}], [*ROW, "more"], path)
