"""A table takes over the rows of another one, or of an older version of itself, in one commit."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from hybrid_extensions.generations.files.table_snapshot import data_files, read_snapshot
from hybrid_extensions.generations.files.take_over import OutdatedError, prepare
from sources.errors import InputError, StateError
from sources.storage.folder import Folder
from spark_jobs.table.delta_table import NO_MORE, transactions_of, version_of

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
    before = version_of(Folder(old))
    prepare(Folder(old), Folder(new), None).commit({"two": 7, "one": NO_MORE}, {})
    assert version_of(Folder(old)) == before + 1
    assert read(old) == read(new)
    assert read(old, before) == rows(0, 10).sort_by("id").to_pylist()
    assert transactions_of(Folder(old), ["one", "two", "three"]) == {"one": NO_MORE, "two": 7}


def test_who_follows_the_log_of_the_table_sees_that_its_rows_changed(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 10), 3, "one")
    write(new, rows(5, 20), 7, "two")
    prepare(Folder(old), Folder(new), None).commit({}, {})
    log = old / "_delta_log" / f"{version_of(Folder(old)):020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    files = [(kind, file) for each in actions for kind, file in each.items()]
    # A stream that reads the table passes over files that are only written anew.
    changed = [(kind, file["dataChange"]) for kind, file in files if kind in ("add", "remove")]
    assert sorted(changed) == [("add", True), ("remove", True)]


def test_statistics_stay_as_their_writer_wrote_them(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    wide = pa.array([Decimal("12345678901234567890")] * 20, pa.decimal128(20, 0))
    written = rows(5, 20).append_column("wide", wide)
    write(old, rows(0, 1), 0, "one")
    write(new, written, 0, "two")
    prepare(Folder(old), Folder(new), None).commit({}, {})
    sides = [[add["stats"] for add in read_snapshot(Folder(path)).files] for path in (old, new)]
    assert sides[0] == sides[1]
    assert '"numRecords":20' in sides[0][0]


def test_new_columns_come_with_the_rows(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 3), 0, "one")
    wider = rows(0, 3).append_column("more", pa.array([1.0, 2.0, 3.0]))
    write(new, wider, 0, "two")
    prepare(Folder(old), Folder(new), None).commit({}, {"delta.appendOnly": "false"})
    assert read(old) == wider.to_pylist()
    assert DeltaTable(old).metadata().configuration["delta.appendOnly"] == "false"


def test_a_table_goes_back_to_a_version_of_its_own(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 10), 3, "one")
    before = version_of(Folder(old))
    write(new, rows(5, 20), 7, "two")
    prepare(Folder(old), Folder(new), None).commit({"two": 7, "one": NO_MORE}, {})
    write(old, rows(100, 5), 8, "two")
    known = transactions_of(Folder(old), ["one"], before)
    prepare(Folder(old), Folder(old), before).commit({**known, "two": NO_MORE}, {})
    assert read(old) == rows(0, 10).to_pylist()
    assert transactions_of(Folder(old), ["one", "two"]) == {"one": 3, "two": NO_MORE}


def test_files_on_another_file_system_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 3), 0, "one")
    write(new, rows(5, 20), 0, "two")

    linked = os.link

    def refused(there: str, here: str) -> None:
        if here.endswith(".parquet"):
            raise OSError(18, "Invalid cross-device link")
        linked(there, here)

    monkeypatch.setattr(os, "link", refused)
    prepare(Folder(old), Folder(new), None).commit({}, {})
    assert read(old) == rows(5, 20).to_pylist()


def test_rows_whose_files_are_gone_are_not_promised(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 3), 0, "one")
    write(new, rows(5, 20), 0, "two")
    next(new.glob("*.parquet")).unlink()
    before = version_of(Folder(old))
    with pytest.raises(StateError, match="is missing"):
        prepare(Folder(old), Folder(new), None).commit({}, {})
    assert version_of(Folder(old)) == before


def test_tables_that_are_partitioned_otherwise_are_refused(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 3), 0, "one", "day")
    write(new, rows(5, 20), 0, "two", "id")
    with pytest.raises(InputError, match="partitioned"):
        prepare(Folder(old), Folder(new), None).commit({}, {})
    with pytest.raises(InputError, match="can't be read"):
        prepare(Folder(tmp_path / "nothing"), Folder(new), None).commit({}, {})


def amend(path: Path, *actions: dict[str, Any]) -> None:
    """Write the next version of a table's log by hand, as Spark would."""
    number = version_of(Folder(path)) + 1
    text = "\n".join(json.dumps(each) for each in actions)
    (path / "_delta_log" / f"{number:020d}.json").write_text(text)


