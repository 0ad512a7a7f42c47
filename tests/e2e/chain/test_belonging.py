"""A table, checkpoint or state that is taken apart is refused by run and status, and mendable."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.operations import chain_plan
from orchestration.supervision.status import status
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import StateError
from tests.command_line import invoke
from tests.e2e.case import SMALL, TRANSFORMS, as_json, moment, wrong
from tests.e2e.in_session import run_history, run_live
from tests.minimal import minimal_declaration

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
COLUMNS = {"id": "bigint", "at": "timestamp", "v": "double"}


class FolderCase:
    """History in two files, then a folder that keeps filling."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.folder = folder
        (folder / "transforms.py").write_text(TRANSFORMS)
        (folder / "in").mkdir()
        for at, numbers in enumerate((range(50), range(50, 100))):
            table = pa.table(
                {
                    "id": pa.array(numbers, pa.int64()),
                    "at": pa.array([moment(n) for n in numbers], pa.timestamp("us", "UTC")),
                    "v": pa.array([n / 2 for n in numbers], pa.float64()),
                }
            )
            pq.write_table(table, folder / "in" / f"{at}.parquet")
        files = {"type": "files", "name": "history", "path": "in/*.parquet", "format": "parquet"}
        inbox = {"type": "files", "name": "inbox", "path": "inbox", "format": "json"}
        document: dict[str, Any] = minimal_declaration(
            {**files, "batch": {"files": 1}},
            {**inbox, "schema": COLUMNS, "discovery_interval": "100 ms"},
            name="events",
            key=["id"],
            sink={"path": "out", "mode": mode, "key": ["id"]},
            spark={"conf": dict(SMALL)},
        )
        if mode == "merge":
            (folder / "all.sql").write_text("SELECT * FROM input")
            document["audit"] = {"sql": "all.sql"}
        self.path = folder / "events.yaml"
        self.path.write_text(yaml.safe_dump(document))
        self.loaded: LoadedPipeline = load_pipeline(self.path)
        self.out = folder / "out"
        self.root = folder / "state" / "events" / "g1"
        self.arrived = 100

    def arrive(self, count: int = 10) -> None:
        """A file with the next rows."""
        (self.folder / "inbox").mkdir(exist_ok=True)
        numbers = range(self.arrived, self.arrived + count)
        hidden = self.folder / "inbox" / f".{self.arrived}.json"
        hidden.write_text("".join(f"{as_json(n)}\n" for n in numbers))
        hidden.rename(hidden.with_name(hidden.name[1:]))
        self.arrived += count

    def live(self, spark: SparkSession, meanwhile: Callable[[], None] = lambda: None) -> None:
        files = len(list((self.folder / "inbox").glob("*.json")))
        run_live(spark, self.loaded, lambda beat: (beat.splits_done or 0) >= files, meanwhile)

    def require_red(self, told: str) -> None:
        """Status is red and a launch is refused, both before a JVM starts."""
        with pytest.raises(StateError, match=told):
            chain_plan.plan(self.loaded)
        assert not status(self.loaded).healthy
        result = invoke(["status", str(self.path), "--json"])
        assert result.exit_code == 1
        assert told.replace("\\", "") in json.loads(result.stdout)["refused"]["message"]

    def require_exact(self) -> None:
        """Each row once, and the audit agrees."""
        ids = DeltaTable(str(self.out)).to_pyarrow_table(columns=["id"])["id"].to_pylist()
        assert Counter(ids) == Counter(range(self.arrived))
        report = audit(self.loaded)
        assert (report.expected, wrong(report), report.ok) == (self.arrived, {}, True)
        assert status(self.loaded).healthy


