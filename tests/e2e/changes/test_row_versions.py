"""A target that keeps every version of a row, batch by batch."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.ordered_changes.spark.every_version import merge_versions
from sources.config.table.sink import Sink
from sources.errors import InputError
from sources.state.generation import Generation, GenerationInfo
from sources.storage.folder import Folder
from spark_jobs.inside.sink.sink import prepare_table
from tests.e2e.case import Case, moment
from tests.e2e.in_session import run_chain

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

SCHEMA = "id bigint, v string, seq string, gone boolean, changed timestamp"
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


class Version(NamedTuple):
    id: int
    v: str | None
    seq: str | None
    gone: bool
    changed: datetime | None


def at(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


def change(key: int, value: str | None, seq: int | None, minutes: int) -> Version:
    return Version(
        key, value, None if seq is None else f"{seq:04}", gone=value is None, changed=at(minutes)
    )


class Target:
    """A target with all versions, that micro-batches are merged into."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self._spark = spark
        self.path = str(folder / "out")
        self.sink = Sink.model_validate(
            {
                "path": self.path,
                "mode": "merge",
                "key": ["id"],
                "sequence": "seq",
                "deleted": "gone",
                "deletes": "soft",
                "history": "changed",
            }
        )
        info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
        self._generation = Generation(Folder(folder / "state"), info)
        self._batches = 0
        nothing = spark.createDataFrame([], SCHEMA)
        prepare_table(self.sink, Folder(self.path), nothing, self._generation)

    def merge(self, *changes: Version, again: bool = False) -> None:
        """One micro-batch; ``again`` for one that was merged before."""
        self._batches += not again
        rows = self._spark.createDataFrame(list(changes), SCHEMA)
        merge_versions(rows, self._batches, Folder(self.path), self.sink, self._generation)

    def rows(self) -> list[tuple[Any, ...]]:
        table = QueryBuilder().register("t", DeltaTable(self.path))
        query = "SELECT id, v, seq, gone, changed, valid_from, valid_to FROM t"
        found = table.execute(query).read_all().to_struct_array().to_pylist()
        return sorted((tuple(row.values()) for row in found), key=str)


def valid(changes: Iterable[Version]) -> list[tuple[Any, ...]]:
    """What the target has to hold: each version until the earliest time of those after it."""
    by_key: dict[int, set[Version]] = defaultdict(set)
    for each in changes:
        by_key[each.id].add(each)
    rows = []
    for versions in by_key.values():
        ordered = sorted(versions, key=lambda each: each.seq or "")
        for number, each in enumerate(ordered):
            later = [other.changed for other in ordered[number + 1 :] if other.changed]
            rows.append((*each, each.changed, min(later, default=None)))
    return sorted(rows, key=str)


def test_a_version_is_valid_until_the_next_one_whatever_the_order_in_which_they_arrive(
    tmp_path: Path, spark: SparkSession
) -> None:
    chance = random.Random(5)
    changes = [
        change(
            key,
            None if seq % 7 == 6 else f"{key}-{seq}",
            seq or None,
            seq + chance.choice([0, 0, 9]),
        )
        for key in range(4)
        for seq in range(12)
    ]
    target = Target(tmp_path, spark)
    # Mostly in order; some come late, and some twice.
    arriving = sorted(changes, key=lambda each: int(each.seq or 0) + chance.choice([0, 0, 0, 5]))
    batches = [arriving[first : first + 8] for first in range(0, len(arriving), 8)]
    for number, batch in enumerate(batches):
        repeated = chance.sample(arriving[: 8 * number], 2) if number else []
        target.merge(*batch, *repeated, batch[0])
    assert target.rows() == valid(changes)
    # Each key has one version without an end, and at each time at most one that is valid.
    rows = target.rows()
    assert [sum(row[0] == key and row[-1] is None for row in rows) for key in range(4)] == [1] * 4
    for minute in range(-1, 30):
        now = [r[0] for r in rows if r[-2] <= at(minute) and (r[-1] is None or at(minute) < r[-1])]
        assert len(now) == len(set(now))


def test_a_micro_batch_that_is_tried_again_changes_nothing(
    tmp_path: Path, spark: SparkSession
) -> None:
    target = Target(tmp_path, spark)
    first, second = change(1, "a", 1, 0), change(1, "b", 2, 5)
    target.merge(first)
    target.merge(second)
    target.merge(change(1, "never", 3, 9), again=True)
    assert target.rows() == valid([first, second])
    # Replayed in a micro-batch of its own, as rows of a seam are.
    version = DeltaTable(target.path).version()
    target.merge(first, second)
    assert target.rows() == valid([first, second])
    assert DeltaTable(target.path).version() >= version


def test_a_row_without_a_time_is_refused_and_nothing_is_written(
    tmp_path: Path, spark: SparkSession
) -> None:
    target = Target(tmp_path, spark)
    timeless = change(1, "a", 1, 0)._replace(changed=None)
    with pytest.raises(InputError, match="1 row has no value in `changed`") as refused:
        target.merge(timeless, change(2, "b", 1, 0))
    assert refused.value.fields["field"] == "sink.history"
    assert target.rows() == []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (SCHEMA.replace("changed timestamp", "changed date"), "has to be a timestamp"),
        (f"{SCHEMA}, valid_to timestamp", "adds itself"),
        (SCHEMA.replace(", changed timestamp", ""), "which the transform does not return"),
    ],
)
def test_columns_that_can_have_no_validity_are_refused_before_the_table_is_made(
    tmp_path: Path, spark: SparkSession, schema: str, said: str
) -> None:
    target = Target(tmp_path, spark)
    info = GenerationInfo(generation="g2", transaction_id="u", created_ms=0, contract={})
    other = Folder(tmp_path / "other")
    with pytest.raises(InputError, match=said):
        prepare_table(
            target.sink,
            other,
            spark.createDataFrame([], schema),
            Generation(Folder(tmp_path / "more"), info),
        )
    assert not (tmp_path / "other").exists()


@pytest.mark.kafka
def test_history_and_live_updates_leave_every_version_and_the_audit_proves_it(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    producer = Producer({"bootstrap.servers": servers})
    updated = range(950, 1050)
    for n in updated:
        later = moment(n) + timedelta(days=40)
        value = {"id": n, "at": later.isoformat(), "v": 10_000.0 + n}
        at_ms = int(later.timestamp() * 1000)
        producer.produce(case.topic, json.dumps(value).encode(), partition=0, timestamp=at_ms)
    assert producer.flush(30) == 0

    def edit(document: dict[str, Any]) -> None:
        document["key"] = ["id", "v"]
        merged = {"mode": "merge", "key": ["id"], "sequence": "v", "history": "at"}
        document["sink"] = {"path": "out", **merged}

    loaded = case.pipeline(edit)
    run_chain(spark, loaded)
    report = audit(loaded)
    assert report.ok, report
    assert report.expected == 2000 + len(updated)
    rows = DeltaTable(str(tmp_path / "out")).to_pyarrow_table().to_pylist()
    ended = {row["id"]: row["valid_to"] for row in rows if row["valid_to"] is not None}
    assert ended == {n: moment(n) + timedelta(days=40) for n in updated}
