"""A column became NOT NULL: the target tells whether rows got other values."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybrid_extensions.cdc.databases.altered_table import RequiredColumn, TableWatch
from hybrid_extensions.cdc.databases.required_columns import PATIENCE_MS, judge_required
from hybrid_extensions.servers.broker import create_topic
from sources.common.positions import Offsets, TopicPartition
from sources.config.loader import LoadedPipeline
from tests.captured_table import captured_table

AT = 1_704_067_200_000
STATEMENT = "ALTER TABLE orders MODIFY v int NOT NULL"
REQUIRED = RequiredColumn(table="shop.orders", column="v", statement=STATEMENT, since_ms=AT)


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedPipeline:
    return captured_table(tmp_path)


def write(loaded: LoadedPipeline, values: list[int | None], column: str = "v") -> None:
    rows = pa.table({"id": range(len(values)), column: pa.array(values, pa.int32())})
    write_deltalake(loaded.target.url, rows, mode="overwrite", schema_mode="overwrite")


def judged(
    loaded: LoadedPipeline,
    later_ms: int,
    required: RequiredColumn = REQUIRED,
    committed: Offsets | None = None,
) -> TableWatch:
    topic = loaded.pipeline.topic_after("snapshot")
    assert topic is not None
    seen = TableWatch(looked_ms=AT + later_ms, required=[required])
    return judge_required(loaded, topic, seen, committed)


def test_without_nulls_in_the_target_nothing_became_of_them(loaded: LoadedPipeline) -> None:
    assert judged(loaded, 0).required == []
    write(loaded, [1, 2])
    assert judged(loaded, 0).required == []
    # The transform leaves the column out.
    write(loaded, [1, None], column="other")
    assert judged(loaded, 2 * PATIENCE_MS).required == []


def test_nulls_are_a_finding_once_the_target_has_all_changes_from_before(
    loaded: LoadedPipeline,
) -> None:
    write(loaded, [1, None])
    soon = judged(loaded, PATIENCE_MS)
    assert (soon.required, soon.altered) == ([REQUIRED], None)
    known = REQUIRED.model_copy(update={"ends": {TopicPartition("t", 0): 7}})
    # A run that is paused, or far behind.
    for committed in (None, {}, {TopicPartition("t", 0): 6}):
        seen = judged(loaded, 9 * PATIENCE_MS, known, committed)
        assert (seen.required, seen.altered, seen.unknown) == ([known], None, None)
    altered = judged(loaded, PATIENCE_MS + 1, known, {TopicPartition("t", 0): 7}).altered
    assert altered is not None
    assert (altered.statement, altered.since_ms) == (STATEMENT, AT)
    assert "has column `v` as NOT NULL now, and the target has nulls in it" in altered.what


def test_without_its_statement_it_is_not_known_what_became_of_nulls(
    loaded: LoadedPipeline,
) -> None:
    write(loaded, [1, None])
    seen = judged(loaded, 9 * PATIENCE_MS, REQUIRED.model_copy(update={"statement": None}))
    assert seen.altered is None
    assert len(seen.required) == 1
    assert "column `v` became NOT NULL" in str(seen.unknown)
    assert "Run `hybrid compare P`" in str(seen.unknown)


@pytest.mark.slow
@pytest.mark.kafka
def test_the_end_of_the_topic_is_looked_up_after_some_minutes(
    loaded: LoadedPipeline, servers: str
) -> None:
    write(loaded, [1, None])
    topic = loaded.pipeline.topic_after("snapshot")
    assert topic is not None
    name = f"required-{uuid.uuid4().hex[:8]}"
    create_topic(servers, name)
    there = topic.model_copy(update={"topic": name, "bootstrap_servers": servers})
    seen = TableWatch(looked_ms=AT + PATIENCE_MS + 1, required=[REQUIRED])
    [left] = judge_required(loaded, there, seen, None).required
    assert left.ends == {TopicPartition(name, 0): 0}
