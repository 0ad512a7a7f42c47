"""Tables that a pipeline adopts: another tool's, and its own whose state was lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from hybrid_extensions.adopt import run
from hybrid_extensions.adopt.position import Asked
from hybrid_extensions.adopt.run import adopt, look
from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from sources.errors import HybridError, RunError, SeamError, StateError
from sources.ledger import require_ledger
from sources.planning.context import PipelineContext
from sources.planning.transform_analysis import (
    AnalysisRequest,
    OutputColumn,
    TransformAnalysis,
)
from sources.state.action_log import read_actions
from spark_jobs.launch.questions.transform_check import TransformCheck
from spark_jobs.table.commit_position import CommitPosition
from spark_jobs.table.ownership.target_records import verified_record
from tests.command_line import invoke
from tests.e2e.case import TRANSFORMS, live_of, moment, start_live, windows
from tests.e2e.in_session import run_chain, seam_is_counted
from tests.hybrid_extensions.adopt.adopt_case import (
    COMMITS,
    AdoptCase,
    both,
    go_on,
    merged,
    only_topic,
    rows,
)

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
COLUMNS = {"id": "bigint", "at": "timestamp", "v": "double"}


@pytest.fixture
def analysis(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What Spark would say of the transform, which takes it long: a test may change it."""
    found: dict[str, Any] = {"columns": dict(COLUMNS), "passed": ["id", "at", "v"], "stateful": []}

    def analyze(_: TransformCheck, request: AnalysisRequest) -> TransformAnalysis:
        made = found["columns"] or {}
        columns = [
            OutputColumn(name=name, type=kind, nullable=True, inputs=None)
            for name, kind in made.items()
        ]
        return TransformAnalysis(
            digest=request.digest,
            columns=columns or None,
            passed=found["passed"],
            stateful=found["stateful"],
        )

    monkeypatch.setattr(TransformCheck, "analyze", analyze)
    return found


def partitioned(document: dict[str, Any]) -> None:
    """Spark writes the rows: tasks write no table with partitions."""
    (Path(document["folder"]) / "transforms.py").write_text(
        "def identity(rows):\n    return rows.selectExpr('*', 'id % 3 AS third')\n"
    )
    document["sink"]["partition_by"] = ["third"]


def copied(document: dict[str, Any]) -> None:
    document["sink"]["copy_files"] = True


WAYS: dict[str, Callable[[dict[str, Any]], None]] = {
    "tasks": lambda _: None,
    "copies": copied,
    "spark": partitioned,
    "merge": merged,
}


def pipeline_of(case: AdoptCase, edit: Callable[[dict[str, Any]], None]) -> Any:
    def edited(document: dict[str, Any]) -> None:
        document["folder"] = str(case.folder)
        edit(document)
        del document["folder"]

    return case.pipeline(edited)


@pytest.mark.parametrize("way", WAYS)
def test_a_pipeline_whose_state_was_lost_goes_on_from_its_table(
    tmp_path: Path, servers: str, spark: SparkSession, analysis: dict[str, Any], way: str
) -> None:
    if way == "spark":
        analysis["columns"]["third"] = "bigint"
        analysis["passed"] = None
    case = AdoptCase(tmp_path, servers, partitions=2)
    case.write_history()
    case.produce(range(500, 1500))
    loaded = pipeline_of(case, WAYS[way])
    run_chain(spark, loaded, seam_is_counted(loaded))
    case.produce(range(1500, 1600))
    go_on(spark, loaded)
    said = [CommitPosition.of(each) for each in case.commits()]
    of_rows = [
        each is not None
        for each, commit in zip(said, case.commits(), strict=True)
        if commit.changes_rows
    ]
    assert all(of_rows), "each commit with rows says its position"
    assert len(of_rows) >= 3
    shown = spark.sql(f"DESCRIBE HISTORY delta.`{case.out}`").collect()
    assert sum(row.userMetadata is not None for row in shown) == len(said) - said.count(None)
    case.lose_state()
    case.produce(range(1600, 1700))
    found = look(loaded, COMMITS)
    assert not (tmp_path / "state").exists()
    assert (found.rows, found.offsets) == (1600, {case.topic: {0: 550, 1: 550}})
    assert adopt(loaded, COMMITS).is_applied
    go_on(spark, loaded)
    case.require_exact()
    assert read_actions(loaded.state)[0].action == "adopt"
    report = audit(loaded)
    assert report.outcome == "unknown"
    assert "was adopted" in report.unchecked[0]
    # Once more, from the commits of the adopted generation.
    case.lose_state()
    case.produce(range(1700, 1800))
    adopt(loaded, COMMITS)
    go_on(spark, loaded)
    case.require_exact()


