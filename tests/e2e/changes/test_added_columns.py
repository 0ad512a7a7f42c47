"""Columns that a source got later, and the table that is already there."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from hybrid_extensions.cdc.spark import followed_columns as add_columns_to_target
from sources.config.table.sink import Sink
from sources.decoding.changes.added_columns import AddedColumn
from sources.errors import StateError
from sources.state.generation import Generation, GenerationInfo
from sources.storage.folder import Folder
from spark_jobs.inside.sink.later_columns import LaterColumns, with_added
from spark_jobs.inside.sink.sink import prepare_table

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


class Target:
    """A table of one generation, which is prepared again and again."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self._spark = spark
        self.path = str(folder / "out")
        self._sink = Sink.model_validate({"path": self.path, "mode": "append", "key": ["id"]})
        info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
        self._generation = Generation(Folder(folder / "state"), info)

    def start(
        self,
        added: dict[str, Any],
        *ids: int,
        ignored: Collection[str] = (),
        leaves_out: Collection[str] = (),
        more: str = "id",
    ) -> None:
        """As a run starts, and writes some rows."""
        columns = {name: AddedColumn.model_validate(kind) for name, kind in added.items()}
        rows = self._spark.createDataFrame([(n,) for n in ids], "id bigint").selectExpr(
            *more.split(", ")
        )
        made: DataFrame = with_added(rows, columns).drop(*leaves_out)
        later = LaterColumns(columns, ignored)
        prepare_table(self._sink, Folder(self.path), made, self._generation, later)
        if ids:
            version = DeltaTable(self.path).version()
            own = {"txnAppId": "t-rows", "txnVersion": str(version)}
            made.write.format("delta").options(**own).mode("append").save(self.path)

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = DeltaTable(self.path).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda row: int(row["id"]))


@pytest.fixture
def target(tmp_path: Path, spark: SparkSession) -> Target:
    return Target(tmp_path, spark)


SEVEN = {"discount": {"type": "int", "default": 7}}
NULL = {"discount": {"type": "int"}}


def test_rows_that_are_there_get_the_default(target: Target) -> None:
    target.start({}, 1)
    target.start({**SEVEN, "note": {"type": "string"}}, 2)
    target.start({**SEVEN, "note": {"type": "string"}}, 3)
    assert target.rows() == [{"id": n, "discount": 7, "note": None} for n in (1, 2, 3)]


def test_a_default_of_the_far_past_is_the_declared_one(target: Target) -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)
    since = {"type": "timestamp", "default": first.isoformat()}
    columns = {"since": since, "day": {"type": "date", "default": first.date().isoformat()}}
    target.start({}, 1)
    target.start(columns, 2)
    assert target.rows() == [{"id": n, "since": first, "day": first.date()} for n in (1, 2)]


def test_a_column_with_a_default_may_be_null_from_the_beginning(target: Target) -> None:
    target.start(SEVEN, 1)
    assert all(field.nullable for field in DeltaTable(target.path).schema().fields)
    target.start(SEVEN, 2)
    assert [row["discount"] for row in target.rows()] == [7, 7]


def test_a_default_that_was_wrong_can_be_corrected_until_something_is_written(
    target: Target,
) -> None:
    target.start({}, 1)
    target.start(NULL)
    target.start(SEVEN)
    assert [row["discount"] for row in target.rows()] == [7]
    target.start(NULL, 2)
    assert [row["discount"] for row in target.rows()] == [None, None]
    with pytest.raises(StateError, match="as int with the default 7, but rows were written since"):
        target.start(SEVEN)


def test_another_type_is_refused_although_nothing_was_written(target: Target) -> None:
    target.start({}, 1)
    target.start(NULL)
    with pytest.raises(StateError, match="but a column's type can't be changed") as no:
        target.start({"discount": {"type": "bigint"}})
    assert "rows were written" not in no.value.message


def test_a_start_that_breaks_off_is_done_again_with_what_is_declared_then(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.start({}, 1)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    for place in ("_fill", "_field"):
        with monkeypatch.context() as patch:
            patch.setattr(add_columns_to_target, place, crash)
            with pytest.raises(KeyboardInterrupt):
                target.start({f"after{place}": {"type": "int", "default": 7}})
    target.start({name: {"type": "int", "default": 8} for name in ("after_fill", "after_field")})
    assert target.rows() == [{"id": 1, "after_fill": 8, "after_field": 8}]


@pytest.mark.parametrize("way", ["ignored", "leaves_out"])
def test_a_column_that_was_ignored_before_can_not_be_added_with_its_default(
    target: Target, way: str
) -> None:
    target.start({}, 1)
    before = NULL if way == "leaves_out" else {}
    left_out: dict[str, Any] = {way: ["discount"]}
    target.start(before, 2, **left_out)
    target.start(before, **left_out)
    with pytest.raises(StateError, match=r"`discount` was left out so far, so rows lack"):
        target.start(SEVEN)


def test_an_added_column_does_not_overwrite_one_of_the_transform(target: Target) -> None:
    target.start({}, 1, more="id, 5 AS discount")
    with pytest.raises(StateError, match=r"the target already has a column `discount`"):
        target.start(SEVEN)
