"""A Delta table as history: its log tells the plan, as footers would."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from sources.common.schema import names_and_types
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.changed_splits import changed_splits
from sources.files.listing.source_listing import list_source
from sources.files.listing.split_table import FileListing
from sources.formats.deletion_vectors import as_action, deletion_vector
from sources.storage.folder_partitions import values_of
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.minimal import minimal_model
from tests.properties import examples

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
BEGIN_US = int(BEGIN.timestamp()) * 1_000_000


def rows(micros: list[int | None], day: str | None = "a") -> pa.Table:
    times = [None if us is None else BEGIN + timedelta(microseconds=us) for us in micros]
    return pa.table(
        {
            "id": pa.array(range(len(micros)), pa.int64()),
            "day": pa.array([day] * len(micros), pa.string()),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def listed(folder: Path, event_time: str = "at", **changes: Any) -> FileListing:
    source = {"type": "files", "name": "history", "path": "t", "format": "delta", **changes}
    pipeline = minimal_model(source, event_time=event_time)
    (declared,) = pipeline.sources
    assert isinstance(declared, FileSource)
    return list_source(LoadedPipeline(folder / "p.yaml", pipeline), declared)


def refusal(folder: Path, **changes: Any) -> str:
    with pytest.raises(InputError) as caught:
        listed(folder, **changes)
    return str(caught.value)


@examples(30)
@given(
    parts=st.lists(
        st.lists(st.one_of(st.none(), st.integers(-(10**12), 10**12)), min_size=1, max_size=5),
        min_size=1,
        max_size=4,
    ),
    statistics=st.booleans(),
)
def test_the_log_of_a_table_tells_what_footers_would(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[int | None]], statistics: bool
) -> None:
    folder = tmp_path_factory.mktemp("table")
    # Without statistics in the log, footers are asked.
    config = {} if statistics else {"delta.dataSkippingNumIndexedCols": "0"}
    for part in parts:
        write_deltalake(folder / "t", rows(part), mode="append", configuration=config)
    found = listed(folder).splits.to_pylist()
    assert sum(split["rows"] for split in found) == sum(map(len, parts))
    assert sum(split["nulls"] for split in found) == sum(part.count(None) for part in parts)
    known = [us for part in parts for us in part if us is not None]
    lows = [split["event_min_us"] for split in found if split["event_min_us"] is not None]
    highs = [split["event_max_us"] for split in found if split["event_max_us"] is not None]
    assert bool(lows) == bool(known)
    if known:
        # The log keeps milliseconds: the range may be wider by less than one.
        assert 0 <= BEGIN_US + min(known) - min(lows) < 1000
        assert 0 <= max(highs) - BEGIN_US - max(known) < 1000
        assert max(highs) // 1000 == (BEGIN_US + max(known)) // 1000


def test_partition_columns_keep_their_values_whatever_they_hold(tmp_path: Path) -> None:
    values = ["a b/c=%", "ö", None]
    for value in values:
        write_deltalake(tmp_path / "t", rows([1], value), mode="append", partition_by=["day"])
    found = listed(tmp_path)
    partitions = found.splits["partition"].to_pylist()
    assert {values_of(text)["day"] for text in partitions} == set(values)
    assert found.partitions == ["day"]
    assert names_and_types(found.read) == {"id": "bigint", "day": "string", "at": "timestamp"}
    assert all(Path(path).is_file() for path in found.splits["path"].to_pylist())


def test_a_version_is_what_it_was(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows([1, 2]))
    write_deltalake(tmp_path / "t", rows([3]), mode="append")
    write_deltalake(tmp_path / "t", rows([4]), mode="overwrite")
    assert sum(listed(tmp_path, version=1).splits["rows"].to_pylist()) == 3
    assert sum(listed(tmp_path).splits["rows"].to_pylist()) == 1


def test_files_that_a_vacuum_took_are_told(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows([1]))
    found = listed(tmp_path)
    stores = Stores(S3Settings())
    assert changed_splits(found.splits, stores) == []
    Path(found.splits["path"][0].as_py()).unlink()
    (changed,) = changed_splits(found.splits, stores)
    assert changed.endswith("is missing")


def test_integers_of_a_table_may_be_times(tmp_path: Path) -> None:
    seconds = pa.array([1_704_067_200, 1_704_067_260], pa.int64())
    write_deltalake(tmp_path / "t", pa.table({"sec": seconds, "id": [1, 2]}))
    found = listed(tmp_path, select={"at": "timestamp_seconds(sec)", "id": "id"})
    assert found.splits["event_max_us"].to_pylist() == [1_704_067_260_000_000]


def test_what_is_no_table_is_named(tmp_path: Path) -> None:
    assert "t can't be read as a Delta table" in refusal(tmp_path)


def test_a_version_that_never_was_is_named(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows([1]))
    assert "can't be read as a Delta table" in refusal(tmp_path, version=7)


def rewritten(table: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the actions of a table's first version."""
    log = table / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        change(action)
    log.write_text("\n".join(map(json.dumps, actions)))


def with_features(action: dict[str, Any], features: list[str]) -> None:
    if "protocol" in action:
        action["protocol"] = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": features,
        }


