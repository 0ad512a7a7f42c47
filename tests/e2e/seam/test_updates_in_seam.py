"""Updates in the seam: a live row with a key that history holds, and other values."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, event, given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from sources.common.positions import TopicPartition
from sources.planning.plan import draft_plan
from sources.storage.folder import Folder
from spark_jobs.inside.errors.error_reports import report_of
from spark_jobs.inside.query.seam.duplicate_filters import IS_NEW, KeyColumns, KeyFilter
from spark_jobs.inside.query.seam.row_content import content_of
from spark_jobs.inside.query.seam.rows_in_seam import SeamOffsets
from tests.e2e.case import Case, moment
from tests.e2e.in_session import fails_with, run_chain, run_history
from tests.properties import examples

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = "id bigint, at timestamp, v double"
LIVE = f"__topic string, __partition int, __offset bigint, {SCHEMA}"
Row = tuple[int | None, datetime | None, float | None]


def at(minute: int) -> datetime:
    return BEGIN + timedelta(minutes=minute)


class TestTheHashOfARow:
    """One bigint by which two rows of a key are told apart, or recognized."""

    TYPES = (
        "d double, f float, s string, t timestamp, a array<bigint>, m map<string, bigint>, "
        "n struct<x: bigint, y: bigint>, b binary, i bigint, j bigint, e decimal(9, 2)"
    )
    ROW: ClassVar[dict[str, Any]] = {
        "d": 1.5, "f": 0.1, "s": "x", "t": BEGIN, "a": [1, None], "m": {"k": 1, "l": 2},
        "n": (1, None), "b": bytearray(b"z"), "i": None, "j": 7, "e": None,
    }  # fmt: skip

    def hashes(self, spark: SparkSession, *changes: dict[str, Any]) -> list[int]:
        rows = [tuple({**self.ROW, **change}.values()) for change in changes]
        frame = spark.createDataFrame(rows, self.TYPES).coalesce(1)
        return [row[0] for row in frame.select(content_of(list(frame.schema))).collect()]

    def test_zeros_and_the_order_of_a_map_make_no_difference(self, spark: SparkSession) -> None:
        found = self.hashes(
            spark, {"d": 0.0, "f": 0.0}, {"d": -0.0, "f": -0.0},
            {"d": 0.0, "f": 0.0, "m": {"l": 2, "k": 1}},
        )  # fmt: skip
        assert len(set(found)) == 1

    def test_everything_else_does(self, spark: SparkSession) -> None:
        found = self.hashes(
            spark, {}, {"d": 1.5000000000000002}, {"d": None}, {"d": float("nan")}, {"s": ""},
            {"s": None}, {"t": BEGIN + timedelta(microseconds=1)}, {"a": [None, 1]}, {"a": []},
            {"m": {"k": 1}}, {"n": (None, 1)}, {"n": None}, {"b": None}, {"i": 7, "j": None},
        )  # fmt: skip
        assert len(set(found)) == len(found)

    def test_a_column_of_another_type_is_compared_by_its_value(self, spark: SparkSession) -> None:
        wide, narrow = spark.range(5), spark.range(5).selectExpr("CAST(id AS int)")
        left, right = (frame.select(content_of(list(wide.schema))) for frame in (wide, narrow))
        assert left.collect() == right.collect()


def filtered(
    folder: Path,
    spark: SparkSession,
    history: list[Row],
    live: list[Row],
    *,
    key: tuple[str, ...] = ("id",),
    compared: tuple[str, ...] = ("at", "v"),
    keys_from: int = 0,
) -> list[Row]:
    """Live rows, all of them in the seam, that history does not hold."""
    frame = spark.createDataFrame(
        [("t", 0, offset, *row) for offset, row in enumerate(live)], LIVE
    ).coalesce(1)
    columns = KeyColumns(key, compared, "at")
    keys_from_ms = int(at(keys_from).timestamp() * 1000)
    made = KeyFilter(
        Folder(folder),
        spark.createDataFrame(history, SCHEMA).coalesce(1),
        columns,
        keys_from_ms=keys_from_ms,
    )
    if any(row[1] is not None and row[1] < at(keys_from) for row in live):
        made.look_up_older(frame)
    at_t = TopicPartition("t", 0)
    placed = SeamOffsets({at_t: 0}, {at_t: len(live)}).mark(frame)
    rows: DataFrame = made.mark(placed).where(IS_NEW).select("id", "at", "v")
    return [(row[0], row[1] and row[1].replace(tzinfo=UTC), row[2]) for row in rows.collect()]


def test_an_update_of_a_row_that_history_holds_is_refused_with_key_and_offset(
    tmp_path: Path, spark: SparkSession
) -> None:
    history: list[Row] = [(1, at(1), 1.0), (2, at(2), 2.0)]
    with pytest.raises(Exception) as caught:  # noqa: PT011 — whatever PySpark makes of it
        filtered(tmp_path, spark, history, [(1, at(1), 1.0), (2, at(9), 2.5)])
    report = report_of(caught.value)
    assert report.kind == "seam"
    assert report.message == (
        'Topic `t`, partition 0, offset 1: the row {"id":2} has the key of a row of history but '
        "other values, so it may be an update of that row."
    )
    assert "`sink.sequence`" in report.hint
    assert (report.fields.get("partition"), report.fields.get("offset")) == (0, 1)


def test_an_update_that_is_older_than_the_kept_keys_is_refused_too(
    tmp_path: Path, spark: SparkSession
) -> None:
    history: list[Row] = [(1, at(1), 1.0), (2, at(2), 2.0)]
    with pytest.raises(Exception, match=r'the row {"id":1} has the key of a row'):
        filtered(tmp_path, spark, history, [(2, at(2), 2.0), (1, at(1), 1.5)], keys_from=50)
    assert not [path for path in tmp_path.iterdir() if "older" in path.name]


def test_every_version_that_history_holds_is_recognized_also_the_older_ones(
    tmp_path: Path, spark: SparkSession
) -> None:
    # Version 1 is older than the keys that are kept, version 2 is not.
    history: list[Row] = [(1, at(1), 1.0), (1, at(60), 2.0)]
    live: list[Row] = [(1, at(1), 1.0), (1, at(60), 2.0), (3, at(2), 3.0)]
    assert filtered(tmp_path, spark, history, live, keys_from=50) == [(3, at(2), 3.0)]


def test_a_declared_key_decides_alone(tmp_path: Path, spark: SparkSession) -> None:
    history: list[Row] = [(1, at(1), 1.0)]
    live: list[Row] = [(1, at(1), 1.00001), (2, at(1), 1.0)]
    assert filtered(tmp_path, spark, history, live, compared=()) == [(2, at(1), 1.0)]


ROW = st.tuples(
    st.none() | st.integers(0, 4),
    st.none() | st.integers(0, 99).map(at),
    st.none() | st.sampled_from([0.0, -0.0, 1.0, 1.5]),
)


@examples(12, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    history=st.lists(ROW, min_size=1, max_size=6, unique_by=lambda row: row[0]),
    new=st.lists(ROW, max_size=4),
    keys_from=st.integers(0, 60),
)
def test_no_row_is_lost_or_doubled_without_a_refusal(
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    history: list[Row],
    new: list[Row],
    keys_from: int,
) -> None:
    """Random rows of both sides: what history holds is removed, what it lacks stays."""
    live = [*new, *history[::2]]
    folder = tmp_path_factory.mktemp("keys")
    same = {(row[0], row[1], abs(row[2] or 0.0), row[2] is None) for row in history}
    lacking = [
        row for row in live if (row[0], row[1], abs(row[2] or 0.0), row[2] is None) not in same
    ]
    try:
        found = filtered(folder, spark, history, live, keys_from=keys_from)
    except Exception as error:
        assert report_of(error).kind == "seam"  # noqa: PT017
        event("refused")
        assert {row[0] for row in lacking} & {row[0] for row in history}
        return
    event("filtered")
    assert Counter(found) == Counter(lacking)


def versions(document: dict[str, Any]) -> None:
    """The pipeline's rows are versions of a row, ordered by ``v``."""
    document["sink"] = {"path": "out", "mode": "merge", "key": ["id"], "sequence": "v"}


