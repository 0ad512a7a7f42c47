"""History whose files become files of the table as they are, followed by a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from hybrid_extensions.audit.run import audit
from hybrid_extensions.copied_files.spark.identity import require_identity
from orchestration.operations import bounded_run, chain_plan, live_run
from orchestration.progress.plan_preview import preview
from sources.common.schema import parse_schema
from sources.errors import InputError, RunError
from sources.planning.context import PipelineContext
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table
from spark_jobs.inside.readers.empty_stream import empty_stream
from tests.e2e.case import Case, history_of, moment, run_through, wrong
from tests.e2e.in_session import run_chain
from tests.services.lake import lake
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
# The driver kills itself where copies exist and no commit names them.
KILL = """
import os, signal
from pathlib import Path
from spark_jobs.inside.sink.appending import append_once
commit_once, commits = append_once.commit_once, []

def die_or_commit(*args):
    commits.append(args)
    mark = Path(__file__).with_name("die")
    if len(commits) == 2 and mark.exists():
        mark.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    commit_once(*args)

append_once.commit_once = die_or_commit
"""


def copying(document: dict[str, Any]) -> None:
    document["sources"][0]["batch"] = {"files": 1}
    document["sink"]["copy_files"] = True


def write_again(path: Path) -> None:
    """Write a file's event times as milliseconds, which Delta has not."""
    rows = pq.read_table(path)
    at = rows["at"].cast(pa.timestamp("ms", "UTC"))
    pq.write_table(rows.set_column(rows.schema.get_field_index("at"), "at", at), path)


def test_files_are_copied_rewritten_and_continued_by_the_topic(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    write_again(tmp_path / "in" / "2.parquet")
    case.produce()
    loaded = case.pipeline(copying)
    given = {path.name: path.read_bytes() for path in (tmp_path / "in").iterdir()}
    report = audit_of_chain(case, spark, copying)
    assert (report.expected, wrong(report), report.ok) == (2000, {}, True)

    out = tmp_path / "out"
    copies = sorted(path.read_bytes() for path in out.glob("history-*.parquet"))
    assert copies == sorted(given[name] for name in given if name != "2.parquet")
    said = preview(loaded, chain_plan.plan(loaded)).summary
    assert "Of `history`, 3 of 4 files (" in said
    assert "2.parquet: column `at` is stored otherwise than Delta's timestamp" in said
    # What happens to the input later does not reach the table.
    for path in (tmp_path / "in").iterdir():
        with path.open("r+b") as file:
            file.write(bytes(100))
    files = DeltaTable(str(out)).file_uris()
    query = f"SELECT count(*), count(DISTINCT id), sum(id), sum(v) FROM read_parquet({files})"
    with duckdb.connect() as connection:
        (found,) = connection.execute(query).fetchall()
    total = sum(range(2000))
    assert found == (2000, 2000, total, total / 2)
    rows = spark.read.format("delta").load(str(out))
    for low in (0, 249, 250, 999, 1000):
        assert rows.where(f"id >= {low} AND id < {low + 2}").count() == 2
        assert rows.where(rows["at"] == moment(low)).count() == 1


def audit_of_chain(case: Case, spark: SparkSession, edit: Any) -> Any:
    """Run the whole chain in this session, and audit the table."""
    loaded = case.pipeline(edit)
    run_chain(spark, loaded)
    return audit(loaded)


def test_partitioned_files_are_copied_by_the_store(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    with lake("s3", tmp_path) as move:

        def partitioned(document: dict[str, Any]) -> None:
            copying(document)
            move(document)
            folder = document["state"].removesuffix("state")
            files = {"path": f"{folder}in/*/*.parquet", "partitions": {"part": "int"}}
            document["sources"] = [document["sources"][0] | files]
            document["sink"]["partition_by"] = ["part"]

        loaded = case.pipeline(partitioned)
        inside = history_of(loaded).patterns[0].removesuffix("/*/*.parquet")
        place = loaded.pipeline.stores.folder(inside)
        for at in range(4):
            data = (tmp_path / "in" / f"{at}.parquet").read_bytes()
            place.documents.put(place.location(f"part={at % 2}/{at}.parquet"), data)
        chain_plan.plan(loaded)
        bounded_run.run_bounded(PipelineContext.require(loaded), history_of(loaded))
        table = delta_table(loaded.target)
        rows = table.to_pyarrow_table()
        assert all("history-" in name for name in table.file_uris())
        assert audit(loaded).ok
    assert sorted(rows["id"].to_pylist()) == list(range(1000))
    of_second = rows.filter(pc.equal(rows["part"], 1))["id"].to_pylist()
    assert sorted(of_second) == [*range(250, 500), *range(750, 1000)]


@pytest.mark.crash
def test_a_driver_that_dies_between_copy_and_commit_leaves_each_row_once(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    transforms = tmp_path / "transforms.py"
    transforms.write_text(transforms.read_text() + KILL)
    (tmp_path / "die").touch()
    loaded = case.pipeline(copying)
    with pytest.raises(RunError):
        run_through(loaded)
    assert not (tmp_path / "die").exists()
    out = tmp_path / "out"
    orphans = len(list(out.glob("history-*.parquet"))) - len(DeltaTable(str(out)).file_uris())
    assert orphans == 1
    wait_for(lambda: not live_run.is_live(loaded), "the lock of the dead driver", 60)
    report = run_through(loaded)
    assert (report.expected, wrong(report), report.ok) == (2000, {}, True)
    assert len(list(out.glob("history-*.parquet"))) == 5


@pytest.mark.analysis
def test_a_transform_that_leaves_out_rows_is_refused_by_the_plan(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    transforms = tmp_path / "transforms.py"
    transforms.write_text("def identity(rows):\n    return rows.where('id > 3')\n")
    with pytest.raises(InputError, match=r"does more than that \(`Filter` in Spark's plan\)"):
        chain_plan.plan(case.pipeline(copying))
    assert not (tmp_path / "state").exists()


def test_only_a_transform_that_returns_all_columns_as_they_are_is_allowed(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    pipeline = Case(tmp_path, servers).pipeline(copying).pipeline
    columns = parse_schema({"id": "bigint", "at": "timestamp", "v": "double"})
    rows = empty_stream(spark, Folder(tmp_path), columns)
    rows.createOrReplaceTempView("given")
    for same in (rows, rows.select("v", "id", "at"), spark.sql("SELECT * FROM given")):
        require_identity(pipeline, same, rows)
    for other in (
        rows.drop("v"),
        rows.withColumn("v", rows["v"] + 1),
        rows.withColumn("v", rows["v"].cast("float")),
        rows.withColumnRenamed("v", "w"),
        rows.withColumn("w", F.lit(1)),
    ):
        with pytest.raises(InputError, match=r"changes or leaves out column `[vw]`"):
            require_identity(pipeline, other, rows)
    for other in (
        rows.where("id > 3"),
        rows.dropDuplicates(["id"]),
        rows.withWatermark("at", "1 second"),
    ):
        with pytest.raises(InputError, match="does more than that"):
            require_identity(pipeline, other, rows)