def test_another_tools_table_goes_on_at_declared_offsets_through_kills(
    tmp_path: Path, servers: str, spark: SparkSession, analysis: dict[str, Any]
) -> None:
    case = AdoptCase(tmp_path, servers)
    case.write_table(range(300))
    case.write_table(range(300, 600), partition_by=[])
    case.produce(range(600))
    case.produce(range(600, 900))
    loaded = case.pipeline(only_topic)
    answer = invoke(["adopt", str(loaded.path), "--offsets", '{"0": 600}', "--json"])
    document = json.loads(answer.stdout)
    assert (answer.exit_code, document["version"], document["is_applied"]) == (0, 1, False)
    assert not (tmp_path / "state").exists()
    assert DeltaTable(str(case.out)).version() == 1
    asked = Asked({"": {0: 600}})
    # Killed before its commit, it goes on by what it had decided.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_commit", lambda *_: _die())
        with pytest.raises(KeyboardInterrupt):
            adopt(loaded, asked)
    with pytest.raises(StateError, match="was not made by this generation"):
        go_on(spark, loaded)
    with pytest.raises(StateError, match="Another adoption of version 1"):
        adopt(loaded, Asked({"": {0: 601}}))
    adopt(loaded, asked)
    with pytest.raises(StateError, match="knows its own position"):
        adopt(loaded, asked)
    ledger = require_ledger(loaded.require_generation(), live_of(loaded))
    assert [each.start for each in ledger.entries] == [600]
    # The driver dies between its files and its commit, as a process of its own.
    (tmp_path / "transforms.py").write_text(TRANSFORMS + KILL)
    (tmp_path / "die").touch()
    try:
        with suppress(RunError):
            start_live(loaded)
        assert not (tmp_path / "die").exists(), "it was killed"
        case.produce(range(900, 1000))
        start_live(loaded)
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopping.stop(loaded)
    case.require_exact()


def _die() -> None:
    raise KeyboardInterrupt


KILL = """
import os, signal
from pathlib import Path
from spark_jobs.inside.sink.appending import append_once
commit_once = append_once.commit_once

def die_or_commit(*args):
    mark = Path(__file__).with_name("die")
    if mark.exists():
        mark.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    commit_once(*args)

append_once.commit_once = die_or_commit
"""


@pytest.fixture
def case(tmp_path: Path, servers: str) -> AdoptCase:
    """A table of 100 rows, at version 1, and their records."""
    made = AdoptCase(tmp_path, servers)
    made.write_table(range(50))
    made.write_table(range(50, 100))
    made.produce(range(100))
    return made


def at(offset: int, version: int | None = None) -> Asked:
    return Asked({"": {0: offset}}, version=version)


WHOLE = at(100)


