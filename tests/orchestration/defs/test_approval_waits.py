"""A rerun whose plan waits for a person is no failure, and goes on once it is approved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from hybrid_extensions.generations.discards import discard
from orchestration.pipeline_definitions import pipeline_definitions
from sources.generations import begin, is_unread
from sources.planning.approval import approve
from sources.serving import candidate_name, read_serving
from tests.command_line import invoke
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.latest_check import latest_check
from tests.orchestration.supervision.live_case import sensor_of

RERUN = {"action": {"rerun": {"rows_at_least": 0.5}}}


@pytest.fixture
def case(tmp_path: Path) -> GenerationCase:
    """A table that serves, and a declaration by which the next plan waits for an approval."""
    found = GenerationCase(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"id": 1, "at": "2024-01-01T00:00:00Z", "v": 11}\n')
    found.run({1: 10})
    found.write(approve=True)
    return found


def launch(
    case: GenerationCase, instance: dg.DagsterInstance, config: Any = None, tags: Any = None
) -> dg.ExecuteInProcessResult:
    """Launch the job for generations, by default with the form of a rerun."""
    job = pipeline_definitions(case.loaded).resolve_job_def("events_generation")
    config = config or {"ops": {"do_events_generation": {"config": RERUN}}}
    return job.execute_in_process(config, instance=instance, tags=tags, raise_on_error=False)


def tags_of(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> dict[str, str]:
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    return dict(run.tags)


def requests(case: GenerationCase, instance: dg.DagsterInstance) -> list[dg.RunRequest]:
    """What the supervision launches at its next look."""
    found = sensor_of(case.loaded)(dg.build_sensor_context(instance=instance))
    return list(found.run_requests or []) if isinstance(found, dg.SensorResult) else []


def check_of_plan(instance: dg.DagsterInstance) -> str:
    return str(latest_check(instance, "plan", "approved").description)


def test_a_rerun_that_waits_for_an_approval_is_no_failure_and_shows_its_plan(
    case: GenerationCase,
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        first = launch(case, instance)
        assert first.success, "to wait is no failure"
        tags = tags_of(instance, first)
        assert tags["hybrid/waits_for"] == "approval"
        assert tags["hybrid/generation"] == "g2"
        assert check_of_plan(instance).startswith("Waiting for approval.")
        shown = instance.get_latest_materialization_event(dg.AssetKey(["events", "plan"]))
        assert shown is not None
        assert shown.asset_materialization is not None
        assert str(shown.asset_materialization.metadata["generation"].value).startswith("g2, ")
    assert is_unread(case.loaded.require_generation())


def test_a_rerun_says_that_it_goes_on_with_a_candidate_of_before(case: GenerationCase) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        runs = [launch(case, instance).run_id for _ in range(2)]
        told = [[each.user_message for each in instance.all_logs(run)] for run in runs]
    again = [any("g2 was begun earlier and goes on" in text for text in texts) for texts in told]
    assert again == [False, True]


def test_a_rerun_in_a_shell_says_that_it_is_to_be_repeated_after_the_approval(
    case: GenerationCase,
) -> None:
    refused = invoke(["rerun", str(case.loaded.path)])
    assert refused.exit_code == 2
    told = " ".join(refused.output.split())
    path = case.loaded.path
    assert f"hybrid approve {path} --by NAME`. Then repeat `" in told
    assert f"hybrid rerun {path}`: it goes on from there." in told


def test_the_supervision_goes_on_with_a_rerun_by_its_own_form_once_it_is_approved(
    case: GenerationCase,
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        launch(case, instance, tags={"user": "Ada"})
        assert requests(case, instance) == []
        approve(case.loaded, "Grace")
        [after] = requests(case, instance)
        assert after.job_name == "events_generation"
        assert after.run_config == {"ops": {"do_events_generation": {"config": RERUN}}}
        assert after.tags["user"] == "Ada"
        assert after.tags["hybrid/action"] == "RERUN"


def test_a_rerun_whose_generation_was_discarded_does_not_go_on_with_another_one(
    case: GenerationCase,
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        launch(case, instance)
        assert discard(case.loaded) == "g2"
        assert begin(case.loaded).name == "g3"
        plan = pipeline_definitions(case.loaded).resolve_job_def("events")
        assert plan.execute_in_process(
            instance=instance, asset_selection=[dg.AssetKey(["events", "plan"])]
        ).success
        approve(case.loaded, "Grace")
        assert requests(case, instance) == []


def test_a_rerun_whose_candidate_is_discarded_waits_for_nothing(case: GenerationCase) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        first = launch(case, instance)
        action: dict[str, Any] = {"action": {"discard": {}}}
        form = {"ops": {"do_events_generation": {"config": action}}}
        assert launch(case, instance, form).success
        assert tags_of(instance, first)["hybrid/waits_for"] == "nothing: g2 was discarded"


def test_a_run_from_the_graph_of_assets_goes_on_after_its_approval_too(
    case: GenerationCase,
) -> None:
    begin(case.loaded)
    job = pipeline_definitions(case.loaded).resolve_implicit_global_asset_job_def()
    steps = [dg.AssetKey(["events", step]) for step in ("plan", "history")]
    with dg.DagsterInstance.ephemeral() as instance:
        first = job.execute_in_process(instance=instance, asset_selection=steps)
        assert tags_of(instance, first)["hybrid/waits_for"] == "approval"
        approve(case.loaded, "Grace")
        [after] = requests(case, instance)
        assert after.job_name == "events"


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.slow
def test_an_approved_rerun_is_computed_and_promoted_and_nothing_waits_any_more(
    case: GenerationCase,
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        first = launch(case, instance)
        approve(case.loaded, "Grace")
        [after] = requests(case, instance)
        assert launch(case, instance, after.run_config, after.tags).success
        assert tags_of(instance, first)["hybrid/waits_for"] == "nothing: approved by Grace"
        assert check_of_plan(instance).startswith("Approved by Grace")
        assert requests(case, instance) == []
    assert (read_serving(case.loaded).generation, candidate_name(case.loaded)) == ("g2", None)
    assert case.seen() == {1: 11}
