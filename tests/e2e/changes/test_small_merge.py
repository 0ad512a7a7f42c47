"""A small MERGE by Delta's Rust library leaves the same rows as Spark's, or is left to Spark."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Transaction
from pyspark.sql import SparkSession

from sources.config.table.sink import Sink
from sources.state.generation import Generation, GenerationInfo
from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging import small_merge
from spark_jobs.inside.sink.merging.by_key import merge_by_key
from spark_jobs.inside.sink.merging.clauses import When, of_source
from spark_jobs.inside.sink.merging.keys import Match
from spark_jobs.inside.sink.merging.merge_once import merge_once
from spark_jobs.inside.sink.merging.small_merge import SmallMerge
from spark_jobs.inside.sink.sink import prepare_table
from spark_jobs.inside.sink.table_properties import STATISTICS
from spark_jobs.table.delta_table import commit_once
from tests.e2e.changes.test_changes import Target, gone, up

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

RUST = "delta-rs"
# Odd names as well, as databases have them.
TYPES = {
    "a.b": "string",
    "Order Id": "smallint",
    "select": "double",
    "x y": "float",
    "money": "decimal(38,18)",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "day": "date",
    "raw": "binary",
    "ok": "boolean",
    "tags": "array<int>",
    "labels": "map<string,string>",
    "place": "struct<x:double,name:string>",
}
NOON = datetime(2024, 3, 31, 12, 0, 0, 123456, UTC)


def value_of(kind: str, chance: random.Random) -> Any:
    """Return a value of a type: null at times, and those that differ between implementations."""
    some: dict[str, list[Any]] = {
        "string": ["", "a", "ä\u0000b", "\U0001f600", "x" * 100],
        "smallint": [-32_768, 0, 32_767],
        "double": [math.nan, math.inf, -0.0, 0.1, 5e-324],
        "float": [math.nan, -math.inf, 1.5],
        "decimal(38,18)": [
            Decimal("12345678901234567890.123456789012345678"),
            Decimal("-0.000000000000000001"),
        ],
        "timestamp": [NOON, datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC)],
        "timestamp_ntz": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)],  # noqa: DTZ001
        "date": [date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1)],
        "binary": [b"", b"\x00\xff"],
        "boolean": [True, False],
        "array<int>": [[], [1, None]],
        "map<string,string>": [{}, {"k": None, "l": "v"}],
        "struct<x:double,name:string>": [(0.5, None), (math.nan, "n")],
    }
    return None if chance.random() < 0.2 else chance.choice(some[kind])


def engine(folder: Path) -> str:
    """Return what made the last commit of a target: Delta's name of the writer."""
    (last,) = DeltaTable(folder / "out").history(1)
    return str(last.get("engineInfo") or last.get("clientVersion"))


