"""The audit reads Avro and ORC, and Parquet that DuckDB alters, by the files' own columns."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyarrow import orc

from orchestration.comparison.report import AuditReport
from tests.extensions import needs
from tests.hybrid_extensions.audit.audit_case import Case

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
UTC_MICROS = pa.timestamp("us", "UTC")
NANOS = pa.timestamp("ns", "UTC")


def audited(folder: Path, form: str, target: pa.Table, **fields: Any) -> AuditReport:
    """The report on files below `in`, and on a target."""
    source = {"type": "files", "name": "history", "path": f"in/**/*.{form}", "format": form}
    write_deltalake(folder / "table", target)
    sink = {"path": "table", "mode": "append", "key": ["id"]}
    return Case(folder).audit(sources=[{**source, **fields}], key=[], sink=sink)


def table(**columns: Any) -> pa.Table:
    made = {"id": pa.array([1, 2], pa.int64()), "at": pa.array([NOON, NOON], UTC_MICROS)}
    return pa.table({**made, **columns})


def test_avro_of_two_schemas_with_maps_and_another_order(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    at = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}
    key = {"name": "ref", "type": {"type": "string", "logicalType": "uuid"}}
    tags = {"name": "tags", "type": {"type": "map", "values": "int"}}
    note = {"name": "note", "type": ["null", "string"], "default": None}
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 1}
    some = uuid.UUID(int=1)
    first = [{"name": "id", "type": "int"}, at, key, tags]
    second = [note, tags, at, {"name": "id", "type": "long"}, key, {"name": "much", "type": wide}]
    for name, fields, row in (
        ("a", first, {"id": 1, "tags": {"a": 1}}),
        ("b", second, {"id": 2, "tags": {}, "note": "n", "much": Decimal(5)}),
    ):
        schema = {"type": "record", "name": "Row", "fields": fields}
        with (tmp_path / "in" / f"{name}.avro").open("wb") as file:
            fastavro.writer(file, schema, [{"at": NOON, "ref": some, **row}])
    tagged = pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32()))
    texts = pa.array([str(some)] * 2)
    target = table(ref=texts, tags=tagged, note=pa.array([None, "n"]))
    schema = {"id": "bigint", "at": "timestamp", "ref": "string", "tags": "map<string,int>"}
    report = audited(tmp_path, "avro", target, schema={**schema, "note": "string"})
    assert report.ok, report
    assert (report.expected, report.found) == (2, 2)


def nested(kind: pa.DataType, *times: int) -> dict[str, pa.Array]:
    """The same times alone, and inside of other values."""
    item, pair = pa.list_(pa.field("item", kind)), pa.struct([("a", kind)])
    return {
        "each": pa.array([[at, None] for at in times], item),
        "inside": pa.array([{"a": at} for at in times], pair),
        "named": pa.array([[("k", [at])] for at in times], pa.map_(pa.string(), item)),
        "seen": pa.array(times, kind),
    }


def test_parquet_of_nanoseconds_and_of_no_type(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    far = 253_402_300_799_999_999
    coupons: dict[str, pa.Array] = {"a": pa.nulls(1), "b": pa.array([["c"]])}
    for at, (name, coupon) in enumerate(coupons.items()):
        # Times of microseconds in the other file may be ones that nanoseconds do not have.
        times = nested(NANOS, 1999, -1) if at == 0 else nested(UTC_MICROS, 1, far)
        part = table(**times).slice(at, 1).append_column("coupon", coupon)
        pq.write_table(part, tmp_path / "in" / f"{name}.parquet")
    target = table(**nested(UTC_MICROS, 1, far), coupon=pa.array([None, ["c"]]))
    report = audited(tmp_path, "parquet", target)
    assert report.ok, report


@pytest.mark.parametrize(("first", "different"), [(-1, 0), (0, 1)])
def test_nanoseconds_are_cut_off_towards_the_past(
    tmp_path: Path, first: int, different: int
) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(table(**nested(pa.timestamp("ns"), -1, -1001)), tmp_path / "in" / "a.parquet")
    report = audited(tmp_path, "parquet", table(**nested(UTC_MICROS, first, -2)))
    assert (report.expected, report.different) == (2, different)


@needs("orc")
def test_orc_in_folders_of_a_partition(tmp_path: Path) -> None:
    for day, at in (("01", 0), ("02", 1)):
        folder = tmp_path / "in" / f"day={day}"
        folder.mkdir(parents=True)
        days = pa.array([f"{day}"])
        part = table(seen=pa.array([-1, 1999], NANOS)).slice(at, 1)
        orc.write_table(part.append_column("day", days), folder / "x.orc")
    target = table(seen=pa.array([-1, 1], UTC_MICROS), day=pa.array(["01", "02"]))
    report = audited(tmp_path, "orc", target, partitions={"day": "string"})
    assert (report.expected, report.different, report.missing) == (2, 0, 0)
    assert report.outcome == "unknown"
    (why,) = report.unchecked
    assert (
        "Source `history`: the rows of its ORC files were compared as the runs' own reader" in why
    )


def test_unsigned_numbers_are_those_of_the_target(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    most = [2**64 - 1, 0]
    pq.write_table(table(n=pa.array(most, pa.uint64())), tmp_path / "in" / "a.parquet")
    target = table(n=pa.array(most, pa.decimal128(20, 0)))
    assert audited(tmp_path, "parquet", target).ok
