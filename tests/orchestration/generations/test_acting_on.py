"""Commands and jobs act on the generation that serves, unless another one is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from orchestration.defs.jobs.control_job import control_job
from orchestration.operations import live_run
from orchestration.pipeline_definitions import pipeline_definitions
from orchestration.supervision import controls
from sources.common.times import now_ms
from sources.config.loader import load_pipeline
from sources.config.source.rate_limit import CurrentRate
from sources.generations import begin
from sources.kept_definitions import keep_definition
from sources.planning.context import PipelineContext
from sources.serving import Served, Serving, declared_generation, read_serving, write_serving
from sources.state.generation import Generation, read_generation
from spark_jobs.launch import run_control
from spark_jobs.run_state.driver_lock import QueryLock
from spark_jobs.run_state.heartbeat import read_heartbeat
from spark_jobs.run_state.requested_state import RequestedState, read_requested, request
from tests.command_line import invoke
from tests.orchestration.supervision.live_case import LiveCase

ROLES = ["candidate", "rolled back"]


@pytest.fixture
def case(tmp_path: Path) -> LiveCase:
    """A pipeline whose g1 serves and follows its folder, while the newest generation is g2."""
    made = LiveCase(tmp_path)
    keep_definition(made.loaded, made.generation)
    (made.generation.checkpoint.root / "offsets").mkdir(parents=True)
    (made.generation.checkpoint.root / "offsets/0").write_text("v1")
    made.ask_for_it()
    begin(made.loaded)
    second = read_generation(made.loaded.state, "g2")
    keep_definition(made.loaded, second)
    return made


def in_role(case: LiveCase, role: str) -> None:
    if role == "rolled back":
        before = [Served(generation="g2", version=1, until_ms=2)]
        known = read_serving(case.loaded)
        write_serving(case.loaded, known, Serving(generation="g1", before=before))


def other(case: LiveCase) -> Generation:
    return read_generation(case.loaded.state, "g2")


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each generation with a run that was ended, in order."""
    found: list[str] = []

    def stop(generation: Generation, _: str) -> bool:
        found.append(generation.name)
        return True

    monkeypatch.setattr(run_control, "stop", stop)
    return found


