"""The action REPORT of the control job: its page is reached from the table's page."""

from __future__ import annotations

import re
from pathlib import Path

import dagster as dg
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import EmptyWorkspaceTarget
from dagster_webserver.app import create_app_from_workspace_process_context
from starlette.testclient import TestClient

from orchestration.pipeline_definitions import pipeline_definitions
from tests.hybrid_extensions.report.page_case import ReportPage
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.supervision.live_case import LiveCase

TABLE = dg.AssetKey(["events", "table"])


def act(
    case: GenerationCase | LiveCase, instance: dg.DagsterInstance, **action: dict[str, str]
) -> dg.ExecuteInProcessResult:
    job = pipeline_definitions(case.loaded).resolve_job_def("events_control")
    form = {"ops": {"do_events_control": {"config": {"action": action}}}}
    done = job.execute_in_process(form, instance=instance)
    assert done.success
    return done


def test_the_page_of_the_table_links_to_the_report_which_the_web_server_hands_out(
    tmp_path: Path,
) -> None:
    case = GenerationCase(tmp_path)
    case.run({1: 10})
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:
        run = instance.get_run_by_id(act(case, instance, report={}).run_id)
        assert run is not None
        # As the runs of the other actions on a generation have it.
        assert run.tags["hybrid/generation"] == "g1"
        [record] = instance.fetch_observations(TABLE, limit=1).records
        observed = record.event_log_entry.asset_observation
        assert observed is not None
        told = str(observed.metadata["report"].value)
        kept = tmp_path / "state" / "events" / "report.html"
        assert f"open `{kept}`" in told
        link = re.match(r"\[Download\]\((/\S+)\)", told)
        assert link is not None
        with WorkspaceProcessContext(instance, EmptyWorkspaceTarget()) as context:
            app = create_app_from_workspace_process_context(context)
            found = TestClient(app).get(link[1])
        assert (found.status_code, found.text) == (200, kept.read_text())
        assert "g1" in ReportPage(found.text).sections["generations"]


def test_later_events_of_the_table_keep_the_link(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.run({1: 10})
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:
        act(case, instance, report={})
        job = pipeline_definitions(case.loaded).resolve_job_def("events")
        assert job.execute_in_process(instance=instance, asset_selection=[TABLE]).success
        [record] = instance.fetch_materializations(TABLE, limit=1).records
        made = record.asset_materialization
        assert made is not None
        assert "/logs/hybrid/events/report/html" in str(made.metadata["report"].value)
        assert "REPORT: " in str(made.metadata["last action"].value)


def test_the_page_of_the_table_has_the_link_once_the_action_has_ended(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.plan_history()
    case.ask_for_it()
    case.launch("a")
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance, case.alive():
        act(case, instance, report={})
        # The overview of an asset shows its last materialization, and no observation.
        [record] = instance.fetch_materializations(TABLE, limit=1).records
        made = record.asset_materialization
        assert made is not None
        assert "/logs/hybrid/events/report/html" in str(made.metadata["report"].value)
        assert "REPORT: " in str(made.metadata["last action"].value)
