"""A table takes over the rows of another one, or of an older version of itself, in one commit."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sources.errors import InputError, StateError
from spark_jobs.target.adopt_table import NO_MORE, take_over, transactions_of, version_of

AT = datetime(2024, 3, 1, 12, 30, 0, 123456, tzinfo=UTC)


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "at": pa.array([AT.replace(second=n % 60) for n in numbers]),
            "day": pa.array([date(2024, 3, 1 + n % 3) for n in numbers]),
            "price": pa.array([Decimal(n) / 4 for n in numbers], pa.decimal128(10, 2)),
            "name": [None if n % 5 == 0 else f"ä {n}%/é" for n in numbers],
        }
    )


def write(path: Path, table: pa.Table, batch: int, application: str, by: str | None = None) -> None:
    done = CommitProperties(app_transactions=[Transaction(application, batch)])
    write_deltalake(path, table, mode="append", commit_properties=done, partition_by=by)


def read(path: Path, version: int | None = None) -> list[dict[str, object]]:
    table = DeltaTable(path, version=version).to_pyarrow_table()
    return table.sort_by("id").to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("by", [None, "day", "name", "at"])
def test_readers_see_the_one_or_the_other(tmp_path: Path, by: str | None) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 10), 3, "one", by)
    write(new, rows(5, 20), 7, "two", by)
    before = version_of(str(old))
    take_over(str(old), str(new), None, {"two": 7, "one": NO_MORE}, {})
    assert version_of(str(old)) == before + 1
    assert read(old) == read(new)
    assert read(old, before) == rows(0, 10).sort_by("id").to_pylist()
    assert transactions_of(str(old), ["one", "two", "three"]) == {"one": NO_MORE, "two": 7}


def test_statistics_stay_as_they_were(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 1), 0, "one")
    write(new, rows(5, 20), 0, "two")
    take_over(str(old), str(new), None, {}, {})
    names = ["num_records", "min.id", "max.at", "max.day", "null_count.price", "null_count.name"]
    for name in names:
        sides = [
            pa.table(DeltaTable(path).get_add_actions(flatten=True))[name].to_pylist()
            for path in (old, new)
        ]
        assert sides[0] == sides[1], name


def test_ranges_that_are_not_exact_are_not_told(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    wide = Decimal("12345678901234567890")
    table = pa.table(
        {
            "wide": pa.array([wide], pa.decimal128(20, 0)),
            "v": [float("nan")],
            "n": [1],
        }
    )
    write(old, table, 0, "one")
    write(new, table, 0, "two")
    # As Delta's Rust library tells them.
    (row,) = pa.table(DeltaTable(new).get_add_actions()).to_pylist()
    assert row["max"]["wide"] != wide
    take_over(str(old), str(new), None, {}, {})
    (row,) = pa.table(DeltaTable(old).get_add_actions()).to_pylist()
    assert {name for name, value in row["max"].items() if value is not None} == {"n"}


def test_new_columns_come_with_the_rows(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 3), 0, "one")
    wider = rows(0, 3).append_column("more", pa.array([1.0, 2.0, 3.0]))
    write(new, wider, 0, "two")
    take_over(str(old), str(new), None, {}, {"delta.appendOnly": "false"})
    assert read(old) == wider.to_pylist()
    assert DeltaTable(old).metadata().configuration["delta.appendOnly"] == "false"


def test_a_table_goes_back_to_a_version_of_its_own(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 10), 3, "one")
    before = version_of(str(old))
    write(new, rows(5, 20), 7, "two")
    take_over(str(old), str(new), None, {"two": 7, "one": NO_MORE}, {})
    write(old, rows(100, 5), 8, "two")
    known = transactions_of(str(old), ["one"], before)
    take_over(str(old), str(old), before, {**known, "two": NO_MORE}, {})
    assert read(old) == rows(0, 10).to_pylist()
    assert transactions_of(str(old), ["one", "two"]) == {"one": 3, "two": NO_MORE}


def test_files_on_another_file_system_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 3), 0, "one")
    write(new, rows(5, 20), 0, "two")

    def refused(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refused)
    take_over(str(old), str(new), None, {}, {})
    assert read(old) == rows(5, 20).to_pylist()


def test_rows_whose_files_are_gone_are_not_promised(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 3), 0, "one")
    write(new, rows(5, 20), 0, "two")
    next(new.glob("*.parquet")).unlink()
    before = version_of(str(old))
    with pytest.raises(StateError, match="is missing"):
        take_over(str(old), str(new), None, {}, {})
    assert version_of(str(old)) == before


def test_tables_that_are_partitioned_otherwise_are_refused(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 3), 0, "one", "day")
    write(new, rows(5, 20), 0, "two", "id")
    with pytest.raises(InputError, match="partitioned"):
        take_over(str(old), str(new), None, {}, {})
    with pytest.raises(InputError, match="can't be read"):
        take_over(str(tmp_path / "nothing"), str(new), None, {}, {})
