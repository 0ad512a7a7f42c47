"""A column became NOT NULL: the target tells whether rows got other values."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from sources.config.loader import LoadedPipeline, load_pipeline
from sources.databases.altered_table import RequiredColumn, TableWatch
from sources.databases.required_columns import PATIENCE_MS, judge_required
from tests.sources.config.test_unchanged import CHANGES, MERGE

AT = 1_704_067_200_000
STATEMENT = "ALTER TABLE orders MODIFY v int NOT NULL"
REQUIRED = RequiredColumn(table="shop.orders", column="v", statement=STATEMENT, since_ms=AT)


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedPipeline:
    snapshot = {
        "name": "snapshot",
        "type": "files",
        "path": "snapshot/*.parquet",
        "format": "parquet",
        "snapshot": {"dsn": "mariadb://reader@localhost:1/shop"},
    }
    changes = {name: value for name, value in CHANGES.items() if name != "start"}
    document = {
        "name": "orders",
        "event_time": "at",
        "sources": [snapshot, {**changes, "table": "shop.orders"}],
        "transform": "transforms:identity",
        "sink": MERGE,
        "state": "state",
    }
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(document))
    return load_pipeline(tmp_path / "p.yaml")


def write(loaded: LoadedPipeline, values: list[int | None], column: str = "v") -> None:
    rows = pa.table({"id": range(len(values)), column: pa.array(values, pa.int32())})
    write_deltalake(loaded.target.url, rows, mode="overwrite", schema_mode="overwrite")


def judged(loaded: LoadedPipeline, later_ms: int) -> TableWatch:
    return judge_required(loaded, TableWatch(looked_ms=AT + later_ms, required=[REQUIRED]))


def test_without_nulls_in_the_target_nothing_became_of_them(loaded: LoadedPipeline) -> None:
    assert judged(loaded, 0).required == []
    write(loaded, [1, 2])
    assert judged(loaded, 0).required == []
    # The transform leaves the column out.
    write(loaded, [1, None], column="other")
    assert judged(loaded, 2 * PATIENCE_MS).required == []


def test_nulls_that_changes_have_not_removed_in_time_are_a_finding(
    loaded: LoadedPipeline,
) -> None:
    write(loaded, [1, None])
    soon = judged(loaded, PATIENCE_MS)
    assert (soon.required, soon.altered) == ([REQUIRED], None)
    altered = judged(loaded, PATIENCE_MS + 1).altered
    assert altered is not None
    assert (altered.statement, altered.since_ms) == (STATEMENT, AT)
    assert "has column `v` as NOT NULL now, and the target has nulls in it" in altered.what
