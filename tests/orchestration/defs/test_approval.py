"""A plan that waits for a person: nothing starts before they approve it, whoever asks."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from orchestration.defs.assets.chain_assets import pipeline_assets
from orchestration.defs.jobs.control_job import control_job
from orchestration.defs.keys import plan_key
from orchestration.operations import bounded_run, chain_plan, live_run
from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, StateError
from sources.hand_over import hand_over
from sources.planning.approval import approve, find_approval
from sources.planning.context import PipelineContext
from sources.planning.plan import Plan
from tests.command_line import invoke
from tests.e2e.case import Case
from tests.orchestration.latest_check import latest_check
from tests.orchestration.supervision.live_case import LiveCase, sensor_of


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedPipeline:
    """A pipeline that waits for an approval, with a file to read."""
    case = LiveCase(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "inbox").mkdir()
    (tmp_path / "in/a.json").write_text('{"id": 1, "at": "2024-01-01T00:00:00Z"}\n')
    document = yaml.safe_load(case.path.read_text())
    case.path.write_text(yaml.safe_dump({**document, "approve": True}))
    return load_pipeline(case.path)


def call(loaded: LoadedPipeline, *arguments: str) -> tuple[int, dict[str, Any]]:
    command, *options = arguments
    result = invoke([command, str(loaded.path), "--json", *options])
    return result.exit_code, json.loads(result.stdout)


def starts(loaded: LoadedPipeline) -> list[Callable[[], object]]:
    """All ways to start a run of a pipeline."""
    # Imported here: it needs pyspark.
    from spark_jobs import job  # noqa: PLC0415

    def by_hand() -> None:
        words = ["--pipeline", str(loaded.path), "--source", "history", "--launch-id", "by-hand"]
        if job.main(words):
            raise StateError("The job ended with another status than 0.", "Read its log.")

    history, inbox = loaded.pipeline.sources
    return [
        lambda: bounded_run.run_bounded(PipelineContext.require(loaded), history),
        lambda: bounded_run.run_bounded(
            PipelineContext.require(loaded), history, rest_requested=True
        ),
        by_hand,
        lambda: live_run.go_live(PipelineContext.require(loaded), inbox),
    ]


def files(loaded: LoadedPipeline) -> set[Path]:
    return {path for path in loaded.folder.rglob("*") if path.name != "launch.lock"}


def test_nothing_starts_before_the_plan_is_approved_whoever_asks(loaded: LoadedPipeline) -> None:
    chain_plan.plan(loaded)
    before = files(loaded)
    for start in starts(loaded):
        with pytest.raises(StateError):
            start()
    assert files(loaded) == before
    with pytest.raises(
        StateError,
        match=r"not approved yet\..*`hybrid approve P --by NAME`",
    ):
        bounded_run.run_bounded(PipelineContext.require(loaded), loaded.pipeline.sources[0])


def test_an_approval_is_kept_with_name_and_time_and_the_first_one_stands(
    loaded: LoadedPipeline,
) -> None:
    chain_plan.plan(loaded)
    status, given = call(loaded, "approve", "--by", " Ada ")
    assert (status, given["by"]) == (0, "Ada")
    again = approve(loaded, "Bob")
    assert (again.by, again.at_ms) == ("Ada", given["at_ms"])
    assert find_approval(loaded.require_generation()) == again


def test_only_those_whom_the_declaration_names_approve_a_plan(loaded: LoadedPipeline) -> None:
    chain_plan.plan(loaded)
    document = yaml.safe_load(loaded.path.read_text())
    loaded.path.write_text(yaml.safe_dump({**document, "approvers": ["Ada", "Grace"]}))
    status, refused = call(loaded, "approve", "--by", "Bob")
    assert status == 2
    assert "`Bob` may not approve a plan of pipeline `events`" in refused["message"]
    assert "Its `approvers` are: Ada, Grace." in refused["message"]
    assert find_approval(loaded.require_generation()) is None
    assert call(loaded, "approve", "--by", " Grace ")[1]["by"] == "Grace"


def test_the_user_of_the_machine_approves_if_no_name_is_given(
    loaded: LoadedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain_plan.plan(loaded)
    monkeypatch.setattr(getpass, "getuser", lambda: "linus")
    assert call(loaded, "approve")[1]["by"] == "linus"


def test_the_status_tells_that_a_plan_waits_and_how_to_approve_it(loaded: LoadedPipeline) -> None:
    assert not call(loaded, "status")[1]["waits_for_approval"]
    chain_plan.plan(loaded)
    assert call(loaded, "status")[1]["waits_for_approval"]
    shown = " ".join(invoke(["status", str(loaded.path)]).stdout.split())
    assert f"hybrid approve {loaded.path} --by NAME`" in shown
    approve(loaded, "Ada")
    assert not call(loaded, "status")[1]["waits_for_approval"]


def test_a_plan_that_is_not_the_approved_one_waits_again(loaded: LoadedPipeline) -> None:
    chain_plan.plan(loaded)
    approve(loaded, "Ada")
    generation = loaded.require_generation()
    made = generation.read("plan.json", Plan)
    assert made is not None
    generation.replace("plan.json", made.model_copy(update={"warnings": ["another one"]}))
    assert find_approval(generation) is None
    with pytest.raises(StateError, match="not approved yet"):
        bounded_run.run_bounded(PipelineContext.require(loaded), loaded.pipeline.sources[0])
    assert approve(loaded, "Bob").by == "Bob"
    assert find_approval(generation) is not None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "no plan of pipeline `events` to approve"),
        (("--by", "  "), "The name of the person"),
    ],
)
def test_what_can_not_be_approved_is_told(
    loaded: LoadedPipeline, options: tuple[str, ...], told: str
) -> None:
    status, answer = call(loaded, "approve", *(options or ("--by", "Ada")))
    assert status == 2
    assert told in answer["message"]


def test_a_pipeline_that_waits_for_nobody_can_not_be_approved(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    with pytest.raises(InputError, match=r"needs no approval\. Declare `approve: true`"):
        approve(case.loaded, "Ada")
    assert "APPROVE" not in str(control_job(case.loaded).description)


@pytest.mark.kafka
def test_no_hand_over_is_made_before_the_approval(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.produce(range(10))

    def alone(document: dict[str, Any]) -> None:
        columns = {"id": "bigint", "at": "timestamp", "v": "double"}
        live = {**document["sources"][1], "schema": columns, "start": "earliest"}
        document.update(sources=[live], approve=True)

    loaded = case.pipeline(alone)
    [live] = loaded.pipeline.sources
    assert isinstance(live, KafkaSource)
    chain_plan.plan(loaded)
    with pytest.raises(StateError, match="not approved yet"):
        hand_over(PipelineContext.require(loaded), live)
    approve(loaded, "Ada")
    assert hand_over(PipelineContext.require(loaded), live).entries[0].start == 0


class Jobs:
    """Dagster's side of one pipeline, as it is in the UI, without its Spark."""

    def __init__(self, loaded: LoadedPipeline, instance: dg.DagsterInstance) -> None:
        self._loaded = loaded
        self._instance = instance
        assets = pipeline_assets(loaded)
        groups = dg.AssetSelection.groups("events")
        plan = dg.AssetSelection.assets(plan_key(loaded))
        self._defs = dg.Definitions(
            assets=assets,
            jobs=[dg.define_asset_job("chain", groups), dg.define_asset_job("plan", plan)],
            executor=dg.in_process_executor,
        )

    def materialize(self, job: str) -> dg.ExecuteInProcessResult:
        found = self._defs.resolve_job_def(job)
        return found.execute_in_process(instance=self._instance, raise_on_error=False)

    def approve(self, **form: str) -> dg.ExecuteInProcessResult:
        config = {"ops": {"do_events_control": {"config": {"action": "APPROVE", **form}}}}
        job = control_job(self._loaded)
        return job.execute_in_process(config, instance=self._instance, raise_on_error=False)

    def check(self) -> tuple[bool, str]:
        """The latest answer of the plan's check, as its page shows it."""
        evaluation = latest_check(self._instance, "plan", "approved")
        return evaluation.passed, evaluation.description or ""


