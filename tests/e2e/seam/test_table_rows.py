"""Keys of history from the target, where it has the rows as they are; else from history itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.inside.driver.warm_up import expected_topic
from spark_jobs.inside.query.query_sources import declare_query
from spark_jobs.inside.query.seam.duplicate_filters import MOST_BROADCAST
from spark_jobs.inside.query.seam.table_rows import HistoryTable, table_of_history
from tests.e2e.case import Case, live_of, wrong
from tests.e2e.in_session import run_history, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def json_history(document: dict[str, Any]) -> None:
    columns = {"id": "bigint", "at": "timestamp", "v": "double"}
    document["sources"][0].update(format="json", path="in/*.json", schema=columns)


def case_of(folder: Path, servers: str) -> Case:
    case = Case(folder, servers)
    case.write_json_history()
    # One of them comes long after its time, and is older than the keys that are kept.
    case.produce([*range(500, 1100), 3, *range(1100, 1200)])
    return case


def go_live(spark: SparkSession, loaded: LoadedPipeline) -> None:
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    run_live(spark, loaded)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each look-up of parsed history for the seam, whether the table has it."""
    found: list[bool] = []

    def noted(*arguments: Any) -> HistoryTable | None:
        table = table_of_history(*arguments)
        found.append(table is not None)
        return table

    monkeypatch.setattr("spark_jobs.inside.query.seam.topic_seam.table_of_history", noted)
    return found


@pytest.mark.parametrize("most", [MOST_BROADCAST, 10], ids=["few", "many"])
def test_history_is_not_parsed_again_for_its_keys(
    tmp_path: Path,
    servers: str,
    spark: SparkSession,
    taken: list[bool],
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spark_jobs.inside.query.seam.topic_seam.MOST_BROADCAST", most)
    case = case_of(tmp_path, servers)
    loaded = case.pipeline(json_history)
    run_history(spark, loaded)
    query = declare_query(PipelineContext.require(loaded), "history")
    expected = expected_topic(query, live_of(loaded))
    assert expected is not None
    expected.keep_seam_keys(spark)
    expected.prepare(spark)
    assert not [*loaded.require_generation().path("seam").glob("**/keys.json")]
    go_live(spark, loaded)
    assert taken == [True]
    # Few rows are read by the driver, without a job of Spark that looks their keys up.
    kept = [path.name for path in loaded.require_generation().path("seam").glob("*/*/*.json")]
    is_read_by_driver = most > 10
    assert ("recent.json" in kept, "keys.json" in kept) == (
        is_read_by_driver,
        not is_read_by_driver,
    )
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1200, {})


@pytest.mark.parametrize(
    "transform",
    [
        pytest.param("rows.where('id % 3 > 0')", id="leaves out rows"),
        pytest.param("rows.drop('v')", id="leaves out a column that is compared"),
        pytest.param("rows.withColumn('v', rows.v + 0)", id="computes"),
    ],
)
def test_rows_that_a_transform_changes_are_taken_from_history(
    tmp_path: Path, servers: str, spark: SparkSession, taken: list[bool], transform: str
) -> None:
    case = case_of(tmp_path, servers)
    module = tmp_path / "transforms.py"
    module.write_text(f"{module.read_text()}\ndef changed(rows):\n    return {transform}\n")

    def edit(document: dict[str, Any]) -> None:
        json_history(document)
        document["transform"] = "transforms:changed"

    loaded = case.pipeline(edit)
    run_history(spark, loaded)
    go_live(spark, loaded)
    assert taken == [False]
    ids = DeltaTable(str(tmp_path / "out")).to_pyarrow_table()["id"].to_pylist()
    expected = [n for n in range(1200) if "where" not in transform or n % 3]
    assert sorted(ids) == expected


def test_rows_that_others_have_removed_from_the_table_are_no_new_ones(
    tmp_path: Path, servers: str, spark: SparkSession, taken: list[bool]
) -> None:
    case = case_of(tmp_path, servers)
    loaded = case.pipeline(json_history)
    run_history(spark, loaded)
    table = DeltaTable(str(tmp_path / "out"))
    version = table.version()
    table.delete("id = 950")
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    with pytest.raises(StateError, match="changed"):
        run_live(spark, loaded)
    assert taken == [False]
    table.restore(version)
    run_live(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1200, {})