def send(case: Case, *changes: tuple[int, datetime, float]) -> None:
    """Records of changes, with their event times as timestamps."""
    producer = Producer({"bootstrap.servers": case.servers, "enable.idempotence": True})
    for key, time, version in changes:
        value = json.dumps({"id": key, "at": f"{time:%Y-%m-%dT%H:%M:%SZ}", "v": version})
        stamp = int(time.timestamp() * 1000)
        producer.produce(case.topic, value.encode(), partition=0, timestamp=stamp)
    assert producer.flush(30) == 0


class Upserts(Case):
    """Rows 0 to 49 that change: history holds the first changes, the topic all of them."""

    def __init__(self, folder: Path, servers: str, seed: int = 7) -> None:
        super().__init__(folder, servers)
        random.seed(seed)
        # An event every minute; its place in the list is the version, and it changes a random row.
        self.changes = [(random.randrange(50), at(n), float(n)) for n in range(600)]

    def write(self, count: int, topic_from: int = 0) -> None:
        """The first changes in files, and the topic from one of them on."""
        (self.folder / "in").mkdir()
        held = self.changes[:count]
        kinds = [pa.int64(), pa.timestamp("us", "UTC"), pa.float64()]
        columns = [
            pa.array(part, kind) for part, kind in zip(zip(*held, strict=True), kinds, strict=True)
        ]
        pq.write_table(pa.table(columns, ["id", "at", "v"]), self.folder / "in" / "0.parquet")
        send(self, *self.changes[topic_from:])

    def expected(self) -> list[tuple[Any, ...]]:
        """The last version of each row, by DuckDB over all that was ever written."""
        kinds = [pa.int64(), pa.timestamp("us", "UTC"), pa.float64()]
        parts = [
            pa.array(part, kind)
            for part, kind in zip(zip(*self.changes, strict=True), kinds, strict=True)
        ]
        changes = pa.table(parts, ["id", "at", "v"])
        return rows_of(changes, "SELECT id, max(v) FROM given GROUP BY id ORDER BY 1")

    def found(self, columns: str = "id, v") -> list[tuple[Any, ...]]:
        target = DeltaTable(str(self.folder / "out")).to_pyarrow_table()
        return rows_of(target, f"SELECT {columns} FROM given ORDER BY ALL")


