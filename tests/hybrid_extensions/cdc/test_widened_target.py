"""Widening of a target's columns, next to others who commit to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from hybrid_extensions.cdc.spark import widened_columns
from sources.config.table.sink import Sink
from sources.storage.folder import Folder

pytestmark = pytest.mark.spark
SINK = Sink.model_validate({"path": "out", "mode": "merge", "key": ["id"]})


def test_what_a_repair_has_committed_since_the_table_was_opened_stays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Folder(tmp_path / "out")

    def commit(number: int) -> None:
        rows = {"id": pa.array([number], pa.int64()), "n": pa.array([number], pa.int32())}
        write_deltalake(target.url, pa.table(rows), mode="append")

    @contextmanager
    def turn(_: Any) -> Iterator[None]:
        # As of a repair whose turn it was.
        commit(3)
        yield

    monkeypatch.setattr(widened_columns, "table_turn", turn)
    commit(1)
    table = DeltaTable(target.url)
    commit(2)
    generation: Any = SimpleNamespace(info=SimpleNamespace(transaction_id="tx"))
    widened_columns.widen_columns(spark, target, table, SINK, generation, {"n": "bigint"})
    rows = DeltaTable(target.url).to_pyarrow_table().sort_by("id")
    assert rows.schema.field("n").type == pa.int64()
    assert rows["id"].to_pylist() == [1, 2, 3]
    assert table.version() == DeltaTable(target.url).version()
