"""Rows of Delta tables in DuckDB: what can't be copied is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.comparison.copied_rows import copy_rows, place_of
from sources.errors import InputError

ENTRIES = [("a", 1), ("a", 2)]


def copied(table: DeltaTable, query: str = "SELECT * FROM target") -> list[Any]:
    with duckdb.connect() as connection:
        copy_rows(connection, "rows", table, query)
        found: list[Any] = connection.sql("FROM rows").fetchall()
        return found


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """A table with a map that has a key twice, as Spark reads it from Parquet files."""
    maps = pa.array([ENTRIES], pa.map_(pa.string(), pa.int32()))
    write_deltalake(tmp_path / "t", pa.table({"id": pa.array([1]), "m": maps}))
    return DeltaTable(tmp_path / "t")


def test_a_map_with_a_key_twice_is_refused_with_its_column(table: DeltaTable) -> None:
    with pytest.raises(InputError, match="a map has a key twice") as refused:
        copied(table)
    assert refused.value.fields["column"] == "m"
    assert "`map_entries(m)`" in refused.value.hint
    assert copied(table, "SELECT id FROM target") == [(1,)]
    # Which of several it is, DuckDB does not say.
    with pytest.raises(InputError, match="a map has a key twice") as refused:
        copied(table, "SELECT m, m AS n FROM target")
    assert "entries of each map in its place, `map_entries(m)` and `map_entries(n)`" in (
        refused.value.hint
    )


def test_the_table_is_told_by_its_path_as_people_write_it(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "my table", pa.table({"id": [1]}))
    assert place_of(DeltaTable(tmp_path / "my table")) == str(tmp_path / "my table")


def test_its_entries_are_copied_as_the_hint_says(table: DeltaTable) -> None:
    entries = [{"key": key, "value": value} for key, value in ENTRIES]
    assert copied(table, "SELECT map_entries(m) AS m FROM target") == [(entries,)]


def test_a_table_without_one_of_its_files_is_refused(table: DeltaTable, tmp_path: Path) -> None:
    (gone,) = (tmp_path / "t").glob("*.parquet")
    gone.unlink()
    with pytest.raises(InputError, match=gone.name) as refused:
        copied(table)
    assert "from a backup" in refused.value.hint
