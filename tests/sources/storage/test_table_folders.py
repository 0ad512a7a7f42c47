"""Files of Delta, Iceberg and Hudi tables, and files that are not complete, among plain files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources.errors import InputError
from sources.storage.listing import find_files
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores

STORES = Stores(S3Settings())


def made(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def found(folder: Path, pattern: str) -> list[str]:
    paths = find_files("s", [pattern], folder, STORES)["path"].to_pylist()
    return [path.removeprefix(f"{folder}/") for path in paths]


@pytest.mark.parametrize(
    ("log", "told", "hint"),
    [
        ("_delta_log/0.json", "a file of a Delta table", "Declare `format: delta`"),
        (".hoodie/hoodie.properties", "a file of a Hudi table", "Hudi tables are not read."),
        ("metadata/v1.metadata.json", "a file of an Iceberg table", "Declare `format: iceberg`"),
        ("metadata/v1.gz.metadata.json", "a file of an Iceberg table", "Declare `format: iceberg`"),
    ],
)
@pytest.mark.parametrize(
    "pattern", ["lake/t", "lake/**/*.parquet", "lake/t/day=1/*", "lake/t/day=1/a.parquet"]
)
def test_files_of_a_table_are_refused_wherever_a_glob_begins(
    tmp_path: Path, log: str, told: str, hint: str, pattern: str
) -> None:
    made(tmp_path, f"lake/t/{log}", "lake/t/day=1/a.parquet", "lake/plain/b.parquet")
    with pytest.raises(InputError) as caught:
        found(tmp_path, pattern)
    assert told in caught.value.message
    assert str(tmp_path / "lake/t") in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize("log", ["_delta_log/0.json", "metadata/v1.metadata.json"])
def test_files_next_to_a_table_are_read(tmp_path: Path, log: str) -> None:
    made(tmp_path, f"lake/t/{log}", "lake/t/a.parquet", "lake/plain/b.parquet", "c.parquet")
    assert found(tmp_path, "lake/plain") == ["lake/plain/b.parquet"]
    assert found(tmp_path, "*.parquet") == ["c.parquet"]


def test_a_folder_that_is_called_metadata_makes_no_table(tmp_path: Path) -> None:
    made(tmp_path, "in/metadata/schema.json", "in/a.parquet")
    assert found(tmp_path, "in/*.parquet") == ["in/a.parquet"]


def test_names_are_data_by_the_rule_of_spark(tmp_path: Path) -> None:
    data = ["_day=1/a.json", "a_.json", "x/b.tmp", "+tmp2/c.json"]
    made(
        tmp_path / "in",
        *data,
        *("_SUCCESS", ".a.json.crc", "_temporary/0/a.json", "b.json._COPYING_", ".x/c.json"),
        *("_metadata", "+tmp/orders/partition=0/d.json", "x/.part-0.inprogress.1"),
    )
    assert found(tmp_path / "in", "**") == sorted(data)