@pytest.fixture
def only_spark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function after whose call no MERGE is small."""
    return lambda: monkeypatch.setattr(small_merge, "MOST_ROWS", -1)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="hard deletes"),
        pytest.param({"deletes": "soft"}, id="soft deletes"),
        pytest.param({"deleted": None}, id="no deletes"),
        pytest.param({"partition_by": ["day"]}, id="partitions"),
        pytest.param({"key": ["id", "day"]}, id="two columns"),
    ],
)
def test_the_same_changes_of_all_types_leave_the_same_rows(
    tmp_path: Path, spark: SparkSession, only_spark: Any, more: dict[str, Any]
) -> None:
    chance = random.Random(str(more))
    columns = ", ".join(f"`{n}` {kind}" for n, kind in TYPES.items())
    schema = f"id bigint, {columns}, seq string, gone boolean"
    batches = [
        [
            (
                chance.randrange(12),
                *(value_of(kind, chance) for kind in TYPES.values()),
                None if n == 0 else f"{chance.randrange(40):04}",
                chance.random() < 0.2,
            )
            for _ in range(10)
        ]
        for n in range(4)
    ]
    found = {}
    for who in ("small", "spark"):
        if who == "spark":
            only_spark()
        target = Target(tmp_path / who, spark, schema, **more)
        for batch in batches:
            target.merge(*batch)
            assert engine(tmp_path / who).startswith(RUST) == (who == "small")
        rows = spark.read.format("delta").load(str(tmp_path / who / "out"))
        found[who] = sorted(map(repr, rows.toArrow().to_pylist()))
    assert found["small"] == found["spark"]
    assert len(found["small"]) > 3


KEYS: dict[str, list[Any]] = {
    "tinyint": [-128, 0, 127],
    "bigint": [-(2**63), 0, 2**63 - 1, 2**40],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    "timestamp": [
        NOON,
        NOON + timedelta(microseconds=1),
        datetime(1969, 12, 31, 23, 59, 59, 999, UTC),
    ],
    "decimal(38,18)": [Decimal("0.1"), Decimal("12345678901234567890.1")],
    "string": ["", "a", "A", "ä", "a "],
    "boolean": [True, False],
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_of_any_type_is_found_again_null_too(
    tmp_path: Path, spark: SparkSession, kind: str
) -> None:
    target = Target(tmp_path, spark, f"id {kind}, v string, seq string, gone boolean")
    keys = [*KEYS[kind], None]
    # One file for each, so that statistics decide which ones are read.
    for key in keys:
        target.merge((key, "first", "0001", False))
    for key in keys:
        target.merge((key, "second", "0002", False))
    table = DeltaTable(tmp_path / "out").to_pyarrow_table()
    assert table["v"].to_pylist() == ["second"] * len(keys)
    assert engine(tmp_path).startswith(RUST) == (kind != "boolean")


def test_a_key_of_floats_is_merged_by_spark(tmp_path: Path, spark: SparkSession) -> None:
    target = Target(tmp_path, spark, "id double, v string, seq string, gone boolean")
    target.merge((0.0, "first", "0001", False), (math.nan, "first", "0001", False))
    target.merge((-0.0, "second", "0002", False), (math.nan, "second", "0002", False))
    table = DeltaTable(tmp_path / "out").to_pyarrow_table()
    assert table["v"].to_pylist() == ["second", "second"]
    assert not engine(tmp_path).startswith(RUST)


def test_a_micro_batch_that_changes_nothing_is_recorded(
    tmp_path: Path, spark: SparkSession
) -> None:
    target = Target(tmp_path, spark)
    target.merge(up(1, "a", 5))
    target.merge(up(1, "older", 4), gone(9, 3))
    assert target.rows() == [(1, "a", "0005")]
    assert DeltaTable(tmp_path / "out").transaction_version("t") == target.batches


def test_a_commit_of_others_in_between_leaves_the_merge_to_spark(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(tmp_path, spark)
    target.merge(up(1, "a", 1), up(2, "b", 1))
    commit = commit_once
    seen: list[int] = []

    def late(*given: Any) -> None:
        # Another driver has merged the same micro-batch.
        if not seen:
            seen.append(1)
            target.merge(up(1, "c", 2), up(3, "new", 2), again=True)
        commit(*given)

    target.batches += 1
    monkeypatch.setattr(small_merge, "commit_once", late)
    target.merge(up(1, "c", 2), up(3, "new", 2), again=True)
    assert seen
    assert target.rows() == [(1, "c", "0002"), (2, "b", "0001"), (3, "new", "0002")]


def test_what_the_library_can_t_do_is_done_by_spark_and_said(
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    target = Target(tmp_path, spark)
    clauses = [When("NOT MATCHED", "INSERT", values=of_source(["id", "v", "seq"]))]
    match = Match("t.id = s.id AND bit_get(s.id, 0) = 1", {})
    rows = spark.createDataFrame([(1, "a", "0001")], "id bigint, v string, seq string")
    small = SmallMerge(rows=1, bytes=1, compared=["id"], clauses=clauses)
    folder = Folder(tmp_path / "out")
    merge_once(rows, folder, match, clauses, Transaction("t", 1), small)
    assert "Spark merges, as Delta's Rust library can't:" in capfd.readouterr().err
    assert target.rows() == [(1, "a", "0001")]


@pytest.mark.parametrize("name", ["enableDeletionVectors", "enableChangeDataFeed"])
def test_a_table_with_features_of_spark_is_merged_by_spark(
    tmp_path: Path, spark: SparkSession, name: str
) -> None:
    target = Target(tmp_path, spark)
    spark.sql(f"ALTER TABLE delta.`{tmp_path}/out` SET TBLPROPERTIES ('delta.{name}' = 'true')")
    target.merge(up(1, "a", 1))
    target.merge(up(1, "b", 2), up(2, "c", 2))
    assert target.rows() == [(1, "b", "0002"), (2, "c", "0002")]
    assert not engine(tmp_path).startswith(RUST)


def test_large_batches_long_texts_and_large_files_are_spark_s(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(tmp_path, spark)
    target.merge(up(1, "a", 1))
    assert engine(tmp_path).startswith(RUST)
    monkeypatch.setattr(small_merge, "MOST_ROWS", 1)
    target.merge(up(1, "b", 2), up(2, "b", 2))
    assert not engine(tmp_path).startswith(RUST)
    monkeypatch.setattr(small_merge, "MOST_ROWS", 10)
    monkeypatch.setattr(small_merge, "MOST_BYTES", 10_000)
    target.merge(up(1, "c" * 10_001, 3))
    assert not engine(tmp_path).startswith(RUST)
    monkeypatch.setattr(small_merge, "MOST_BYTES", 1)
    target.merge((1, None, None, True))
    assert not engine(tmp_path).startswith(RUST)


def test_a_value_that_a_row_lacks_leaves_the_merge_to_spark(
    tmp_path: Path, spark: SparkSession
) -> None:
    schema = "id bigint, body string, seq string, gone boolean, kept map<string,string>"
    target = Target(tmp_path, spark, schema, unchanged="kept")

    def merge(key: int, body: str | None, at: int, *, lacks: bool = False) -> bool:
        kept = {"body": None} if lacks else None
        target.merge((key, body, f"{at:04}", False, kept))
        return engine(tmp_path).startswith(RUST)

    assert merge(1, "first", 1)
    assert merge(500, "elsewhere", 1)
    # The change lacks it; then the row does, until a change has it again.
    assert not merge(1, None, 5, lacks=True)
    assert not merge(1, "late", 3)
    assert target.rows()[0][:3] == (1, "late", "0005")
    assert merge(500, "still elsewhere", 2)
    assert not merge(1, "again", 6)
    assert merge(1, "and again", 7)
    assert [row[1] for row in target.rows()] == ["and again", "still elsewhere"]


def test_readers_find_rows_by_values_whose_statistics_rust_would_round(
    tmp_path: Path, spark: SparkSession
) -> None:
    schema = "id bigint, x double, money decimal(38,18), seq string, gone boolean"
    target = Target(tmp_path, spark, schema)
    large = Decimal("12345678901234567890.123456789012345678")
    target.merge((1, math.nan, large, "0001", False))
    target.merge((2, 0.5, large, "0001", False))
    assert engine(tmp_path).startswith(RUST)
    rows = spark.read.format("delta").load(str(tmp_path / "out"))
    assert [row.id for row in rows.where("x > 10").collect()] == [1]
    assert rows.where(f"money = {large}").count() == 2
    # The columns that have statistics still skip files.
    files = pa.table(DeltaTable(tmp_path / "out").get_add_actions(flatten=True))
    assert {"min.id", "max.seq"} <= set(files.column_names)
    assert "max.money" not in files.column_names


def test_a_table_of_before_gets_its_columns_of_statistics_at_the_next_start(
    tmp_path: Path, spark: SparkSession
) -> None:
    unset = f"ALTER TABLE delta.`{tmp_path}/out` UNSET TBLPROPERTIES ('{STATISTICS}')"
    target = Target(tmp_path, spark)
    table = DeltaTable(tmp_path / "out")
    assert table.metadata().configuration[STATISTICS] == "`id`,`seq`,`v`"
    spark.sql(unset)
    again = Target(tmp_path, spark)
    again.merge(up(1, "a", 1))
    assert engine(tmp_path).startswith(RUST)
    # Without it, a small MERGE would write other statistics than Spark.
    spark.sql(unset)
    again.merge(up(1, "b", 2))
    assert not engine(tmp_path).startswith(RUST)
    assert target.rows() == [(1, "b", "0002")]


def test_rows_are_the_same_as_by_a_query_over_all_changes(
    tmp_path: Path, spark: SparkSession
) -> None:
    chance = random.Random(7)
    target = Target(tmp_path, spark)
    changes = [
        gone(chance.randrange(30), at)
        if chance.random() < 0.3
        else up(chance.randrange(30), "x", at)
        for at in range(1, 200)
    ]
    chance.shuffle(changes)
    for start in range(0, len(changes), 40):
        target.merge(*changes[start : start + 40])
    names = ("id", "v", "seq", "gone")
    table = pa.Table.from_pylist([dict(zip(names, each, strict=True)) for each in changes])
    last = (
        "SELECT id, seq FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY seq DESC) AS n "
        "FROM c) WHERE n = 1 AND NOT gone ORDER BY id"
    )
    import duckdb  # noqa: PLC0415 - slow to import

    with duckdb.connect() as connection:
        connection.register("c", table)
        expected = connection.sql(last).fetchall()
    assert [(row[0], row[2]) for row in target.rows()] == expected


def test_a_table_of_which_no_column_may_have_statistics_is_merged_too(
    tmp_path: Path, spark: SparkSession, only_spark: Any
) -> None:
    schema = "id decimal(10,0), x double"
    sink = Sink.model_validate({"path": str(tmp_path / "out"), "mode": "merge", "key": ["id"]})
    info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
    generation = Generation(Folder(tmp_path / "state"), info)
    folder = Folder(tmp_path / "out")
    prepare_table(sink, folder, spark.createDataFrame([], schema), generation)
    for number, value in enumerate((0.5, math.nan, 1.5)):
        if number:
            only_spark()
        rows = spark.createDataFrame([(Decimal(1), value), (Decimal(number + 2), value)], schema)
        merge_by_key(rows, number, folder, ["id"], generation)
        assert engine(tmp_path).startswith(RUST) == (number == 0)
    found = spark.read.format("delta").load(str(tmp_path / "out"))
    assert found.where("x > 1").count() == 3
    assert found.where("id = 1").count() == 1
