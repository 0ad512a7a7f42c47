"""The verdict of the last audit: red in Dagster and status until another one, or accepted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
import yaml

from hybrid_extensions.audit.acceptance import accept_audit
from hybrid_extensions.audit.audit_check import audit_again, audit_evaluation, audited_check
from hybrid_extensions.comparison import audit_metadata
from hybrid_extensions.comparison.keeping_audits import keep_audit
from hybrid_extensions.comparison.last_evaluation import last_evaluation
from orchestration.comparison.installed_audit import AUDITED
from orchestration.comparison.kept_audit import AUDIT, read_audit
from orchestration.defs.assets.table import kept_action
from orchestration.defs.jobs.control_job import control_job
from orchestration.defs.keys import table_key
from orchestration.pipeline_definitions import pipeline_definitions
from orchestration.supervision.card import card
from orchestration.supervision.status import status_of
from sources.errors import InputError
from sources.generations import acting_on, begin
from sources.kept_definitions import keep_definition
from sources.state.action_log import read_actions
from sources.state.generation import read_generation
from spark_jobs.run_state.driver_lock import QueryLock
from tests.command_line import invoke
from tests.hybrid_extensions.audit.audit_case import SCHEMA, Case, row
from tests.hybrid_extensions.generations.test_generation_jobs import check_of, run
from tests.hybrid_extensions.generations.test_generations import two
from tests.orchestration.defs.test_sensors import checks, look
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.supervision.live_case import LiveCase

ROWS = [row(1), row(2), row(3)]


def audited(folder: Path, found: list[dict[str, Any]]) -> Any:
    """An audit of a table that holds these rows in place of :data:`ROWS`."""
    folder.mkdir()
    case = Case(folder)
    case.history(ROWS)
    case.late([])
    case.target(found)
    return case.audit(audit=case.sql("SELECT * FROM history"))


@pytest.fixture
def live(tmp_path: Path) -> LiveCase:
    """A pipeline whose live run is well, and that was never audited."""
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    return case


def test_a_failed_audit_turns_status_and_check_red_until_another_one_passes(
    live: LiveCase, tmp_path: Path
) -> None:
    wrong, right = audited(tmp_path / "wrong", ROWS[:1]), audited(tmp_path / "right", ROWS)
    with live.alive():
        never = look(live)
        assert AUDITED not in checks(never)
        assert (status_of(live.loaded).healthy, status_of(live.loaded).audit) == (True, None)
        keep_audit(live.loaded, wrong)
        failed = look(live, never.cursor)
        assert checks(failed)[AUDITED] == (False, "ERROR")
        assert checks(failed)["healthy"] == (False, "ERROR")
        [event] = [
            each
            for each in failed.asset_events
            if isinstance(each, dg.AssetCheckEvaluation) and each.check_name == AUDITED
        ]
        assert "2 missing. Audited" in str(event.description)
        assert event.metadata["missing"].value == 2
        found = status_of(live.loaded)
        assert (found.healthy, found.own_healthy) == (False, True)
        shown_card = card(live.loaded, found, None)
        assert shown_card.headline == "Audit failed"
        assert shown_card.markdown.count("2 missing. Audited") == 1
        shown = invoke(["status", str(live.path)])
        assert (shown.exit_code, "2 missing" in " ".join(shown.output.split())) == (1, True)
        keep_audit(live.loaded, right)
        passed = look(live, failed.cursor)
        assert (checks(passed)[AUDITED][0], checks(passed)["healthy"][0]) == (True, True)
        # Pages show the last materialization: one of before would go on to tell of the failure.
        [page] = [e for e in passed.asset_events if isinstance(e, dg.AssetMaterialization)][-1:]
        assert "The table is right" in str(page.metadata["now"].value)
        assert status_of(live.loaded).healthy


def test_a_candidate_that_is_wrong_is_to_be_computed_again_and_not_to_be_continued(
    live: LiveCase, tmp_path: Path
) -> None:
    serving = live.generation
    keep_definition(live.loaded, serving)
    (serving.checkpoint.root / "offsets").mkdir(parents=True)
    (serving.checkpoint.root / "offsets" / "0").write_text("v1")
    live.generation = candidate = begin(live.loaded)
    live.ask_for_it()
    live.launch("b")
    keep_audit(acting_on(live.loaded, candidate.name), audited(tmp_path / "wrong", ROWS[:1]))
    with live.alive(), QueryLock(serving):
        shown = card(live.loaded, status_of(live.loaded), None)
    assert shown.headline == "Candidate wrong"
    told = " ".join(shown.markdown.split())
    assert "`hybrid generation discard P`, then `hybrid rerun P`" in told
    assert "To continue it" not in told
    assert "2 missing" in told


def test_the_verdict_on_one_generation_is_not_shown_of_the_next_one(tmp_path: Path) -> None:
    right = audited(tmp_path / "right", ROWS)
    (tmp_path / "pipeline").mkdir()
    case = GenerationCase(tmp_path / "pipeline")
    case.run({1: 10})
    with dg.DagsterInstance.ephemeral() as instance:
        assert audit_again(instance, case.loaded) is None
        keep_audit(case.loaded, right)
        kept = audit_again(instance, case.loaded)
        assert kept is not None
        assert kept.passed
        instance.report_runless_asset_event(kept)
        assert run(case, instance, "NEW").success
        case.run({1: 11})
        assert run(case, instance, "PROMOTE").success
        never = "g2, which serves now, was never audited. Launch the job `events_control` with"
        assert check_of(instance, AUDITED).startswith(never)
        assert f"hybrid audit {case.loaded.path}`." in check_of(instance, AUDITED)
        assert run(case, instance, "ROLLBACK").success
        assert check_of(instance, AUDITED).startswith("The table is right")


def test_a_person_accepts_a_failed_audit_for_a_reason_which_is_logged(
    live: LiveCase, tmp_path: Path
) -> None:
    command = ["audit", str(live.path), "--by", "anna", "--accept"]
    nothing = invoke([*command, "known"])
    assert (nothing.exit_code, "there is none" in nothing.output) == (2, True)
    keep_audit(live.loaded, audited(tmp_path / "right", ROWS))
    with pytest.raises(InputError, match="Only a failed audit can be accepted"):
        accept_audit(live.loaded, "known", "anna")
    keep_audit(live.loaded, audited(tmp_path / "wrong", ROWS[:1]))
    with pytest.raises(InputError, match="for a reason"):
        accept_audit(live.loaded, " ", "anna")
    with live.alive():
        failed = look(live)
        done = invoke([*command, "the source was corrected", "--json"])
        assert (done.exit_code, json.loads(done.output)["ok"]) == (0, True)
        after = look(live, failed.cursor)
    assert checks(after)[AUDITED] == (False, "WARN")
    assert checks(after)["healthy"][0] is True
    kept = read_audit(live.generation)
    assert kept is not None
    assert kept.text.endswith("by anna: the source was corrected")
    [action] = read_actions(live.loaded.state, last=1)
    assert (action.action, action.by, action.outcome) == ("accept audit", "anna", "done")


def test_lists_of_runs_say_that_an_audit_could_not_check_all(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.history(ROWS)
    case.late([])
    # Without `audit.sql`, a column that the transform adds is not compared.
    schema = SCHEMA.append(pa.field("added", pa.int64()))
    case.target([{**each, "added": 1} for each in ROWS], schema)
    (tmp_path / "flights.py").write_text("def events(rows):\n    return rows\n")
    loaded = case.loaded()
    document = loaded.pipeline.model_dump(mode="json", exclude_unset=True, by_alias=True)
    loaded.path.write_text(yaml.safe_dump(document))
    assert loaded.open_generation(create=True) is not None
    form: dict[str, Any] = {"ops": {"do_flights_control": {"config": {"action": {"audit": {}}}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        done = control_job(loaded).execute_in_process(form, instance=instance)
        run = instance.get_run_by_id(done.run_id)
    assert run is not None
    assert (done.success, run.tags["hybrid/result"]) == (True, "not all checked")


def test_the_examples_of_a_failed_audit_stay_with_its_verdict_until_the_next_audit(
    tmp_path: Path,
) -> None:
    case = Case(tmp_path)
    case.history(ROWS)
    case.late([])
    case.target(ROWS[:1])
    (tmp_path / "flights.py").write_text("def events(rows):\n    return rows\n")
    loaded = case.loaded(audit=case.sql("SELECT * FROM history"))
    document = loaded.pipeline.model_dump(mode="json", exclude_unset=True, by_alias=True)
    loaded.path.write_text(yaml.safe_dump(document))
    generation = loaded.open_generation(create=True)
    assert generation is not None
    with dg.DagsterInstance.ephemeral() as instance:
        form = {"ops": {"do_flights_control": {"config": {"action": "AUDIT"}}}}
        done = control_job(loaded).execute_in_process(form, instance=instance, raise_on_error=False)
        assert not done.success
        [table] = [
            key
            for key in pipeline_definitions(loaded).resolve_asset_graph().get_all_asset_keys()
            if key.path[-1] == "table"
        ]
        key = dg.AssetCheckKey(table, AUDITED)
        last = last_evaluation(instance, key)
        assert last is not None
        assert (last.found.passed, last.found.severity) == (False, dg.AssetCheckSeverity.ERROR)
        assert "2 missing" in str(last.found.description)
        assert kinds_of_examples(last.found) == ["missing", "missing"]
        kept = read_audit(generation)
        assert kept is not None
        # As the supervision reports the verdict again, and as somebody runs the check.
        again = audit_again(instance, loaded)
        assert again is not None
        assert again == last.found
        instance.report_runless_asset_event(again)
        by_hand = dg.Definitions(assets=[dg.AssetSpec(table)], asset_checks=[audited_check(loaded)])
        job = by_hand.resolve_implicit_global_asset_job_def()
        [checked] = job.execute_in_process(instance=instance).get_asset_check_evaluations()
        assert checked.metadata == last.found.metadata
        accept_audit(loaded, "known", "anna")
        accepted = audit_again(instance, loaded)
        assert accepted is not None
        assert "by anna: known" in str(accepted.description)
        assert kinds_of_examples(accepted) == ["missing", "missing"]
        # Those of one audit are none of the next.
        generation.replace(AUDIT, kept.model_copy(update={"at_ms": kept.at_ms + 1000}))
        other = audit_again(instance, loaded)
        assert other is not None
        assert "examples" not in other.metadata


def kinds_of_examples(found: dg.AssetCheckEvaluation) -> list[object]:
    examples = found.metadata["examples"]
    assert isinstance(examples, dg.TableMetadataValue)
    return [each.data["kind"] for each in examples.records]


def test_a_failed_audit_of_a_candidate_sends_nobody_to_the_check_of_what_readers_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = audited(tmp_path / "wrong", ROWS[:1])
    monkeypatch.setattr("hybrid_extensions.audit.dagster.audit", lambda _: wrong)
    (tmp_path / "pipeline").mkdir()
    case = GenerationCase(tmp_path / "pipeline")
    case.run({1: 10})
    begin(case.loaded)
    case.run({1: 11})
    told = {}
    with dg.DagsterInstance.ephemeral() as instance:
        for name in ("g1", "g2"):
            form = {"action": {"audit": {"generation": name}}}
            done = control_job(case.loaded).execute_in_process(
                {"ops": {"do_events_control": {"config": form}}},
                instance=instance,
                raise_on_error=False,
            )
            [failed] = [each for each in done.all_events if each.is_step_failure]
            told[name] = str(failed.step_failure_data.error_display_string)
    assert "The check `audited` has examples" in told["g1"]
    assert "The check `audited` has examples" not in told["g2"]
    assert "change the audit's query in the same way" in told["g2"]
    assert "the job `events_generation` with the action COMPARE" in told["g2"]


def test_a_candidates_failed_audit_has_its_examples_and_is_accepted_in_the_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = audited(tmp_path / "wrong", ROWS[:1])
    monkeypatch.setattr("hybrid_extensions.audit.dagster.audit", lambda _: wrong)
    (tmp_path / "pipeline").mkdir()
    case = GenerationCase(tmp_path / "pipeline")
    case.run({1: 10})
    begin(case.loaded)
    case.run({1: 11})
    with dg.DagsterInstance.ephemeral() as instance:

        def act(action: dict[str, Any]) -> dg.ExecuteInProcessResult:
            form = {"ops": {"do_events_control": {"config": {"action": action}}}}
            return control_job(case.loaded).execute_in_process(
                form, instance=instance, raise_on_error=False
            )

        failed = act({"audit": {"generation": "g2"}})
        [seen] = instance.fetch_observations(table_key(case.loaded), limit=1).records
        assert seen.asset_observation is not None
        shown = seen.asset_observation.metadata["examples"]
        assert isinstance(shown, dg.TableMetadataValue)
        assert [each.data["kind"] for each in shown.records] == ["missing", "missing"]
        [error] = [each for each in failed.all_events if each.is_step_failure]
        assert "ACCEPT_AUDIT" in str(error.step_failure_data.error_display_string)
        named = {"generation": "g2", "by": "anna"}
        assert not act({"accept_audit": named}).success
        assert act({"accept_audit": {**named, "why": "the source was corrected"}}).success
    candidate = read_generation(case.loaded.state, "g2")
    kept = read_audit(candidate)
    assert kept is not None
    assert kept.text.endswith("by anna: the source was corrected")


def test_the_check_and_the_pages_last_action_do_not_pass_off_a_candidates_audit_as_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = audited(tmp_path / "wrong", ROWS[:1])
    monkeypatch.setattr("hybrid_extensions.audit.dagster.audit", lambda _: wrong)
    (tmp_path / "pipeline").mkdir()
    case = two(tmp_path / "pipeline")
    key = dg.AssetCheckKey(table_key(case.loaded), AUDITED)
    with dg.DagsterInstance.ephemeral() as instance:

        def told(action: dict[str, Any]) -> str:
            form = {"ops": {"do_events_control": {"config": {"action": action}}}}
            control_job(case.loaded).execute_in_process(
                form, instance=instance, raise_on_error=False
            )
            shown = kept_action(instance, case.loaded)
            return str(next(iter(shown.values())).value)

        of_candidate = "g2, which readers do not see: The table differs"
        assert of_candidate in told({"audit": {"generation": "g2"}})
        assert last_evaluation(instance, key) is None
        # By the log of actions, if a second has passed since the audit.
        accepted = told({"accept_audit": {"generation": "g2", "why": "by decision"}})
        assert of_candidate in accepted or accepted.startswith("accept audit of g2")
        assert "AUDIT: The table differs" in told({"audit": {"generation": "g1"}})
        evaluated = last_evaluation(instance, key)
        assert evaluated is not None
        assert not evaluated.found.passed


def test_a_table_that_is_wrong_is_told_with_the_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = audited(tmp_path / "wrong", ROWS[:1])
    monkeypatch.setattr("hybrid_extensions.audit.dagster.audit", lambda _: wrong)
    (tmp_path / "pipeline").mkdir()
    case = two(tmp_path / "pipeline")
    job, anew = "the job `events_generation` with the action", "RERUN computes it anew"
    back = f"{job} ROLLBACK lets readers see g1 again, and {job} {anew}"
    with dg.DagsterInstance.ephemeral() as instance:

        def audit() -> str:
            form: dict[str, Any] = {
                "ops": {"do_events_control": {"config": {"action": {"audit": {}}}}}
            }
            done = control_job(case.loaded).execute_in_process(
                form, instance=instance, raise_on_error=False
            )
            [failed] = [each for each in done.all_events if each.is_step_failure]
            return str(failed.step_failure_data.error_display_string)

        text = audit()
        assert f"If the table is wrong, {job} {anew}" in text
        assert "change the audit's query in the same way" in text
        assert run(case, instance, "PROMOTE").success
        assert back in audit()
        assert back in check_of(instance, AUDITED)
        accept_audit(case.loaded, "by decision", "")
        accepted = audit_again(instance, case.loaded)
    assert accepted is not None
    assert "ROLLBACK" not in str(accepted.description)


def test_what_an_audit_could_not_check_is_told_with_the_job_that_helps(
    tmp_path: Path, live: LiveCase
) -> None:
    note = "The live run goes on. Audit again once nothing waits, or after `hybrid drain P`."
    report = audited(tmp_path / "audited", ROWS)
    kept = keep_audit(live.loaded, replace(report, unchecked=[note]))
    shown = audit_evaluation(live.loaded, kept, report)
    assert "the action DRAIN" in str(shown.description)
    assert "hybrid drain" not in str(shown.description)
    notes = audit_metadata.audited(kept, live.loaded)["notes"]
    assert "the action DRAIN" in str(notes)