@examples(30)
@given(count=st.integers(1, 3000), data=st.data())
def test_deleted_rows_are_not_counted_and_their_times_are_no_end(
    tmp_path_factory: pytest.TempPathFactory, count: int, data: st.DataObject
) -> None:
    deleted = data.draw(st.sets(st.integers(0, count - 1)))
    folder = tmp_path_factory.mktemp("table")
    write_deltalake(folder / "t", rows([at * 1000 for at in range(count)]))
    vector = deletion_vector(np.array(sorted(deleted), np.int64))

    def delete(action: dict[str, Any]) -> None:
        with_features(action, ["deletionVectors"])
        if "add" in action and vector is not None:
            action["add"]["deletionVector"] = as_action(vector)

    rewritten(folder / "t", delete)
    # Read by somebody else, the table is without these rows.
    left = pa.table(
        QueryBuilder().register("t", DeltaTable(folder / "t")).execute("SELECT id FROM t")
    )
    assert sorted(left["id"].to_pylist()) == [at for at in range(count) if at not in deleted]
    (split,) = listed(folder).splits.to_pylist()
    assert split["rows"] == count - len(deleted)
    kept = [BEGIN_US + at * 1000 for at in range(count) if at not in deleted]
    assert split["event_min_us"] == min(kept, default=None)
    # Without deleted rows it is the log's, which keeps milliseconds.
    highest = split["event_max_us"]
    assert (highest and highest // 1000) == (max(kept) // 1000 if kept else None)
    inside = [us for us in kept if us < BEGIN_US + count // 2 * 1000]
    if inside:
        until = BEGIN + timedelta(milliseconds=count // 2)
        (split,) = listed(folder, time_range={"until": until}).splits.to_pylist()
        assert split["event_max_us"] == max(inside)


def test_columns_may_have_other_names_in_the_files(tmp_path: Path) -> None:
    table = rows([1, 2, 3]).rename_columns(["col-1", "col-2", "col-3"])
    # Without statistics, which would be by the names in the files, too.
    config = {"delta.dataSkippingNumIndexedCols": "0"}
    write_deltalake(tmp_path / "t", table, partition_by=["col-2"], configuration=config)

    def rename(action: dict[str, Any]) -> None:
        with_features(action, ["columnMapping"])
        if "metaData" in action:
            found = action["metaData"]
            found["configuration"] |= {"delta.columnMapping.mode": "name"}
            schema = json.loads(found["schemaString"])
            for number, (field, name) in enumerate(
                zip(schema["fields"], ("id", "day", "at"), strict=True), 1
            ):
                field["metadata"] = {
                    "delta.columnMapping.id": number,
                    "delta.columnMapping.physicalName": field["name"],
                }
                field["name"] = name
            found |= {"schemaString": json.dumps(schema), "partitionColumns": ["day"]}

    rewritten(tmp_path / "t", rename)
    found = listed(tmp_path)
    assert names_and_types(found.read) == {"id": "bigint", "day": "string", "at": "timestamp"}
    (split,) = found.splits.to_pylist()
    assert (split["event_min_us"], split["event_max_us"]) == (BEGIN_US + 1, BEGIN_US + 3)
    assert values_of(split["partition"]) == {"day": "a"}
    assert found.mapping is not None
    assert found.mapping.physical("at") == "col-3"


def test_offsets_in_files_with_deleted_rows_are_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows([1, 2]))
    vector = deletion_vector(np.array([0]))
    assert vector is not None

    def delete(action: dict[str, Any]) -> None:
        with_features(action, ["deletionVectors"])
        if "add" in action:
            action["add"]["deletionVector"] = as_action(vector)

    rewritten(tmp_path / "t", delete)
    offsets = {"partition": "id", "offset": "id"}
    told = refusal(tmp_path, offsets=offsets)
    assert "offsets can't be read from the files" in told
    assert "deleted rows in them" in told


@pytest.mark.parametrize("feature", ["ofTheFuture", "catalogManaged"])
def test_files_that_can_not_be_read_as_they_are_are_refused(tmp_path: Path, feature: str) -> None:
    write_deltalake(tmp_path / "t", rows([1]))
    rewritten(tmp_path / "t", lambda action: with_features(action, [feature]))
    told = refusal(tmp_path)
    assert f"{tmp_path / 't'} has a feature with which its files can't be read: {feature}" in told
    assert "DROP FEATURE" in told


def test_a_declared_type_is_that_of_the_table_and_its_way_out_works(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows([1]))
    kinds = {"id": "string", "at": "timestamp"}
    told = refusal(tmp_path, schema=kinds)
    assert "column `id` is bigint in its table, and `schema` declares string" in told
    assert "`id: CAST(`id` AS string)`" in told
    select = {"id": "CAST(`id` AS string)", "at": "at"}
    found = listed(tmp_path, schema={**kinds, "id": "bigint"}, select=select)
    assert names_and_types(found.columns) == kinds
    assert "its table has no column `x`" in refusal(
        tmp_path, schema={"at": "timestamp", "x": "int"}
    )
