"""Tables as Spark writes them, promoted and rolled back: deletion vectors, mapped columns, history.

And a plan of JSON whose `batch` is changed while history is read.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from hybrid_extensions.generations.files.take_over import prepare
from hybrid_extensions.generations.switch import promotion
from hybrid_testing.chain import QUICK
from orchestration.supervision.source_status import source_status
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import InputError
from sources.generations import begin
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from sources.serving import own_table
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.driver.bounded_run import FINISHED, INCOMPLETE, run_bounded
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.table.ownership.belonging import TargetSide
from spark_jobs.table.ownership.target_records import accept_foreign_changes
from tests.e2e.case import TRANSFORMS, moment
from tests.hybrid_extensions.generations.test_generations import NEW, OLD
from tests.minimal import minimal_declaration
from tests.orchestration.generations.generation_case import GenerationCase
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow]


def seen(spark: SparkSession, folder: Path) -> dict[int, int]:
    """What Spark reads from the target; deltalake refuses tables with deletion vectors."""
    rows = spark.sql(f"SELECT id, v FROM delta.`{folder / 'out'}`").collect()
    assert len({row.id for row in rows}) == len(rows)
    return {row.id: row.v for row in rows}


def delete(spark: SparkSession, table: str, where: str) -> None:
    """Delete rows by deletion vectors, which leave the files as they are."""
    spark.sql(
        f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    before = set(Path(table).rglob("*.parquet"))
    spark.sql(f"DELETE FROM delta.`{table}` WHERE {where}")
    assert {path for path in Path(table).rglob("*.parquet") if "_delta_log" not in path.parts} == {
        path for path in before if "_delta_log" not in path.parts
    }
    assert list(Path(table).rglob("deletion_vector_*.bin"))


def test_deleted_rows_never_come_back(tmp_path: Path, spark: SparkSession) -> None:
    case = GenerationCase(tmp_path)
    case.run(OLD)
    delete(spark, str(tmp_path / "out"), "id = 1")
    accept_foreign_changes(TargetSide.of(case.loaded, case.loaded.require_generation()), "me", 0)
    old = {key: value for key, value in OLD.items() if key != 1}
    begin(case.loaded)
    case.run(NEW)
    delete(spark, own_table(case.loaded, "g2").url, "id = 4")
    accept_foreign_changes(TargetSide.of(case.loaded, case.loaded.require_generation()), "me", 0)
    new = {key: value for key, value in NEW.items() if key != 4}
    assert seen(spark, tmp_path) == old

    promotion.promote(case.loaded)
    assert seen(spark, tmp_path) == new
    promotion.roll_back(case.loaded)
    assert seen(spark, tmp_path) == old
    promotion.roll_back(case.loaded)
    assert seen(spark, tmp_path) == new
    # Spark writes on, and its own checks pass.
    spark.sql(f"INSERT INTO delta.`{tmp_path / 'out'}` VALUES (9, 90)")
    spark.sql(f"REORG TABLE delta.`{tmp_path / 'out'}` APPLY (PURGE)")
    assert seen(spark, tmp_path) == {**new, 9: 90}


def test_a_table_inside_the_target_is_taken_over_without_a_copy(
    tmp_path: Path, spark: SparkSession
) -> None:
    target, inside = tmp_path / "out", tmp_path / "out/_generations/g2"
    for place, values in ((target, range(3)), (inside, range(100, 108))):
        # Folders of partitions are named with characters that a path has to escape.
        made = spark.createDataFrame([(n, f"a b/{n % 2}%") for n in values], "id long, name string")
        made.write.format("delta").partitionBy("name").save(str(place))
    delete(spark, str(inside), "id in (101, 102)")
    expected = {n for n in range(100, 108) if n not in (101, 102)}
    before = {path for path in inside.rglob("*") if path.suffix in (".parquet", ".bin")}

    prepare(Folder(target), Folder(inside), None).commit({}, {})
    shutil.rmtree(inside / "_delta_log")
    rows = f"SELECT id FROM delta.`{target}`"
    assert {row.id for row in spark.sql(rows).collect()} == expected
    read = QueryBuilder().register("t", DeltaTable(target)).execute("SELECT id FROM t").read_all()
    assert set(read["id"].to_pylist()) == expected

    spark.sql(f"UPDATE delta.`{target}` SET id = 999 WHERE id = 105")
    at_once = "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(at_once, "false")
    try:
        spark.sql(f"VACUUM delta.`{target}` RETAIN 0 HOURS")
    finally:
        spark.conf.unset(at_once)
    assert before <= set(inside.rglob("*")), "VACUUM leaves the folder alone"
    assert {row.id for row in spark.sql(rows).collect()} == {*expected, 999} - {105}


@pytest.mark.parametrize("mapped", ["out", "out.g2"])
def test_mapped_columns_are_read_by_their_names_on_either_side(
    tmp_path: Path, spark: SparkSession, mapped: str
) -> None:
    case = GenerationCase(tmp_path)
    case.run(OLD)
    begin(case.loaded)
    case.run(NEW)
    table = tmp_path / mapped
    spark.sql(
        f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
    )
    spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN v TO w")
    spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN w TO v")
    promotion.promote(case.loaded)
    assert seen(spark, tmp_path) == NEW
    promotion.roll_back(case.loaded)
    assert seen(spark, tmp_path) == OLD


def test_a_feature_that_is_refused_can_be_dropped_as_the_error_says(
    tmp_path: Path, spark: SparkSession
) -> None:
    case = GenerationCase(tmp_path)
    case.run(OLD)
    begin(case.loaded)
    case.run(NEW)
    spark.sql(
        f"ALTER TABLE delta.`{tmp_path / 'out'}` SET TBLPROPERTIES "
        "('delta.enableRowTracking' = 'true')"
    )
    with pytest.raises(InputError, match="the Delta features `rowTracking`") as refused:
        promotion.promote(case.loaded)
    spark.sql(refused.value.hint.split("with Spark (")[1].split("), then try again")[0])
    promotion.promote(case.loaded)
    assert seen(spark, tmp_path) == NEW


def json_history(folder: Path, files: int, batch: dict[str, int], **changes: Any) -> LoadedPipeline:
    document = minimal_declaration(
        {
            "type": "files",
            "name": "history",
            "format": "json",
            "schema": {"id": "bigint", "at": "timestamp"},
            "path": "in/*.json",
            "batch": batch,
            **changes,
        },
        name="events",
        key=["id"],
    )
    (folder / "transforms.py").write_text(TRANSFORMS)
    (folder / "in").mkdir(exist_ok=True)
    for number in range(files):
        line = f'{{"id": {number}, "at": "{moment(number).isoformat()}"}}\n'
        if not (path := folder / f"in/{number:02d}.json").exists():
            path.write_text(line)
    (folder / "events.yaml").write_text(yaml.safe_dump(document))
    return load_pipeline(folder / "events.yaml")


@pytest.mark.parametrize("files", [5, 1])
def test_a_changed_batch_loses_and_doubles_nothing_of_half_read_history(
    tmp_path: Path, spark: SparkSession, files: int
) -> None:
    loaded = json_history(tmp_path, 12, {"files": 3}, rate={"files": 1})
    make_plan(loaded)
    context = PipelineContext.require(loaded)
    stop = threading.Event()

    def stop_after_first() -> None:
        # The limit leaves seconds until the second micro-batch.
        wait_for(
            lambda: offset_log.last_committed(context.generation.checkpoint) is not None,
            "a commit",
            300,
        )
        stop.set()

    thread = threading.Thread(target=stop_after_first)
    thread.start()
    reporter = Reporter(context, "history", "test", None, beats=QUICK)
    assert run_bounded(spark, context, "history", reporter, stop) == INCOMPLETE
    thread.join()
    generation = context.generation
    assert not generation.path("positions/history-end.json").exists()
    assert 0 < DeltaTable(tmp_path / "out").to_pyarrow_table().num_rows < 12

    changed = json_history(tmp_path, 12, {"files": files})
    note = source_status(changed, generation, "history").note
    assert note is not None
    assert "takes effect in the next generation" in note
    again = PipelineContext.require(changed)
    reporter = Reporter(again, "history", "test", None, beats=QUICK)
    assert run_bounded(spark, again, "history", reporter, threading.Event()) == FINISHED
    offset = offset_log.committed_offset(generation.checkpoint, 0)
    assert offset_log.is_drained(offset, 1)
    rows = DeltaTable(tmp_path / "out").to_pyarrow_table()
    with duckdb.connect() as connection:
        query = f"SELECT id FROM read_json('{tmp_path}/in/*.json') ORDER BY id"
        raw = connection.execute(query).fetchall()
    assert sorted(rows["id"].to_pylist()) == [number for (number,) in raw]
