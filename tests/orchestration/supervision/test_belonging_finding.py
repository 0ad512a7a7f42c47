"""A pipeline whose checkpoint, state and target don't belong together is red, running or not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from orchestration.operations import bounded_run, live_run
from orchestration.supervision.status import status
from orchestration.supervision.supervisor import tick
from sources.common.times import now_ms
from sources.errors import StateError
from sources.planning.context import PipelineContext
from spark_jobs.run_state.requested_state import RequestedState, request, write_requested
from tests.command_line import invoke
from tests.orchestration.supervision.live_case import sensor_of
from tests.spark_jobs.table.target_case import TargetCase


def delete_target(case: TargetCase) -> None:
    shutil.rmtree(case.out)


def delete_checkpoint(case: TargetCase) -> None:
    shutil.rmtree(case.checkpoint)


def restore_state(case: TargetCase) -> None:
    case.put_back(case.folder / "yesterday", case.generation.root / "checkpoint")


def restore_target(case: TargetCase) -> None:
    DeltaTable(case.out).restore(2, protocol_downgrade_allowed=True)


def replace_target(case: TargetCase) -> None:
    shutil.rmtree(case.out)
    DeltaTable.create(case.out, DeltaTable(case.folder / "other").schema())


CASES: dict[str, Callable[[TargetCase], None]] = {
    "target deleted": delete_target,
    "checkpoint deleted": delete_checkpoint,
    "checkpoint restored": restore_state,
    "RESTORE": restore_target,
    "rows of others": TargetCase.foreign_rows,
    "target replaced": replace_target,
}


@contextmanager
def running(case: TargetCase) -> Iterator[None]:
    case.ask_for_it()
    case.launch("a")
    with case.alive():
        yield


@contextmanager
def stopped(case: TargetCase) -> Iterator[None]:
    case.ask_for_it()
    case.launch("a", state="stopped")
    request(case.generation, "inbox", is_requested=False)
    yield


@contextmanager
def paused(case: TargetCase) -> Iterator[None]:
    case.ask_for_it()
    case.launch("a", state="stopped")
    paused = RequestedState(
        source="inbox", is_requested=False, is_paused=True, why="brokers", at_ms=now_ms()
    )
    write_requested(case.generation, paused)
    yield


@pytest.fixture
def case(tmp_path: Path) -> TargetCase:
    made = TargetCase(tmp_path)
    (tmp_path / "inbox").mkdir()
    TargetCase(_folder(tmp_path / "made")).run(0)
    shutil.copytree(tmp_path / "made" / "out", tmp_path / "other")
    made.run(0, 1)
    made.copy(made.checkpoint, "yesterday")
    made.batches(2, 3)
    return made


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def alive_check(case: TargetCase) -> dg.AssetCheckEvaluation:
    """The check as Dagster's sensor reports it."""
    with dg.DagsterInstance.ephemeral() as instance:
        found = sensor_of(case.loaded)(dg.build_sensor_context(instance=instance))
    assert isinstance(found, dg.SensorResult)
    [check] = [
        event
        for event in found.asset_events
        if isinstance(event, dg.AssetCheckEvaluation) and event.check_name == "alive"
    ]
    return check


@pytest.mark.parametrize("state", [running, stopped, paused])
@pytest.mark.parametrize("name", CASES)
def test_whatever_was_taken_apart_is_red_in_status_supervision_and_dagster(
    case: TargetCase, name: str, state: Callable[[TargetCase], Iterator[None]]
) -> None:
    with state(case):  # type: ignore[attr-defined]
        before = status(case.loaded)
        assert before.live is not None
        assert (before.healthy, before.refused, before.live.is_red) == (True, None, False)
        CASES[name](case)
        found = status(case.loaded)
        assert found.live is not None
        assert found.refused is not None
        assert (found.healthy, found.live.health) == (False, "failed")
        assert found.live.reason == str(found.refused)
        looked = tick(case.loaded)
        assert looked is not None
        assert (looked.verdict.health, looked.restart) == ("failed", None)
        check = alive_check(case)
        assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
        assert found.refused.message in (check.description or "")
        result = invoke(["status", str(case.path), "--json"])
        assert result.exit_code == 1
        assert json.loads(result.stdout)["live"]["failure"]["kind"] == "state"


@pytest.mark.parametrize("name", CASES)
def test_a_launch_is_refused_before_a_process_starts(case: TargetCase, name: str) -> None:
    CASES[name](case)
    context = PipelineContext.require(case.loaded)
    history, inbox = case.loaded.pipeline.sources
    with pytest.raises(StateError):
        bounded_run.run_bounded(context, history)
    with pytest.raises(StateError):
        live_run.go_live(context, inbox)
    with pytest.raises(StateError):
        live_run.resume(context, inbox)
    assert not case.generation.path("run/launch.json").exists()


def test_a_deleted_request_is_not_taken_for_a_run_that_nobody_wanted(case: TargetCase) -> None:
    case.ask_for_it()
    case.start()
    case.generation.path("run/requested.json").unlink()
    with pytest.raises(StateError, match=r"lacks .*requested\.json"):
        status(case.loaded)
    with pytest.raises(StateError, match=r"lacks .*requested\.json"):
        tick(case.loaded)


def test_changes_of_others_are_accepted_by_name_and_once(case: TargetCase) -> None:
    case.foreign_rows()
    case.table.delete("id = 0")
    version = case.table.version()

    def call(by: str) -> tuple[int, dict[str, list[dict[str, object]]]]:
        result = invoke(["accept", str(case.path), "--by", by, "--json"])
        return result.exit_code, json.loads(result.stdout)

    assert call(" ")[0] == 2
    with case.alive():
        assert call("Ada")[0] == 2
    code, answer = call("Ada")
    assert code == 0
    said = [(each["version"], each["operation"], each["by"]) for each in answer["accepted"]]
    assert said == [(version - 1, "WRITE", "Ada"), (version, "DELETE", "Ada")]
    assert status(case.loaded).healthy
    assert call("Ada") == (0, {"ok": True, "accepted": []})
    case.run(4)
    assert status(case.loaded).healthy


def test_a_restore_is_never_accepted(case: TargetCase) -> None:
    restore_target(case)
    result = invoke(["accept", str(case.path), "--by", "Ada", "--json"])
    assert result.exit_code == 2
    assert "RESTORE to version 2" in json.loads(result.stdout)["message"]
    assert not status(case.loaded).healthy