def call(case: LiveCase, *words: str, status: int = 0) -> dict[str, Any]:
    command, *options = words
    result = invoke([command, str(case.path), "--json", *options])
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def run(case: LiveCase, action: str, **config: Any) -> dg.ExecuteInProcessResult:
    given = {"ops": {"do_events_control": {"config": {"action": action.upper(), **config}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        return control_job(case.loaded).execute_in_process(
            given, instance=instance, raise_on_error=False
        )


def requested(generation: Generation) -> RequestedState:
    found = read_requested(generation)
    assert found is not None
    return found


@pytest.mark.parametrize("role", ROLES)
def test_stop_and_pause_act_on_the_generation_that_serves(
    case: LiveCase, ended: list[str], role: str
) -> None:
    in_role(case, role)
    answer = call(case, "pause", "--why", "brokers")
    assert (answer["generation"], answer["ended"], ended) == ("g1", True, ["g1"])
    assert requested(case.generation).is_paused
    answer = call(case, "stop")
    assert (answer["generation"], answer["stopped"]) == ("g1", ["history", "inbox"])
    assert set(ended) == {"g1"}
    wanted = requested(case.generation)
    assert not (wanted.is_requested)
    assert not (wanted.is_paused)
    assert read_requested(other(case)) is None
    shown = invoke(["stop", str(case.path)]).stdout
    assert "(generation g1, which serves)" in " ".join(shown.split())


def test_another_generation_is_named(case: LiveCase, ended: list[str]) -> None:
    request(other(case), "inbox", is_requested=True)
    assert call(case, "pause", "--generation", "g2")["generation"] == "g2"
    assert call(case, "stop", "--generation", "g2")["generation"] == "g2"
    assert set(ended) == {"g2"}
    assert requested(case.generation).is_requested
    refused = call(case, "stop", "--generation", "g9", status=2)
    assert refused["message"] == "Pipeline `events` has no generation `g9`."
    assert "Name one of g1, g2" in refused["hint"]


def test_a_stop_says_what_still_runs(case: LiveCase) -> None:
    with QueryLock(other(case)):
        assert call(case, "stop")["others_running"] == ["g2"]
        shown = invoke(["stop", str(case.path)]).stdout
    assert "Still running: g2; end it with `--generation g2`" in " ".join(shown.split())


@pytest.mark.parametrize("role", ROLES)
def test_the_jobs_act_on_the_generation_that_serves(
    case: LiveCase, ended: list[str], role: str
) -> None:
    in_role(case, role)
    assert run(case, "pause", why="x").success
    assert run(case, "stop").success
    assert set(ended) == {"g1"}
    assert run(case, "stop", generation="g2").success
    assert ended[-1] == "g2"
    assert not run(case, "stop", generation="g9").success
    assert run(case, "rate", source="inbox", files=7).success
    assert case.generation.read("run/inbox-rate.json", CurrentRate) is not None
    assert other(case).read("run/inbox-rate.json", CurrentRate) is None


@pytest.mark.parametrize("role", ROLES)
def test_rate_drain_resume_and_logs_too(
    case: LiveCase, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    in_role(case, role)
    assert call(case, "rate", "inbox", "--files", "3")["generation"] == "g1"
    assert case.generation.read("run/inbox-rate.json", CurrentRate) is not None
    assert call(case, "rate", "inbox", "--files", "3", "--generation", "g2")["generation"] == "g2"
    case.launch("a")
    case.generation.path("run/inbox.log").write_text("of g1\n")
    assert call(case, "logs")["lines"] == ["of g1"]
    refused = call(case, "logs", "--generation", "g2", status=2)
    assert "No run of generation g2" in refused["message"]

    acted: list[str | None] = []
    monkeypatch.setattr(
        controls, "drain", lambda loaded, *_: acted.append(declared_generation(loaded))
    )
    assert call(case, "drain")["generation"] == "g1"
    assert call(case, "drain", "--generation", "g2")["generation"] == "g2"
    assert run(case, "drain").success

    def go_live(context: PipelineContext, *_: object, **__: object) -> Any:
        acted.append(context.generation.name)
        return _beat(case)

    monkeypatch.setattr(live_run, "go_live", go_live)
    assert call(case, "resume")["generation"] == "g1"
    assert acted == ["g1", "g2", "g1", "g1"]


def _beat(case: LiveCase) -> Any:
    beat = read_heartbeat(case.generation, "inbox")
    assert beat is not None
    return beat


@pytest.mark.parametrize(("form", "name"), [({}, "g1"), ({"generation": "g2"}, "g2")])
def test_the_job_that_resumes_starts_the_generation_that_serves(
    case: LiveCase, monkeypatch: pytest.MonkeyPatch, form: dict[str, str], name: str
) -> None:
    in_role(case, "rolled back")
    case.launch("a")
    acted: list[str] = []

    def go_live(context: PipelineContext, *_: object, **__: object) -> Any:
        acted.append(context.generation.name)
        return _beat(case)

    monkeypatch.setattr(live_run, "go_live", go_live)
    job = pipeline_definitions(case.loaded).resolve_job_def("events_control")
    config = {"ops": {"do_events_control": {"config": {"action": "RESUME", **form}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(config, instance=instance)
    assert done.success
    assert acted == [name]


@pytest.mark.parametrize("role", ROLES)
def test_status_is_of_the_generation_that_serves_and_of_one_that_waits(
    case: LiveCase, role: str
) -> None:
    in_role(case, role)
    case.launch("a", at_ms=now_ms())
    result = invoke(["status", str(case.path), "--json"])
    found = json.loads(result.stdout)
    if role == "candidate":
        assert (found["generation"], found["served_by"]["generation"]) == ("g2", "g1")
    else:
        assert (found["generation"], found["served_by"]) == ("g1", None)
    for name in ("g1", "g2"):
        result = invoke(["status", str(case.path), "--json", "--generation", name])
        found = json.loads(result.stdout)
        assert (found["generation"], found["served_by"]) == (name, None)


@pytest.mark.parametrize(
    ("role", "way"), [("candidate", " --generation g2`"), ("rolled back", None)]
)
def test_status_of_a_paused_generation_offers_no_resume_of_the_one_that_serves(
    case: LiveCase, role: str, way: str | None
) -> None:
    in_role(case, role)
    request(other(case), "inbox", is_requested=False)
    result = invoke(["status", str(case.path), "--json", "--generation", "g2"])
    told = json.loads(result.stdout)["live"]["reason"]
    if way is None:
        assert "resume" not in told
    else:
        assert f"resume {case.path}{way}" in told


def test_a_run_can_be_stopped_after_its_declaration_was_changed(
    case: LiveCase, ended: list[str]
) -> None:
    document = yaml.safe_load(case.path.read_text())
    case.path.write_text(yaml.safe_dump({**document, "allowed_lateness": "1 h"}))
    for name in ("g1", "g2"):
        assert call(case, "stop", "--generation", name)["generation"] == name
    assert sorted(set(ended)) == ["g1", "g2"]
    # To start one is another thing: the file declares the newest generation.
    refused = call(case, "resume", "--generation", "g2", status=2)
    assert "`allowed_lateness` of pipeline `events` changed since" in refused["message"]
    assert load_pipeline(case.path).pipeline.allowed_lateness.total_seconds() == 3600


@pytest.mark.parametrize(
    ("fields", "told"), [({"files": 7_000}, "7,000 files per second."), ({}, "no limit.")]
)
def test_the_log_tells_a_rate_limit_in_words(
    case: LiveCase, fields: dict[str, int], told: str
) -> None:
    form = {"ops": {"do_events_control": {"config": {"action": {"rate": fields}}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        done = control_job(case.loaded).execute_in_process(form, instance=instance)
        lines = [each.user_message for each in instance.all_logs(done.run_id)]
    [line] = [each for each in lines if each.startswith("Rate limit of `inbox`")]
    assert line.endswith(told)