@pytest.fixture(params=["append", "merge"])
def case(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> FolderCase:
    made = FolderCase(tmp_path, request.param)
    run_history(spark, made.loaded)
    made.arrive()
    made.live(spark)
    assert status(made.loaded).healthy
    return made


def test_what_was_taken_away_is_refused_and_what_is_put_back_goes_on_exact(
    case: FolderCase, spark: SparkSession
) -> None:
    away = case.folder / "away"
    cases = {
        case.out: "The rows of micro-batches 0 to",
        case.root / "checkpoint": "is missing, or another one is in its place",
        case.root / "plan.json": r"plan\.json, though",
        case.root / "positions" / "history-end.json": r"history-end\.json, though",
        case.root / "target.json": r"target\.json, though",
    }
    for path, told in cases.items():
        path.rename(away)
        case.require_red(told)
        if path in (case.out, case.root / "checkpoint"):
            with pytest.raises(StateError, match=told):
                case.live(spark)
            assert not path.exists()
        away.rename(path)
    # The state of yesterday.
    shutil.copytree(case.root, away)
    case.arrive()
    case.live(spark)
    case.root.rename(case.folder / "newest")
    shutil.copytree(away, case.root)
    case.require_red("is older than the table")
    shutil.rmtree(case.root)
    (case.folder / "newest").rename(case.root)
    case.arrive()
    case.live(spark)
    case.require_exact()


def test_rows_of_others_end_a_run_until_they_are_accepted_or_undone(
    case: FolderCase, spark: SparkSession
) -> None:
    table = f"delta.`{case.out}`"

    def delete() -> None:
        spark.sql(f"DELETE FROM {table} WHERE id = 7")
        case.arrive()

    spark.sql(f"OPTIMIZE {table}")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    with pytest.raises(Exception, match="changed by something other than this pipeline"):
        case.live(spark, delete)
    case.require_red("DELETE")
    result = invoke(["accept", str(case.path), "--by", "Ada", "--json"])
    assert result.exit_code == 0
    (accepted,) = json.loads(result.stdout)["accepted"]
    assert (accepted["by"], accepted["operation"]) == ("Ada", "DELETE")
    case.live(spark)
    left = DeltaTable(str(case.out)).to_pyarrow_table(columns=["id"])["id"].to_pylist()
    assert Counter(left) == Counter(set(range(case.arrived)) - {7})
    assert audit(case.loaded).missing == 1


@pytest.mark.parametrize("case", ["append"], indirect=True)
def test_a_restore_is_refused_until_the_table_is_restored_forward(
    case: FolderCase, spark: SparkSession
) -> None:
    table = f"delta.`{case.out}`"
    newest = DeltaTable(str(case.out)).version()
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {newest - 2}")
    case.arrive()
    case.require_red(f"RESTORE to version {newest - 2}")
    with pytest.raises(StateError, match=f"TO VERSION AS OF {newest}"):
        case.live(spark)
    result = invoke(["accept", str(case.path), "--by", "Ada"])
    assert result.exit_code == 2
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {newest}")
    case.live(spark)
    case.require_exact()


@pytest.mark.parametrize("case", ["append"], indirect=True)
@pytest.mark.parametrize("lost", [1, 2])
def test_a_discovery_that_was_lost_is_refused_and_its_numbers_are_not_given_again(
    case: FolderCase, spark: SparkSession, lost: int
) -> None:
    """Spark counts what it has read by discoveries: a new one of the same number is never read."""
    case.arrive()
    case.live(spark)
    path = case.root / "discoveries" / f"inbox-{lost}.json"
    away = path.rename(case.folder / "away")
    case.arrive()
    with pytest.raises(StateError, match=rf"lacks .*discoveries/inbox-{lost}\.json, though"):
        case.live(spark)
    away.rename(path)
    case.live(spark)
    case.require_exact()


@pytest.mark.parametrize("case", ["append"], indirect=True)
def test_a_column_that_others_dropped_and_added_again_is_refused_until_it_is_undone(
    case: FolderCase, spark: SparkSession
) -> None:
    table = f"delta.`{case.out}`"
    spark.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
    )
    case.live(spark)
    newest = DeltaTable(str(case.out)).version()
    spark.sql(f"ALTER TABLE {table} DROP COLUMN v")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN v double")
    case.arrive()
    case.require_red("DROP COLUMNS")
    with pytest.raises(StateError, match=f"TO VERSION AS OF {newest}"):
        case.live(spark)
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {newest}")
    case.live(spark)
    rows = spark.read.format("delta").load(str(case.out))
    assert (rows.where("v IS NULL").count(), rows.count()) == (0, case.arrived)