def protocol(*features: str) -> dict[str, Any]:
    named = {"readerFeatures": list(features), "writerFeatures": list(features)}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **named}}


def delete_rows(path: Path, vector: dict[str, Any]) -> dict[str, Any]:
    """Mark rows of a table's only file as deleted, as DELETE does with deletion vectors."""
    [add] = read_snapshot(Folder(path)).files
    remove = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}
    made = {**add, "deletionVector": vector}
    amend(path, protocol("deletionVectors"), {"remove": remove}, {"add": made})
    return made


def test_deleted_rows_stay_deleted_whatever_kind_their_vector_is(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 10), 3, "one")
    write(new, rows(5, 20), 7, "two")
    # The example of Delta's specification; `ab` is a folder of random names.
    text = "ab^-aqEH.-t@S}K{vb[*k^"
    name = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    vector = {"storageType": "u", "pathOrInlineDv": text, "offset": 4, "sizeInBytes": 40}
    added = delete_rows(new, {**vector, "cardinality": 6})
    assert data_files(added) == [added["path"], name]
    with pytest.raises(StateError, match=f"{name} is missing"):
        prepare(Folder(old), Folder(new), None)
    (new / "ab").mkdir()
    (new / name).write_bytes(b"vector")

    before = version_of(Folder(old))
    prepare(Folder(old), Folder(new), None).commit({}, {})
    found = read_snapshot(Folder(old))
    assert [each["deletionVector"] for each in found.files] == [added["deletionVector"]]
    assert (old / name).read_bytes() == b"vector"
    assert found.protocol.features >= {"deletionVectors", "appendOnly", "invariants"}

    # Back to the rows without one, then to the same file with one: the version has both protocols.
    after = version_of(Folder(old))
    prepare(Folder(old), Folder(old), before).commit({}, {})
    assert [each.get("deletionVector") for each in read_snapshot(Folder(old)).files] == [None]
    prepare(Folder(old), Folder(old), after).commit({}, {})
    assert read_snapshot(Folder(old)).files[0]["deletionVector"]["cardinality"] == 6


def test_a_file_that_both_versions_have_is_neither_removed_nor_added(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write(table, rows(0, 10), 0, "one")
    before = version_of(Folder(table))
    write(table, rows(10, 10), 1, "one")
    prepare(Folder(table), Folder(table), before).commit({}, {})
    last = (table / f"_delta_log/{before + 2:020d}.json").read_text().splitlines()
    assert sorted(key for line in last for key in json.loads(line)) == ["commitInfo", "remove"]
    assert read(table) == rows(0, 10).to_pylist()


def test_columns_stored_under_other_names_come_with_their_mapping(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 10), 0, "one")
    write(new, rows(5, 20), 0, "two")
    metadata = read_snapshot(Folder(new)).metadata
    schema = json.loads(metadata["schemaString"])
    for number, field in enumerate(schema["fields"], 1):
        field["metadata"] = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": field["name"],
        }
        field["name"] = f"{field['name']} (new)"
    mapping = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "5"}
    mapped = {"schemaString": json.dumps(schema), "configuration": mapping}
    amend(new, protocol("columnMapping"), {"metaData": {**metadata, **mapped}})
    before = version_of(Folder(old))
    prepare(Folder(old), Folder(new), None).commit({}, {})
    found = read_snapshot(Folder(old))
    assert found.configuration == mapping
    assert json.loads(found.metadata["schemaString"]) == schema
    assert "columnMapping" in found.protocol.reader_features
    assert found.metadata["id"] == read_snapshot(Folder(old), before).metadata["id"]
    prepare(Folder(old), Folder(old), before).commit({}, {})
    found, first = read_snapshot(Folder(old)), read_snapshot(Folder(old), before)
    assert (found.metadata, found.files) == (first.metadata, first.files)


def test_the_owner_is_named_by_the_commit_that_brings_the_rows(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 10), 0, "one")
    write(new, rows(5, 20), 0, "two")
    before = version_of(Folder(old))
    prepare(Folder(old), Folder(new), None).commit({}, {"hybrid.generation": "two"})
    assert version_of(Folder(old)) == before + 1
    assert DeltaTable(old).metadata().configuration["hybrid.generation"] == "two"