def test_a_run_that_waits_says_so_in_lists_of_runs_until_the_plan_is_approved(
    loaded: LoadedPipeline,
) -> None:
    job = pipeline_definitions(loaded).resolve_job_def("events")
    plan = [plan_key(loaded)]
    with dg.DagsterInstance.ephemeral() as instance:
        first = job.execute_in_process(instance=instance)

        def waits_for() -> str | None:
            run = instance.get_run_by_id(first.run_id)
            return None if run is None else run.tags.get("hybrid/waits_for")

        assert (first.success, waits_for()) == (True, "approval")
        # A preview of the plan waits for nothing.
        preview = job.execute_in_process(instance=instance, asset_selection=plan)
        run = instance.get_run_by_id(preview.run_id)
        assert run is not None
        assert "hybrid/waits_for" not in run.tags
        assert waits_for() == "approval"
        approve(loaded, "Ada")
        assert job.execute_in_process(instance=instance, asset_selection=plan).success
        assert waits_for() == "nothing: approved by Ada"


def healthy(loaded: LoadedPipeline, cursor: str | None) -> tuple[str | None, str | None]:
    """What the sensor says of the table's health at its next look, and what it remembers."""
    with dg.DagsterInstance.ephemeral() as instance:
        found = sensor_of(loaded)(dg.build_sensor_context(instance=instance, cursor=cursor))
    assert isinstance(found, dg.SensorResult)
    told = [
        f"{event.severity.value} {event.description}"
        for event in found.asset_events
        if isinstance(event, dg.AssetCheckEvaluation) and not event.passed
    ]
    return (told[0] if told else None), found.cursor


