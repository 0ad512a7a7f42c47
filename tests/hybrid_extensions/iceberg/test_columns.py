"""Columns of an Iceberg table: ids decide which is which, and manifests tell what files lack."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from copy import deepcopy
from datetime import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from sources.common.schema import names_and_types
from sources.storage.folder_partitions import values_of
from tests.hybrid_extensions.iceberg.tables import add_file, catalog, change_metadata
from tests.hybrid_extensions.iceberg.test_listing import BEGIN_US, listed, made, refusal, rows

KEYS = (NestedField(1, "id", LongType()), NestedField(2, "at", TimestamptzType()))
NO_BOUNDS = {"write.metadata.metrics.default": "none"}


def with_column(folder: Path, kind: IcebergType, name: str = "v") -> Table:
    return catalog(folder).create_table("shop.events", Schema(*KEYS, NestedField(3, name, kind)))


@pytest.mark.parametrize("properties", [{}, NO_BOUNDS])
@pytest.mark.parametrize("is_renamed", [True, False])
def test_a_name_that_is_used_again_is_another_column(
    tmp_path: Path, properties: dict[str, str], is_renamed: bool
) -> None:
    table = made(tmp_path, rows([1, 2]), **properties)
    with table.update_schema() as change:
        if is_renamed:
            change.rename_column("at", "was")
        else:
            change.delete_column("at")
    with table.update_schema() as change:
        change.add_column("at", TimestamptzType())
    later = rows([5, 6])
    table.append(later.append_column("was", later["at"]) if is_renamed else later)
    found = listed(tmp_path, table).splits
    # The first file has times under this name, but of another column.
    assert found["event_max_us"].to_pylist() == [BEGIN_US + 6, None]
    assert found["nulls"].to_pylist() == [0, 2]


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (StringType(), "a/b=c ", "a/b=c "),
        (LongType(), -7, "-7"),
        (DateType(), 19_000, "2022-01-08"),
        (StringType(), None, None),
    ],
)
def test_a_value_that_only_the_manifest_has_is_read_from_there(
    tmp_path: Path, kind: IcebergType, value: object, stored: str | None
) -> None:
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "v"))
    schema = Schema(*KEYS, NestedField(3, "v", kind))
    table = catalog(tmp_path).create_table("shop.events", schema, partition_spec=spec)
    add_file(table, rows([1, 2]), value)
    found = listed(tmp_path, table)
    assert found.partitions == ["v"]
    assert [values_of(text) for text in found.splits["partition"].to_pylist()] == [{"v": stored}]


def test_an_event_time_that_only_the_manifest_has_is_that_of_all_rows(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "at"))
    table = catalog(tmp_path).create_table("shop.events", Schema(*KEYS), partition_spec=spec)
    add_file(table, rows([1, 2]).drop_columns(["at"]), BEGIN_US)
    (split,) = listed(tmp_path, table).splits.to_pylist()
    assert (split["rows"], split["event_min_us"], split["event_max_us"]) == (2, BEGIN_US, BEGIN_US)


@pytest.mark.parametrize(
    ("value", "told"), [("", "is ''"), ("__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__")]
)
def test_a_value_that_a_log_can_not_tell_is_refused(tmp_path: Path, value: str, told: str) -> None:
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "v"))
    schema = Schema(*KEYS, NestedField(3, "v", StringType()))
    table = catalog(tmp_path).create_table("shop.events", schema, partition_spec=spec)
    add_file(table, rows([1, 2]), value)
    assert told in refusal(lambda: listed(tmp_path, table))


def test_files_that_have_the_column_and_files_that_lack_it_are_read_if_all_are_told(
    tmp_path: Path,
) -> None:
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "v"))
    schema = Schema(*KEYS, NestedField(3, "v", StringType()))
    table = catalog(tmp_path).create_table("shop.events", schema, partition_spec=spec)
    table.append(rows([1]).append_column("v", pa.array(["own"])))
    add_file(table, rows([2]), "told")
    found = listed(tmp_path, table)
    assert found.splits["partition"].to_pylist() == ["v=own", "v=told"]
    with table.update_spec() as change:
        change.remove_field("v")
    table.append(rows([3]).append_column("v", pa.array(["own"])))
    assert "its partition has no `v`, which others lack" in refusal(lambda: listed(tmp_path, table))


@pytest.mark.parametrize("column", ["v", "s.v"])
def test_a_default_is_refused_only_where_a_file_lacks_the_column(
    tmp_path: Path, column: str
) -> None:
    kind = StructType(NestedField(4, "v", LongType()))
    field = NestedField(3, "s", kind) if "." in column else NestedField(3, "v", LongType())
    table = catalog(tmp_path).create_table("shop.events", Schema(*KEYS, field))
    values = [{"v": 1}] if "." in column else [1]
    table.append(rows([1]).append_column(field.name, pa.array(values)))

    def with_default(document: dict[str, Any]) -> None:
        document |= {"format-version": 3, "next-row-id": 10}
        (of,) = document["schemas"][0]["fields"][2:]
        (of["type"]["fields"][0] if "." in column else of)["initial-default"] = 7

    path = change_metadata(table, with_default)
    assert len(listed(tmp_path, path).splits) == 1
    add_file(table, rows([2]))
    told = refusal(lambda: listed(tmp_path, change_metadata(table, with_default)))
    assert f"column `{column}` has an initial default" in told


UNKNOWN = ("variant", "geometry(OGC:CRS84)", "of the future")
"""Types that PyIceberg does not know."""


@pytest.mark.parametrize("kind", [UUIDType(), TimeType(), "geometry", *UNKNOWN])
@pytest.mark.parametrize("is_nested", [True, False])
def test_a_type_that_spark_lacks_is_refused_and_its_way_out_works(
    tmp_path: Path, kind: IcebergType | str, is_nested: bool
) -> None:
    table = with_column(tmp_path, LongType())
    table.append(rows([1, 2]))

    def change(document: dict[str, Any]) -> None:
        field = document["schemas"][0]["fields"][2]
        inner = {"id": 4, "name": "x", "required": False, "type": str(kind)}
        field["type"] = {"type": "struct", "fields": [inner]} if is_nested else str(kind)

    path = change_metadata(table, change)
    told = refusal(lambda: listed(tmp_path, path))
    # Whatever of it PyIceberg does not know either is told of the whole column.
    assert f"column `v{'.x' if is_nested and kind not in UNKNOWN else ''}`" in told
    assert f"has the Iceberg type {kind}" in told
    found = listed(tmp_path, path, schema={"id": "bigint", "at": "timestamp"})
    assert names_and_types(found.read) == {"id": "bigint", "at": "timestamp"}


def test_a_column_of_fixed_length_is_binary(tmp_path: Path) -> None:
    table = with_column(tmp_path, FixedType(3))
    table.append(rows([1]).append_column("v", pa.array([b"abc"], pa.binary(3))))
    assert names_and_types(listed(tmp_path, table).read)["v"] == "binary"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (IntegerType(), LongType(), True),
        (DecimalType(5, 2), DecimalType(20, 2), True),
        (LongType(), LongType(), False),
    ],
)
def test_a_renamed_column_of_another_type_is_refused_until_files_have_its_name(
    tmp_path: Path, before: IcebergType, after: IcebergType, told: bool
) -> None:
    table = with_column(tmp_path, before, "was")
    table.append(rows([1]))
    with table.update_schema() as change:
        change.rename_column("was", "v")
    if after != before:
        with table.update_schema() as change:
            change.update_column("v", after)
    if told:
        assert "it has `v` under an older name" in refusal(lambda: listed(tmp_path, table))
        table.overwrite(table.scan().to_arrow())
    assert len(listed(tmp_path, table).splits) == 1


def test_a_name_that_another_type_took_is_refused(tmp_path: Path) -> None:
    table = with_column(tmp_path, StringType(), "v")
    table.append(rows([1]))
    with table.update_schema() as change:
        change.rename_column("v", "w")
    with table.update_schema() as change:
        change.add_column("v", LongType())
    assert "it has `w` under an older name" in refusal(lambda: listed(tmp_path, table))


@pytest.mark.parametrize(
    ("name", "told"),
    [("ID", "`id` and `ID`, which Spark does not tell apart"), ("a`b", "a backtick in its name")],
)
def test_a_name_that_spark_can_not_read_is_refused_and_its_way_out_works(
    tmp_path: Path, name: str, told: str
) -> None:
    table = with_column(tmp_path, LongType(), name)
    table.append(rows([1]))
    assert told in refusal(lambda: listed(tmp_path, table))
    assert len(listed(tmp_path, table, schema={"id": "bigint", "at": "timestamp"}).splits) == 1
    with table.update_schema() as change:
        change.rename_column(name, "other")
    assert len(listed(tmp_path, table).splits) == 1


@pytest.mark.parametrize("make", [lambda table: None, lambda table: table.append(rows([1]))])
def test_a_table_without_rows_has_no_splits(
    tmp_path: Path, make: Callable[[Table], object]
) -> None:
    table = catalog(tmp_path).create_table("shop.events", Schema(*KEYS))
    make(table)
    if table.current_snapshot() is not None:
        table.delete()
    assert len(listed(tmp_path, table).splits) == 0


def test_a_file_without_field_ids_is_refused_whatever_the_table_knows_of_names(
    tmp_path: Path,
) -> None:
    table = made(tmp_path, rows([1]))
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": "[]"})
    assert len(listed(tmp_path, table).splits) == 1
    place = tmp_path / "older.parquet"
    pq.write_table(rows([2]), place)
    table.add_files([str(place)])
    assert "it has no field ids" in refusal(lambda: listed(tmp_path, table))


def test_a_folder_with_packed_metadata_is_read(tmp_path: Path) -> None:
    table = made(tmp_path, rows([1]))
    folder = Path(table.location().removeprefix("file://")) / "metadata"
    content = Path(table.metadata_location.removeprefix("file://")).read_bytes()
    (folder / "v3.gz.metadata.json").write_bytes(gzip.compress(content))
    (folder / "version-hint.text").write_text("3")
    assert len(listed(tmp_path, folder.parent).splits) == 1


def test_a_snapshot_without_a_list_of_manifests_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, rows([1]))

    def as_first_version(document: dict[str, Any]) -> None:
        (snapshot,) = document["snapshots"]
        snapshot["manifests"] = [snapshot.pop("manifest-list")]

    told = refusal(lambda: listed(tmp_path, change_metadata(table, as_first_version)))
    assert "names its manifests one by one" in told


def test_a_missing_manifest_or_delete_file_is_named(tmp_path: Path) -> None:
    table = made(tmp_path, rows([1]))
    for manifest in Path(table.location().removeprefix("file://")).glob("metadata/*.avro"):
        manifest.unlink()
    told = refusal(lambda: listed(tmp_path, table))
    assert "a file of the Iceberg snapshot can't be read" in told
    assert ".avro" in told


def test_json_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.metadata.json").write_text(json.dumps([1]))
    told = refusal(lambda: listed(tmp_path, tmp_path / "x.metadata.json"))
    assert "can't be read as an Iceberg table" in told


def test_a_declared_type_that_is_not_that_of_the_table_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, rows([1]))
    told = refusal(lambda: listed(tmp_path, table, schema={"id": "int", "at": "timestamp"}))
    assert "column `id` is bigint in its table, and `schema` declares int" in told


def test_dates_that_became_times_are_refused_and_the_other_columns_are_read(
    tmp_path: Path,
) -> None:
    table = with_column(tmp_path, DateType())
    table.append(rows([1]).append_column("v", pa.array([19_000], pa.date32())))

    def change(document: dict[str, Any]) -> None:
        later = deepcopy(document["schemas"][0])
        later["schema-id"], later["fields"][2]["type"] = 1, "timestamp"
        document["schemas"].append(later)
        document |= {"current-schema-id": 1, "format-version": 3, "next-row-id": 10}

    path = change_metadata(table, change)
    told = refusal(lambda: listed(tmp_path, path))
    assert "it has dates in `v`, which became times" in told
    assert len(listed(tmp_path, path, schema={"id": "bigint", "at": "timestamp"}).splits) == 1


def test_a_time_of_day_is_read_from_a_copy_with_its_text(tmp_path: Path) -> None:
    table = with_column(tmp_path, TimeType())
    times = pa.array([time(10, 30, 0, 5)], pa.time64("us"))
    table.append(rows([1]).append_column("v", times))
    told = refusal(lambda: listed(tmp_path, table))
    assert "copy the table with the column as a string: PyIceberg reads it, and Arrow casts" in told
    found = table.scan().to_arrow()
    texts = found.set_column(2, "v", found["v"].cast(pa.string()))
    copy = catalog(tmp_path).create_table("shop.copy", texts.schema)
    copy.append(texts)
    assert names_and_types(listed(tmp_path, copy).read)["v"] == "string"
    assert copy.scan().to_arrow()["v"].to_pylist() == ["10:30:00.000005"]