@pytest.mark.parametrize("by", [None, "day"])
def test_of_two_writers_of_one_version_one_is_refused_and_leaves_nothing(
    tmp_path: Path, by: str | None
) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 10), 0, "one", by)
    write(new, rows(5, 20), 0, "two", by)
    ready = prepare(Folder(old), Folder(new), None)
    write(old, rows(90, 1), 1, "one", by)
    before = {path for path in old.rglob("*") if path.is_file()}
    with pytest.raises(OutdatedError, match="Another writer has committed"):
        ready.commit({}, {})
    assert len(read(old)) == 11
    # Links to the other table's files, which no commit lists.
    assert {path for path in old.rglob("*") if path.is_file()} > before
    ready.undo()
    assert {path for path in old.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("side", ["t", "t.g2"])
def test_a_feature_that_can_not_be_carried_is_refused_by_name(tmp_path: Path, side: str) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 10), 0, "one")
    write(new, rows(5, 20), 0, "two")
    written = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]}
    amend(tmp_path / side, {"protocol": written})
    with pytest.raises(InputError, match="the Delta features `rowTracking`") as refused:
        prepare(Folder(old), Folder(new), None)
    assert "DROP FEATURE rowTracking" in (refused.value.hint or "")


def test_a_table_that_forbids_it_is_not_replaced(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 10), 0, "one")
    write(new, rows(5, 20), 0, "two")
    DeltaTable(old).alter.add_constraint({"positive": "id >= 0"})
    with pytest.raises(InputError, match=r"has the constraint `positive` \(id >= 0\)"):
        prepare(Folder(old), Folder(new), None)
    # The way out that the error names.
    DeltaTable(old).alter.drop_constraint("positive")
    DeltaTable(old).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(InputError, match=r"`delta\.appendOnly`"):
        prepare(Folder(old), Folder(new), None)
    DeltaTable(old).alter.set_table_properties({"delta.appendOnly": "false"})
    prepare(Folder(old), Folder(new), None).commit({}, {})
    assert read(old) == read(new)


def test_a_clustered_table_is_refused_until_its_clustering_is_removed(tmp_path: Path) -> None:
    old, new = tmp_path / "t", tmp_path / "t.g2"
    write(old, rows(0, 10), 0, "one")
    write(new, rows(5, 20), 0, "two")
    features = {"minReaderVersion": 1, "minWriterVersion": 7}
    features["writerFeatures"] = ["clustering", "domainMetadata"]  # type: ignore[assignment]

    def clustered(*columns: list[str]) -> dict[str, Any]:
        text = json.dumps({"clusteringColumns": columns})
        return {"domain": "delta.clustering", "configuration": text, "removed": False}

    amend(old, {"protocol": features}, {"domainMetadata": clustered(["id"])})
    with pytest.raises(InputError, match="is clustered at version 1") as refused:
        prepare(Folder(old), Folder(new), None)
    assert "CLUSTER BY NONE" in refused.value.hint
    # What that statement leaves; Delta has no way to drop the feature.
    amend(old, {"domainMetadata": clustered()})
    prepare(Folder(old), Folder(new), None).commit({}, {})
    assert read(old) == read(new)


class KilledError(BaseException):
    """Stands for a kill of the process."""


def test_a_version_stays_as_it_was_committed_if_the_process_is_killed_right_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name that the commit was written under is then a second name of the version's file."""
    table = tmp_path / "t"
    for number, name in enumerate(("t", "t.g2", "t.g3")):
        write(tmp_path / name, rows(10 * number, 10), 0, name)
    link, unlink = os.link, Path.unlink

    def killed(path: Path, *, missing_ok: bool = False) -> None:
        if missing_ok and path.exists():
            raise KilledError
        unlink(path, missing_ok=missing_ok)

    def linked(source: Path, there: Path) -> None:
        link(source, there)
        monkeypatch.setattr(Path, "unlink", killed)

    prepared = prepare(Folder(table), Folder(tmp_path / "t.g2"), None)
    monkeypatch.setattr(os, "link", linked)
    with pytest.raises(KilledError):
        prepared.commit({}, {})
    monkeypatch.undo()
    second = version_of(Folder(table))
    assert read(table, second) == read(tmp_path / "t.g2")
    prepare(Folder(table), Folder(tmp_path / "t.g3"), None).commit({}, {})
    assert read(table) == read(tmp_path / "t.g3")
    assert read(table, second) == read(tmp_path / "t.g2")
