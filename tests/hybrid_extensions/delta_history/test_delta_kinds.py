"""Kinds of Delta tables that others write: without rows, with other event times, damaged."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from sources.common.sql.select import EventColumn
from sources.errors import UnavailableError
from sources.files.outside_bounds import PlannedParquetRows, outside_of_parquet
from sources.formats.deletion_vectors import deletion_vector
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.hybrid_extensions.delta_history.test_delta_table import (
    BEGIN,
    BEGIN_US,
    listed,
    refusal,
    rewritten,
    rows,
    with_features,
)

NO_STATISTICS = {"delta.dataSkippingNumIndexedCols": "0"}


def test_a_table_without_rows_has_no_splits(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", rows([]).schema)
    assert len(listed(tmp_path).splits) == 0
    write_deltalake(tmp_path / "t", rows([1, 2]), mode="append")
    DeltaTable(tmp_path / "t").delete()
    assert len(listed(tmp_path).splits) == 0
    assert len(listed(tmp_path, version=1).splits) == 1


@pytest.mark.parametrize("settings", [{}, NO_STATISTICS])
@pytest.mark.parametrize("is_partition", [True, False])
def test_times_without_a_zone_are_utc(
    tmp_path: Path, settings: dict[str, str], is_partition: bool
) -> None:
    times = pa.array([BEGIN_US + 1_500], pa.timestamp("us"))
    table = pa.table({"id": [1], "at": times})
    by = ["at"] if is_partition else None
    write_deltalake(tmp_path / "t", table, partition_by=by, configuration=settings)
    (split,) = listed(tmp_path).splits.to_pylist()
    assert split["event_max_us"] // 1000 == (BEGIN_US + 1_500) // 1000


@pytest.mark.parametrize("settings", [{}, NO_STATISTICS])
def test_times_of_partitions_are_those_of_their_rows(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    table = rows([1, 1, 5, None]).drop_columns(["day"])
    write_deltalake(tmp_path / "t", table, partition_by=["at"], configuration=settings)
    found = listed(tmp_path).splits.select(["rows", "event_min_us", "event_max_us", "nulls"])
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (2, BEGIN_US + 1, BEGIN_US + 1, 0),
        (1, BEGIN_US + 5, BEGIN_US + 5, 0),
        (1, None, None, 1),
    ]
    until = datetime.fromtimestamp((BEGIN_US + 5) / 1e6, UTC)
    cut = listed(tmp_path, time_range={"until": until}).splits
    assert cut["event_max_us"].to_pylist() == [BEGIN_US + 1, None]


@pytest.mark.parametrize("settings", [{}, NO_STATISTICS])
def test_rows_of_files_that_are_older_than_the_event_time_have_none(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    older = rows([1, 2]).drop_columns(["at"])
    write_deltalake(tmp_path / "t", older, configuration=settings)
    write_deltalake(tmp_path / "t", rows([3]), mode="append", schema_mode="merge")
    found = listed(tmp_path).splits
    assert found["nulls"].to_pylist() == [0, 2]
    # The log keeps milliseconds.
    assert found["event_max_us"].to_pylist()[0] // 1000 == (BEGIN_US + 3) // 1000


def test_texts_of_char_are_those_that_are_stored(tmp_path: Path) -> None:
    metadata = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}
    table = rows([1, 2])
    named = table.schema.get_field_index("day")
    schema = table.schema.set(named, table.schema.field("day").with_metadata(metadata))
    write_deltalake(tmp_path / "t", table.cast(schema))
    (field,) = json.loads(DeltaTable(tmp_path / "t").schema().to_json())["fields"][1:2]
    assert field["metadata"] == metadata
    # Spark would fill up a `char(5)`; a plain string it reads as it is stored.
    assert listed(tmp_path).columns.field("day").type == pa.string()


def test_a_column_that_the_table_lacks_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows([1]))
    told = refusal(tmp_path, schema={"id": "bigint", "at": "timestamp", "x": "int"})
    assert "its table has no column `x`, which `schema` names" in told


def test_rows_whose_partition_is_a_time_that_does_not_count_are_found(tmp_path: Path) -> None:
    table = rows([1, 2]).drop_columns(["at"])
    pq.write_table(table, tmp_path / "a.parquet")
    file = PlannedParquetRows(str(tmp_path / "a.parquet"), "at=1900-01-01T00%3A00%3A00Z")
    bounds = (BEGIN_US, BEGIN_US + 10)
    stores = Stores(S3Settings())
    event = EventColumn("at", None)
    found = [*outside_of_parquet(file, ["id", "at"], event, bounds, stores)]
    assert [row.offset for batch in found for row in batch] == [0, 1]
    within = PlannedParquetRows(file.path, "at=2024-01-01T00%3A00%3A00Z")
    assert [*outside_of_parquet(within, ["id", "at"], event, bounds, stores)] == [[]]


def test_a_deletion_vector_that_is_gone_is_named_and_its_way_out_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_deltalake(tmp_path / "t", rows([1, 2]))
    (before,) = (tmp_path / "t" / "_delta_log").glob("*.json")
    vector = deletion_vector(pa.array([0]).to_numpy())
    assert vector is not None
    # The second version deletes a row, by a vector in a file of its own.
    actions = [json.loads(line) for line in before.read_text().splitlines()]
    (add,) = (action["add"] for action in actions if "add" in action)
    gone = tmp_path / "t" / "deleted.bin"
    stored = {"storageType": "p", "pathOrInlineDv": f"file://{gone}", "offset": 1}
    remove = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}
    marked = {**add, "deletionVector": {**stored, "sizeInBytes": len(vector), "cardinality": 1}}
    protocol: dict[str, Any] = {"protocol": {}}
    with_features(protocol, ["deletionVectors"])
    after = [protocol, {"remove": remove}, {"add": marked}]
    before.with_name(f"{1:020}.json").write_text("\n".join(map(json.dumps, after)))
    told = refusal(tmp_path)
    table = f"the Delta table {tmp_path / 't'}"
    assert f"deleted rows of {table} can't be distinguished from the others" in told
    assert "deleted.bin" in told
    assert len(listed(tmp_path, version=0).splits) == 1

    def silent(*_: Any) -> None:
        raise UnavailableError("The store does not answer.", "")

    # An outage is no reason to look for another version.
    monkeypatch.setattr(Stores, "require_answer", silent)
    with pytest.raises(UnavailableError):
        listed(tmp_path)


def test_binary_values_of_partitions_keep_their_bytes(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows([1]), partition_by=["day"])

    def as_bytes(action: dict[str, Any]) -> None:
        if "metaData" in action:
            text = action["metaData"]["schemaString"].replace('"string"', '"binary"')
            action["metaData"]["schemaString"] = text

    # As Spark writes them: their text, without escapes.
    rewritten(tmp_path / "t", as_bytes)
    assert listed(tmp_path).splits["partition"].to_pylist() == ["day=a"]


@pytest.mark.parametrize(("kind", "is_read"), [("long", True), ("timestamp_ntz", False)])
def test_widened_columns_are_read_but_for_dates_that_became_times(
    tmp_path: Path, kind: str, is_read: bool
) -> None:
    write_deltalake(tmp_path / "t", rows([1]))

    def widen(action: dict[str, Any]) -> None:
        with_features(action, ["typeWidening"])
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            changes = [{"fromType": "integer", "toType": kind}]
            schema["fields"][0]["metadata"]["delta.typeChanges"] = changes
            action["metaData"]["schemaString"] = json.dumps(schema)

    rewritten(tmp_path / "t", widen)
    if is_read:
        assert len(listed(tmp_path).splits) == 1
    else:
        assert "was of the type date before" in refusal(tmp_path)
        other = listed(tmp_path, schema={"day": "string", "at": "timestamp"})
        assert len(other.splits) == 1


@pytest.mark.parametrize("is_in_list", [True, False])
def test_dates_inside_of_a_column_that_became_times_are_refused_too(
    tmp_path: Path, is_in_list: bool
) -> None:
    write_deltalake(tmp_path / "t", rows([1]))
    change = {"fromType": "date", "toType": "timestamp_ntz"}
    inside = {"name": "x", "type": "timestamp_ntz", "nullable": True, "metadata": {}}

    def widen(action: dict[str, Any]) -> None:
        with_features(action, ["typeWidening", "timestampNtz"])
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            field = dict(inside, name="of")
            if is_in_list:
                changes = {"delta.typeChanges": [{**change, "fieldPath": "element"}]}
                kind = {"type": "array", "elementType": inside["type"], "containsNull": True}
            else:
                changes = {}
                of_x = {"delta.typeChanges": [change]}
                kind = {"type": "struct", "fields": [{**inside, "metadata": of_x}]}
            schema["fields"].append({**field, "type": kind, "metadata": changes})
            action["metaData"]["schemaString"] = json.dumps(schema)

    rewritten(tmp_path / "t", widen)
    told = refusal(tmp_path)
    assert "column `of` of its Delta table was of the type date before" in told
    assert ("Copy the rows" if is_in_list else "DROP FEATURE 'typeWidening'") in told
    other = listed(tmp_path, schema={"day": "string", "at": "timestamp"})
    assert len(other.splits) == 1


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("variant", "v"),
        ({"type": "array", "elementType": "variant", "containsNull": True}, "v.element"),
        (
            {
                "type": "struct",
                "fields": [{"name": "x", "type": "variant", "nullable": True, "metadata": {}}],
            },
            "v.x",
        ),
    ],
)
def test_a_variant_is_refused_by_name_and_the_other_columns_are_read(
    tmp_path: Path, kind: str | dict[str, Any], name: str
) -> None:
    write_deltalake(tmp_path / "t", rows([1]))

    def add(action: dict[str, Any]) -> None:
        with_features(action, ["variantType"])
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"].append({"name": "v", "type": kind, "nullable": True, "metadata": {}})
            action["metaData"]["schemaString"] = json.dumps(schema)

    rewritten(tmp_path / "t", add)
    assert f"column `{name}` of its Delta table has the type variant" in refusal(tmp_path)
    other = listed(tmp_path, schema={"day": "string", "at": "timestamp"})
    assert len(other.splits) == 1


def test_the_far_future_is_a_time(tmp_path: Path) -> None:
    far = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
    times = pa.array([BEGIN, far], pa.timestamp("us", "UTC"))
    write_deltalake(tmp_path / "t", pa.table({"id": [1, 2], "at": times}))
    (split,) = listed(tmp_path).splits.to_pylist()
    assert (split["rows"], split["outside"]) == (2, 1)
