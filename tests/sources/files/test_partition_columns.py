"""A partition column that files hold, too: equal values are one, others are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from sources.common.schema import names_and_types
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.format_registry import format_of
from sources.files.listing.source_listing import list_splits
from sources.formats.file_regions import Region
from sources.formats.open_file import read_region
from sources.storage.listing import find_files
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.extensions import needs

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
STORES = Stores(S3Settings())
AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "hour", "type": ["null", "int"]},
    ],
}


def as_avro(table: pa.Table, path: Path) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, AVRO, table.to_pylist())


WRITE: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": pq.write_table,
    "orc": orc.write_table,
    "avro": as_avro,
}


def write(folder: Path, form: str, name: str, hour: int | None) -> None:
    path = folder / f"hour={name}" / f"x.{form}"
    path.parent.mkdir()
    columns = {
        "at": pa.array([NOON, NOON], pa.timestamp("us", "UTC")),
        "hour": pa.array([int(name) if name.isdigit() else None, hour], pa.int32()),
    }
    WRITE[form](pa.table(columns), path)


def read(folder: Path, form: str, kind: str = "int", **fields: Any) -> tuple[dict[str, str], int]:
    """Columns as planned, and the number of rows that tasks read."""
    declared = {"type": "files", "name": "h", "path": f"**/*.{form}", "format": form}
    partitions = {"hour": kind}
    source = FileSource.model_validate({**declared, "partitions": partitions, **fields})
    files = find_files(source.name, source.patterns, folder, STORES)
    found = list_splits(source, "at", files, STORES)
    inside = pa.schema([each for each in found.read if each.name != "hour"])
    count = 0
    for split in found.splits.to_pylist():
        region = Region(*(split[name] for name in Region._fields))
        for rows in read_region(format_of(source), region, inside, STORES):
            assert rows.schema == inside
            count += rows.num_rows
    return names_and_types(found.read), count


@needs("text_files")
@needs("orc")
@pytest.mark.parametrize("form", WRITE)
@pytest.mark.parametrize(
    "fields", [{}, {"select": {"at": "at", "hour": "hour"}}, {"schema": {"at": "timestamp"}}]
)
def test_a_column_with_the_value_of_its_folder_is_read_once(
    tmp_path: Path, form: str, fields: dict[str, Any]
) -> None:
    write(tmp_path, form, "07", 7)
    write(tmp_path, form, "08", 8)
    write(tmp_path, form, "__HIVE_DEFAULT_PARTITION__", None)
    assert read(tmp_path, form, **fields) == ({"at": "timestamp", "hour": "int"}, 6)
    drift = {"schema_drift": {}, **fields}
    assert read(tmp_path, form, **drift) == ({"at": "timestamp", "hour": "int"}, 6)


@needs("orc")
@needs("text_files")
@pytest.mark.parametrize("form", WRITE)
@pytest.mark.parametrize(("hour", "told"), [(8, "is 8 in a row"), (None, "is null in a row")])
def test_another_value_is_refused_with_file_folder_and_column(
    tmp_path: Path, form: str, hour: int | None, told: str
) -> None:
    write(tmp_path, form, "07", hour)
    problem = rf"x\.{form}: column `hour` {told} of the file, and '07' by its folder"
    with pytest.raises(InputError, match=problem) as caught:
        read(tmp_path, form)
    assert caught.value.fields["column"] == "hour"


def test_the_hint_names_a_type_by_which_both_mean_the_same(tmp_path: Path) -> None:
    write(tmp_path, "parquet", "07", 7)
    with pytest.raises(InputError, match=r"is 7 in a row of the file, and '07'.*string") as caught:
        read(tmp_path, "parquet", "string")
    assert "declare the column's type under `partitions`" in caught.value.hint


@pytest.mark.parametrize("form", WRITE)
def test_an_event_time_that_only_folders_hold_is_refused_with_what_to_declare(
    tmp_path: Path, form: str
) -> None:
    write(tmp_path, form, "07", 7)
    select = {"at": "CAST(hour AS timestamp)", "id": "hour"}
    with pytest.raises(InputError, match="`at` is read from the partition column `hour`") as told:
        read(tmp_path, form, select=select)
    assert "remove it from `partitions`" in told.value.hint
