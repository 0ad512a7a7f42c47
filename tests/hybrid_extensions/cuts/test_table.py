"""The table of the cuts: one commit a cut, and readers that name what is gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.cuts.table import (
    Cut,
    TableVersion,
    append_cut,
    last_number,
    list_cuts,
    read_cut,
)
from sources.errors import InputError
from sources.storage.folder import Folder
from sources.storage.settings import HdfsSettings, S3Settings
from sources.storage.stores import Stores

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
STORES = Stores(S3Settings(), HdfsSettings())


def cut(number: int, folder: Path, version: int = 0, name: str = "public.orders") -> Cut:
    at = NOON + timedelta(minutes=number)
    return Cut(number, "0/16B3748", at, {name: TableVersion(str(folder / "orders"), version)})


def write(folder: Path, *values: int) -> None:
    write_deltalake(str(folder / "orders"), pa.table({"v": values}), mode="overwrite")


def test_the_last_cut_up_to_a_time_is_read(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "cuts")
    assert last_number(folder) == 0
    with pytest.raises(InputError, match=r"There is no cut in .*cuts yet.*publish-cuts"):
        read_cut(folder)
    for number in (1, 2):
        assert append_cut(folder, cut(number, tmp_path))
    assert last_number(folder) == 2
    assert read_cut(folder) == cut(2, tmp_path)
    assert read_cut(folder, NOON + timedelta(seconds=90)) == cut(1, tmp_path)
    with pytest.raises(InputError, match=r"No cut is as early as 2026-01-31T12:00:00.*cut 1 of"):
        read_cut(folder, NOON)
    assert [each.number for each in list_cuts(folder)] == [1, 2]


def test_of_two_processes_with_the_same_number_one_wins(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "cuts")
    assert append_cut(folder, cut(1, tmp_path))
    assert not append_cut(folder, cut(1, tmp_path, version=9))
    assert list_cuts(folder) == [cut(1, tmp_path)]


def test_a_table_of_the_cuts_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "cuts")
    assert append_cut(folder, cut(1, tmp_path))
    for file in (tmp_path / "cuts").glob("*.parquet"):
        file.unlink()
    with pytest.raises(InputError, match=r"The table of the cuts, .*cuts, can't be used: "):
        list_cuts(folder)


def test_another_table_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with pytest.raises(InputError, match=r"orders is not a table of cuts: it has the columns v"):
        last_number(Folder(tmp_path / "orders"))


def test_views_show_the_versions_of_the_cut(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2, 3)
    with duckdb.connect() as connection:
        cut(1, tmp_path).create_views(connection, STORES)
        assert connection.execute("SELECT v FROM public.orders").fetchall() == [(1,)]
        cut(1, tmp_path, version=1).create_views(connection, STORES)
        assert connection.execute("SELECT sum(v) FROM public.orders").fetchall() == [(5,)]
    with pytest.raises(InputError, match=r"has no table `orders`; it has public\.orders"):
        cut(1, tmp_path).open("orders", STORES)


def test_a_view_of_another_cut_never_shows_another_table(tmp_path: Path) -> None:
    for name, value in (("a", 1), ("b", 2)):
        write_deltalake(str(tmp_path / name), pa.table({"v": [value]}))
    tables = {f"main.{name}": TableVersion(str(tmp_path / name), 0) for name in ("a", "b")}
    both = Cut(2, "0/16B3748", NOON, tables)
    earlier = Cut(1, "0/16B3748", NOON, {"main.b": tables["main.b"]})
    with duckdb.connect() as connection:
        for each in (both, earlier):
            each.create_views(connection, STORES)
            assert connection.execute("SELECT v FROM main.b").fetchall() == [(2,)]
            assert connection.execute("SELECT v FROM main.a").fetchall() == [(1,)]


def test_a_table_whose_rows_are_marked_as_deleted_has_a_view(tmp_path: Path) -> None:
    few = {"delta.enableDeletionVectors": "true"}
    write_deltalake(str(tmp_path / "orders"), pa.table({"v": [1, 2]}), configuration=few)
    with duckdb.connect() as connection:
        cut(1, tmp_path).create_views(connection, STORES)
        # A view can be read more than once.
        for _ in range(2):
            assert connection.execute("SELECT sum(v) FROM public.orders").fetchall() == [(3,)]


def test_a_cut_whose_files_vacuum_has_removed_is_named(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    DeltaTable(str(tmp_path / "orders")).vacuum(
        retention_hours=0, dry_run=False, enforce_retention_duration=False
    )
    with pytest.raises(InputError, match=r"`public\.orders` of cut 1 of 2026-01-31.*version 0 of"):
        cut(1, tmp_path).open("public.orders", STORES)
    cut(1, tmp_path, version=1).open("public.orders", STORES)