def test_the_table_is_amber_while_a_plan_waits_also_a_later_one(loaded: LoadedPipeline) -> None:
    chain_plan.plan(loaded)
    told, cursor = healthy(loaded, None)
    assert told is not None
    assert told.startswith("WARN Waiting for approval · open the job `events_control`")
    approve(loaded, "Ada")
    told, cursor = healthy(loaded, cursor)
    assert told is not None
    assert told.startswith("WARN Planned")
    generation = loaded.require_generation()
    made = generation.read("plan.json", Plan)
    assert made is not None
    generation.replace("plan.json", made.model_copy(update={"warnings": ["another one"]}))
    told, _ = healthy(loaded, cursor)
    assert told is not None
    assert told.startswith("WARN Waiting for approval")


def test_in_dagster_the_chain_stops_after_its_plan_until_a_form_approves_it(
    loaded: LoadedPipeline,
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        jobs = Jobs(loaded, instance)
        first = jobs.materialize("chain")
        assert first.success, "to wait is no failure"
        assert first.asset_materializations_for_node("events__plan")
        # No other step began, so that nothing was written.
        begun = {event.step_key for event in first.all_events if event.is_step_start}
        assert begun == {"events__plan"}
        passed, told = jobs.check()
        assert not passed
        assert told.endswith("then approve it: the job `events_control` with the action APPROVE.")
        assert "hybrid" not in told
        refused = jobs.approve()
        assert not refused.success
        [event] = refused.get_step_failure_events()
        assert "The name of the person" in str(event.step_failure_data.user_failure_data)
        assert jobs.approve(by="Ada").success
        passed, told = jobs.check()
        assert passed
        assert told.startswith("Approved by Ada at ")
        checks = jobs.materialize("plan").get_asset_check_evaluations()
        assert [(check.check_name, check.passed) for check in checks] == [("approved", True)]