def test_what_the_declaration_can_not_have_made_is_refused_by_name(
    case: AdoptCase, analysis: dict[str, Any]
) -> None:
    loaded = case.pipeline(only_topic)

    def refused(told: str, asked: Asked = WHOLE, **found: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in found.items():
                patch.setitem(analysis, name, value)
            with pytest.raises(HybridError, match=told):
                adopt(loaded, asked)
        assert not (case.folder / "state").exists()

    refused("keeps windows. A table has rows, not this state", stateful=["windows"])
    refused("keeps state is unknown", columns=None)
    refused("v: double in the table, string returned", columns={**COLUMNS, "v": "string"})
    refused("extra: missing in the table", columns={**COLUMNS, "extra": "string"})
    refused("start offset 101 is beyond the log end 100", at(101))
    refused("there is no topic .* partition 1", Asked({"": {0: 1, 1: 2}}))
    refused("in the future", Asked(time=datetime(2999, 1, 1, tzinfo=UTC)))
    refused("its WRITE changed rows and says no position", COMMITS)
    refused("table .* can't be read at version 7", at(100, 7))
    case.write_table([7])
    refused("has several rows of one key .*: 1 case, such as id 7")
    DeltaTable(str(case.out)).restore(1)
    write_deltalake(str(case.out), rows([-40_000_000]), mode="append")
    refused("rows with a `at` that does not count")
    DeltaTable(str(case.out)).restore(1)
    options = {"partition_by": ["id"]}
    loaded = case.pipeline(both(only_topic, lambda document: document["sink"].update(options)))
    refused("is partitioned by nothing, and `sink.partition_by` declares id")
    loaded = case.pipeline(both(only_topic, lambda document: document["sink"].update(path="no")))
    refused("There is no Delta table")


def test_records_that_kafka_has_deleted_are_refused_or_accepted(
    case: AdoptCase, analysis: dict[str, Any]
) -> None:
    admin = AdminClient({"bootstrap.servers": case.servers})
    for answer in admin.delete_records([TopicPartition(case.topic, 0, 60)]).values():
        answer.result()
    loaded = case.pipeline(only_topic)
    told = "It ends before offset 50 of topic .*, and the log starts at 60"
    with pytest.raises(SeamError, match=told):
        look(loaded, at(50))
    early = Asked(time=moment(50))
    with pytest.raises(SeamError, match="whether records from then on are missing is not known"):
        look(loaded, early)
    assert look(loaded, Asked(time=moment(80))).offsets == {case.topic: {0: 80}}
    assert look(loaded, Asked(time=moment(5000))).offsets == {case.topic: {0: 100}}
    accepting = case.pipeline(
        both(only_topic, lambda document: document["sources"][0].update(on_gap="accept"))
    )
    assert look(accepting, at(50)).offsets == {case.topic: {0: 60}}


def test_an_older_version_is_adopted_by_undoing_the_later_ones_in_one_commit(
    case: AdoptCase, spark: SparkSession, analysis: dict[str, Any]
) -> None:
    loaded = case.pipeline(only_topic)
    assert "up to 1, are undone" in adopt(loaded, at(50, 0)).text.replace("were", "are")
    table = DeltaTable(str(case.out))
    assert (table.version(), table.to_pyarrow_table().num_rows) == (2, 50)
    go_on(spark, loaded)
    case.require_exact()


def test_a_commit_of_others_in_between_is_seen(
    case: AdoptCase, analysis: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = case.pipeline(only_topic)

    def late(*args: Any) -> Any:
        case.write_table([200])
        return verified_record(*args)

    monkeypatch.setattr("hybrid_extensions.adopt.run.verified_record", late)
    with pytest.raises(StateError, match="Another writer has committed to the table") as refused:
        adopt(loaded, at(100))
    assert f"move the state folder {loaded.state} away" in refused.value.hint
    assert "generation finish" not in refused.value.hint
    assert DeltaTable(str(case.out)).metadata().configuration == {}
    with pytest.raises(StateError, match="the table has changed since"):
        adopt(loaded, at(100))


@pytest.mark.analysis
def test_the_transform_is_analyzed_before_anything_is_adopted(case: AdoptCase) -> None:
    loaded = case.pipeline(both(only_topic, windows))
    with pytest.raises(StateError, match="A table has rows, not this state"):
        look(loaded, at(100))
    assert look(case.pipeline(only_topic), at(100)).rows == 100
