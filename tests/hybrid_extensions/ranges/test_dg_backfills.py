"""Ranges of several pipelines in one backfill of Dagster: its counts, its retry, its end."""

from __future__ import annotations

import json
import shutil
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.run_state.table_locks import take_range_lock
from tests.browser.site import dagster_ui
from tests.orchestration.generations.generation_case import GenerationCase
from tests.services.processes import wait_for

DEADLINE_S = 300
SUCCESS = "__typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }"
LAUNCH = f"""mutation ($of: LaunchBackfillParams!) {{
made: launchPartitionBackfill(backfillParams: $of) {{ {SUCCESS} }} }}"""
RETRY = f"""mutation ($of: ReexecutionParams!) {{
made: reexecutePartitionBackfill(reexecutionParams: $of) {{ {SUCCESS} }} }}"""
CANCEL = "mutation ($id: String!) { made: cancelPartitionBackfill(backfillId: $id) { __typename } }"
LOOK = """query ($id: String!) { made: partitionBackfillOrError(backfillId: $id) {
... on PartitionBackfill { status runs { status } assetBackfillData {
assetBackfillStatuses { ... on AssetPartitionsStatusCounts { assetKey { path }
numPartitionsTargeted numPartitionsMaterialized numPartitionsFailed } } } } } }"""

pytestmark = [pytest.mark.slow]


class Backfill(NamedTuple):
    """A backfill as its page shows it: counts of partitions by pipeline."""

    status: str
    runs: list[str]
    targeted: dict[str, int]
    done: dict[str, int]
    failed: dict[str, int]


class Ui:
    """What the pages of backfills ask of the web server."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/graphql"

    def ask(self, query: str, **variables: Any) -> Any:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)
        assert "errors" not in found, found
        return found["data"]["made"]

    def launch(self, **days: list[str]) -> str:
        """One request for days of several pipelines."""
        of = [
            {
                "assetKey": {"path": [name, "ranges"]},
                "partitions": {"ranges": [{"start": day, "end": day} for day in chosen]},
            }
            for name, chosen in days.items()
        ]
        made = self.ask(LAUNCH, of={"partitionsByAssets": of})
        return str(made["backfillId"])

    def retry_failed(self, backfill: str) -> str:
        made = self.ask(RETRY, of={"parentRunId": backfill, "strategy": "FROM_FAILURE"})
        return str(made["backfillId"])

    def look(self, backfill: str) -> Backfill:
        made = self.ask(LOOK, id=backfill)
        parts = {
            each["assetKey"]["path"][0]: each
            for each in made["assetBackfillData"]["assetBackfillStatuses"]
        }

        def counts(name: str) -> dict[str, int]:
            return {pipeline: part[f"numPartitions{name}"] for pipeline, part in parts.items()}

        runs = sorted(run["status"] for run in made["runs"])
        names = ("Targeted", "Materialized", "Failed")
        return Backfill(made["status"], runs, *(counts(name) for name in names))

    def ended(self, backfill: str) -> Backfill:
        open_ = ("REQUESTED", "CANCELING", "FAILING")
        wait_for(
            lambda: self.look(backfill).status not in open_,
            lambda: f"the end of the backfill: {self.look(backfill)}",
            DEADLINE_S,
        )
        return self.look(backfill)


def declared(folder: Path, name: str) -> GenerationCase:
    """A pipeline of days whose history is read; of the days of 2023 no file has a row.

    So no Spark is started, and a broken file is opened for its own day only.
    """
    folder.mkdir()
    case = GenerationCase(folder)
    source = {
        "type": "files",
        "name": "history",
        "format": "parquet",
        "path": "in/*/*.parquet",
        "folder_time": "%Y-%m-%d",
    }
    days = {"by": "day", "start": "2023-12-01", "end": "2024-01-01"}
    case.write(name=name, sources=[source], ranges=days)
    at = datetime(2023, 11, 30, tzinfo=UTC)
    rows = {"id": [1], "at": pa.array([at], pa.timestamp("us", "UTC")), "v": [10]}
    (folder / "in/2023-11-30").mkdir(parents=True)
    pq.write_table(pa.table(rows), folder / "in/2023-11-30/a.parquet")
    case.run({1: 10}, at=at)
    return case


def test_days_of_two_pipelines_are_one_backfill_whose_failed_ones_alone_are_tried_again(
    tmp_path: Path,
) -> None:
    one, two = (declared(tmp_path / name, name) for name in ("one", "two"))
    broken = two.folder / "in/2023-12-04"
    broken.mkdir()
    (broken / "a.parquet").write_bytes(b"no parquet")
    before = one.seen()
    with dagster_ui(tmp_path, one.loaded.path, two.loaded.path) as url:
        ui = Ui(url)
        first = ui.ended(
            made := ui.launch(one=["2023-12-02", "2023-12-05"], two=["2023-12-04", "2023-12-09"])
        )
        assert first.targeted == {"one": 2, "two": 2}
        assert (first.done, first.failed) == ({"one": 2, "two": 1}, {"one": 0, "two": 1})
        # Days that are not next to each other are runs of their own, so one does not fail others.
        assert (first.status, first.runs) == ("COMPLETED_FAILED", ["FAILURE", *["SUCCESS"] * 3])

        shutil.rmtree(broken)
        again = ui.ended(ui.retry_failed(made))
        assert (again.status, again.targeted, again.done) == (
            "COMPLETED_SUCCESS",
            {"two": 1},
            {"two": 1},
        )

        # While something else changes the table, ranges wait; a cancelled backfill stops to do so.
        lock = take_range_lock(one.loaded.state)
        assert lock is not None
        held = ui.launch(one=["2023-12-02", "2023-12-12"], two=["2023-12-12"])
        wait_for(
            lambda: ui.look(held).runs == ["STARTED", "STARTED", "SUCCESS"],
            lambda: f"two runs that wait: {ui.look(held)}",
            DEADLINE_S,
        )
        assert ui.ask(CANCEL, id=held)["__typename"] == "CancelBackfillSuccess"
        cancelled = ui.ended(held)
        lock.release()
        assert (cancelled.status, cancelled.runs) == (
            "CANCELED",
            ["CANCELED", "CANCELED", "SUCCESS"],
        )
        assert cancelled.done == {"one": 0, "two": 1}
    assert one.seen() == before