def rows_of(given: pa.Table, query: str) -> list[tuple[Any, ...]]:
    """The result of a query over a table ``given``."""
    with duckdb.connect() as connection:
        connection.register("given", given)
        rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
        return rows


def test_with_a_sequence_updates_in_the_seam_are_merged_in_their_order(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Upserts(tmp_path, servers)
    case.write(400, topic_from=100)
    ledger = run_chain(spark, case.pipeline(versions))
    assert ledger.rule == "replay"
    assert case.found() == case.expected()


def test_without_a_sequence_the_first_update_in_the_seam_stops_the_run(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1000))
    # Reached the topic before history was listed, but not the files.
    send(case, (950, moment(950), -1.0))

    def by_arrival(document: dict[str, Any]) -> None:
        document["sink"] = {"path": "out", "mode": "merge", "key": ["id"]}

    loaded = case.pipeline(by_arrival)
    assert any("`sink.sequence` is not declared" in text for text in draft_plan(loaded)[0].warnings)
    with fails_with('the row {"id":950} has the key of a row of history but other values'):
        run_chain(spark, loaded)


COUNTS = """

def counted(rows):
    from pyspark.sql import functions as F
    return rows.groupBy("id").agg(F.count("v").alias("n"), F.max("v").alias("v"))
"""


def counting(*key: str) -> Callable[[dict[str, Any]], None]:
    def declare(document: dict[str, Any]) -> None:
        versions(document)
        document["key"] = list(key)
        document["transform"] = "transforms:counted"

    return declare


def test_a_transform_that_would_count_a_replayed_row_twice_is_refused_before_anything_is_read(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Upserts(tmp_path, servers)
    with (tmp_path / "transforms.py").open("a") as module:
        module.write(COUNTS)
    case.write(400, topic_from=100)
    with pytest.raises(Exception, match="is stateful and would count them twice") as caught:
        run_history(spark, case.pipeline(counting("id")))
    report = report_of(caught.value)
    assert "`key: [id, v]`" in report.hint
    assert report.fields.get("field") == "key"
    assert not (tmp_path / "out").exists()


def test_a_key_with_the_version_counts_each_change_once(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Upserts(tmp_path, servers)
    with (tmp_path / "transforms.py").open("a") as module:
        module.write(COUNTS)
    case.write(400, topic_from=100)
    ledger = run_chain(spark, case.pipeline(counting("id", "v")))
    assert ledger.rule == "key"
    counts = sorted(Counter(key for key, _, _ in case.changes).items())
    assert case.found("id, n") == counts
