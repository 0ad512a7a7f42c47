"""Dagster's side of generations: jobs with forms, reruns by the clock, promotions taken up."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pydantic import ValidationError

from hybrid_extensions.generations.comparison.compare_generations import GenerationComparison
from hybrid_extensions.generations.comparison.same_rows import compared, comparison_again
from hybrid_extensions.generations.dagster import generation_actions
from hybrid_extensions.generations.declare import Rerun
from hybrid_extensions.generations.form import GenerationForm
from orchestration.attribution import acting_user
from orchestration.comparison.report import AuditExample
from orchestration.defs.jobs.action_form import read_form
from orchestration.defs.jobs.finish_switch import finish_request
from orchestration.pipeline_definitions import pipeline_definitions
from sources.errors import InputError
from sources.generations import begin, generations
from sources.kept_definitions import changed_since, keep_definition
from sources.serving import Switch, read_serving
from spark_jobs.run_state.table_locks import take_switch_lock
from tests.command_line import invoke
from tests.extensions import needs
from tests.hybrid_extensions.generations.test_generations import NEW, OLD, two
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.latest_check import latest_check
from tests.orchestration.supervision.live_case import DISK_FULL, LiveCase, sensor_of

NIGHTLY = {"name": "nightly", "cron": "0 3 * * *", "timezone": "Europe/Berlin"}


def run(
    case: GenerationCase, instance: dg.DagsterInstance, action: str | None, **fields: Any
) -> dg.ExecuteInProcessResult:
    """Launch the job with its form; without an action, as the form is."""
    form = {} if action is None else {"action": action, **fields}
    config = {"ops": {"do_events_generation": {"config": form}}} if form else {}
    job = pipeline_definitions(case.loaded).resolve_job_def("events_generation")
    return job.execute_in_process(config, instance=instance, raise_on_error=False)


def lines(result: dg.ExecuteInProcessResult, instance: dg.DagsterInstance) -> str:
    return "\n".join(each.user_message for each in instance.all_logs(result.run_id))


def check_of(instance: dg.DagsterInstance, name: str) -> str:
    """Return what the last evaluation of a check of the table says."""
    return str(latest_check(instance, "table", name).description)


def test_each_step_is_an_action_of_one_job_and_what_is_refused_is_told(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.run({1: 10})
    with dg.DagsterInstance.ephemeral() as instance:
        assert run(case, instance, "NEW").success
        case.run({1: 11, 2: 20})
        compared = run(case, instance, None)
        [shown] = [
            event.step_output_data.metadata
            for event in compared.all_events
            if event.event_type_value == "STEP_OUTPUT"
        ]
        assert {name: shown[name].value for name in ("missing", "added", "changed")} == {
            "missing": 0,
            "added": 1,
            "changed": 1,
        }
        line = "g2 against g1: 2 > 1 row, 1 added, 1 changed (`v` in 1)"
        assert f"{line}. To let readers see g2, launch" in lines(compared, instance)
        assert next(iter(shown)) == "comparison"
        assert shown["comparison"].value == line
        assert [*shown][-1] == "next"
        assert "`events_generation` with the action PROMOTE" in str(shown["next"].value)
        assert check_of(instance, "same_rows").startswith(f"{line}; compared ")
        promoted = run(case, instance, "PROMOTE", by="Ada")
        assert promoted.success
        assert "5 of 5" in lines(promoted, instance)
        assert case.seen() == {1: 11, 2: 20}
        settled = f"No candidate waits any more. The last comparison: {line}; compared "
        assert check_of(instance, "same_rows").startswith(settled)
        shown = latest_check(instance, "table", "same_rows").metadata
        assert shown["changed"].value == 1
        assert "next" not in shown, "it would send people to a promotion that is done"
        assert read_serving(case.loaded).by == "Ada"
        tags = instance.get_run_by_id(promoted.run_id)
        assert tags is not None
        assert (tags.tags["hybrid/action"], tags.tags["hybrid/generation"]) == ("PROMOTE", "g2")
        assert run(case, instance, "ROLLBACK").success
        assert case.seen() == {1: 10}
        refused = run(case, instance, "DISCARD")
    assert not refused.success
    assert "has no candidate" in failure_of(refused)


def test_several_pipelines_are_promoted_and_rolled_back_by_one_form_and_one_of_their_approvers(
    tmp_path: Path,
) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    case, other = two(tmp_path / "one"), two(tmp_path / "other", approvers=["Ada"])
    others = {"together_with": ["../other/events.yaml"]}
    with dg.DagsterInstance.ephemeral() as instance:
        refused = run(case, instance, "PROMOTE", by="Bob", **others)
        assert not refused.success
        assert "`Bob` may not promote a generation" in failure_of(refused)
        assert [each.seen() for each in (case, other)] == [OLD, OLD]
        done = run(case, instance, "PROMOTE", by="Ada", **others)
        assert done.success
        assert [each.seen() for each in (case, other)] == [NEW, NEW]
        assert "Readers see generation g2" in lines(done, instance)
        for action, seen in (("ROLLBACK", OLD), ("ROLLBACK", NEW)):
            assert not run(case, instance, action, by="Bob", **others).success
            assert run(case, instance, action, by="Ada", **others).success
            assert [each.seen() for each in (case, other)] == [seen, seen]
        missing = run(case, instance, "ROLLBACK", together_with=["no.yaml"])
        assert str(tmp_path / "one/no.yaml") in failure_of(missing)


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    """The text by which a run has failed."""
    [failure] = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    failed = failure.step_failure_data.user_failure_data
    assert failed is not None
    return str(failed.description)


def test_a_comparison_stays_on_the_page_as_long_as_its_candidate_waits(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.run({1: 10})
    with dg.DagsterInstance.ephemeral() as instance:
        assert run(case, instance, "NEW").success
        case.run({1: 11})
        assert comparison_again(instance, case.loaded) is None
        assert run(case, instance, None).success
        before = check_of(instance, "same_rows")
        kept = comparison_again(instance, case.loaded)
        assert kept is not None
        assert (kept.passed, kept.description) == (False, before)
        assert kept.metadata["changed"].value == 1

        assert run(case, instance, "DISCARD").success
        settled = f"No candidate waits any more. The last comparison: {before}"
        assert check_of(instance, "same_rows") == settled
        # Not evaluated from now on: it passes only for what was compared.
        assert comparison_again(instance, case.loaded) is None
        assert run(case, instance, "NEW").success
        assert case.loaded.require_generation().name == "g3"
        another = comparison_again(instance, case.loaded)
        assert another is not None
        assert (another.passed, another.description) == (
            False,
            "Nothing was compared: g3 was not compared yet.",
        )


def test_by_hand_the_comparison_is_skipped_without_a_candidate_which_is_no_failure(
    tmp_path: Path,
) -> None:
    case = GenerationCase(tmp_path)
    case.run({1: 10})
    check = dg.AssetCheckKey(dg.AssetKey(["events", "table"]), "same_rows")
    job = dg.define_asset_job("by_hand", selection=dg.AssetSelection.checks(check))

    def by_hand() -> dg.ExecuteInProcessResult:
        made = dg.Definitions.merge(pipeline_definitions(case.loaded), dg.Definitions(jobs=[job]))
        return made.resolve_job_def("by_hand").execute_in_process(instance=instance)

    with dg.DagsterInstance.ephemeral() as instance:
        skipped = by_hand()
        assert skipped.success
        assert skipped.get_asset_check_evaluations() == [], "nothing is neither right nor wrong"
        told = "Nothing was compared: there is no candidate. The job `events_generation` begins one"
        assert told in lines(skipped, instance)
        assert run(case, instance, "NEW").success
        case.run({1: 10})
        [compared] = by_hand().get_asset_check_evaluations()
        assert compared.passed
        assert run(case, instance, "DISCARD").success
        settled = f"No candidate waits any more. The last comparison: {compared.description}"
        for _ in range(2):
            [again] = by_hand().get_asset_check_evaluations()
            assert (again.passed, again.description) == (True, settled)


def plan(case: GenerationCase, generation: str | None) -> dg.ExecuteInProcessResult:
    form = {} if generation is None else {"generation": generation}
    job = pipeline_definitions(case.loaded).resolve_job_def("events")
    with dg.DagsterInstance.ephemeral() as instance:
        return job.execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(["events", "plan"])],
            run_config={"ops": {"events__plan": {"config": form}}},
            raise_on_error=False,
        )


def test_a_chain_is_launched_for_the_generation_that_its_form_names(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"id": 1, "at": "2024-01-01T00:00:00Z", "v": 1}\n')
    assert not plan(case, "NEW").success, "the first one needs no beginning"
    case.run({1: 10})
    assert plan(case, None).success
    assert case.loaded.require_generation().name == "g1"
    assert plan(case, "NEW").success
    assert case.loaded.require_generation().name == "g2"
    assert plan(case, "NEW").success, "one that waits is gone on with"
    assert plan(case, "CURRENT").success
    assert [each.name for each in generations(case.loaded)] == ["g1", "g2"]
    with pytest.raises(dg.DagsterInvalidConfigError, match="NEWEST"):
        plan(case, "NEWEST")


def schedule(case: GenerationCase) -> dg.ScheduleDefinition:
    [found, *_] = pipeline_definitions(case.loaded).schedules or []
    assert isinstance(found, dg.ScheduleDefinition)
    return found


def evaluate(case: GenerationCase, instance: dg.DagsterInstance) -> Any:
    context = dg.build_schedule_context(
        instance=instance, scheduled_execution_time=datetime(2024, 5, 1, 1, tzinfo=UTC)
    )
    return schedule(case).evaluate_tick(context)


def test_ticks_that_come_at_once_or_while_one_is_under_way_make_one_rerun(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.write(generations={"reruns": [{**NIGHTLY, "promote": "never", "rows_at_least": 0.5}]})
    found = schedule(case)
    assert (found.name, found.cron_schedule) == ("events_nightly", "0 3 * * *")
    assert found.execution_timezone == "Europe/Berlin"
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:
        # It is on by default: before the first run there is nothing to do, and no red run.
        held = evaluate(case, instance)
        assert not held.run_requests
        assert "before the first run of the job `events`" in held.skip_message
        case.run({1: 10})
        [request] = evaluate(case, instance).run_requests
        form = request.run_config["ops"]["do_events_generation"]["config"]
        assert form == {"action": "RERUN", "promote": "NEVER", "rows_at_least": 0.5}
        job = pipeline_definitions(case.loaded).resolve_job_def("events_generation")
        assert dg.validate_run_config(job, request.run_config)
        other = {"hybrid/action": "COMPARE"}
        instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=other)
        assert evaluate(case, instance).run_requests, "another action of the job is no rerun"
        instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=request.tags)
        held = evaluate(case, instance)
        assert not held.run_requests
        assert "of the same kind has not ended" in held.skip_message


@pytest.mark.parametrize(
    ("by", "promote", "is_rerun"),
    [
        ("Ada", "checks", False),
        ("Ada", "never", True),
        # As in Dagster without a login, where nobody has typed a name.
        ("", "checks", False),
        ("schedule events_nightly", "checks", True),
        # A person is to promote what that one has computed.
        ("schedule events_weekly", "checks", False),
    ],
)
def test_no_tick_promotes_a_candidate_that_a_person_has_begun(
    tmp_path: Path, by: str, promote: str, is_rerun: bool
) -> None:
    case = GenerationCase(tmp_path)
    one = {**NIGHTLY, "rows_at_least": 0.5}
    weekly = {**one, "name": "weekly", "promote": "never"}
    case.write(generations={"reruns": [{**one, "promote": promote}, weekly]})
    case.run({1: 10})
    begin(case.loaded, by)
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:
        tick = evaluate(case, instance)
    assert bool(tick.run_requests) == is_rerun
    if not is_rerun:
        who = by or "somebody without a name"
        assert f"Generation g2, which {who} has begun, is a candidate" in tick.skip_message


def test_the_log_of_actions_names_the_schedule_that_acted() -> None:
    tags = {"dagster/schedule_name": "events_nightly"}
    assert acting_user(tags, None) == "schedule events_nightly"
    assert acting_user({**tags, "user": "ada"}, None) == "ada", "who launched it once more"


@needs("ranges")
def test_by_the_clock_the_last_whole_ranges_of_history_are_made_anew(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    nightly = {**NIGHTLY, "last": 2}
    case.write(ranges={"by": "day", "start": "2024-01-01", "reruns": [nightly]})
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:
        assert "not been read to its end" in evaluate(case, instance).skip_message, "no state yet"
        case.loaded.open_generation(create=True)
        assert "not been read to its end" in evaluate(case, instance).skip_message
        case.run({1: 10}, end=datetime(2024, 1, 4, 23, tzinfo=UTC))
        [request] = evaluate(case, instance).run_requests
        assert request.tags["dagster/asset_partition_range_start"] == "2024-01-02"
        assert request.tags["dagster/asset_partition_range_end"] == "2024-01-03"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cron": "every night"}, "`every night` is not a cron expression"),
        ({"cron": "0 3 * *"}, "`0 3 \\* \\*` is not a cron expression"),
        ({"timezone": "Berlin"}, "`Berlin` is not a time zone"),
        ({"promote": "always"}, "'checks' or 'never'"),
        ({"rows_at_least": -1}, "greater than or equal to 0"),
    ],
)
def test_a_rerun_that_can_not_be_is_refused(change: dict[str, object], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        Rerun.model_validate({**NIGHTLY, **change})


def test_a_cron_that_dagster_does_not_take_is_told_by_name(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.write(generations={"reruns": [{**NIGHTLY, "cron": "0 27 * * *"}]})
    with pytest.raises(InputError, match="Schedule `nightly`: no time fits its `cron`, `0 27"):
        schedule(case)
    done = invoke(["validate", str(case.folder / "events.yaml")])
    assert (done.exit_code, "no time fits its `cron`" in " ".join(done.output.split())) == (0, True)


def test_a_promotion_that_broke_off_is_finished_by_the_supervision(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    switch = {"version": Switch.VERSION, "to": "g2", "past": "g1", "at_ms": 5, "is_rollback": False}
    case.loaded.state.path("switch.json").write_text(json.dumps(switch))
    with dg.DagsterInstance.ephemeral() as instance:
        sensor, context = sensor_of(case.loaded), dg.build_sensor_context(instance=instance)
        found = sensor(context)
        assert isinstance(found, dg.SensorResult)
        [request] = found.run_requests or []
        assert request.job_name == "events_generation"
        form = request.run_config["ops"]["do_events_generation"]["config"]
        assert form == {"action": "FINISH"}
        # What an earlier look found says nothing about a stream that the promotion has stopped.
        told = {
            each.check_name: each.description or ""
            for each in found.asset_events
            if isinstance(each, dg.AssetCheckEvaluation) and not each.passed
        }
        assert set(told) == {"alive", "healthy"}
        assert "The promotion of generation g2 broke off" in told["alive"]
        lock = take_switch_lock(case.loaded.state)
        assert lock is not None
        waits = sensor(context)
        assert isinstance(waits, dg.SkipReason)
        assert "g2 is replacing g1 in the target" in str(waits.skip_message)


def test_the_completion_of_a_promotion_is_requested_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = LiveCase(tmp_path)
    switch = Switch(to="g2", past="g1", at_ms=5, is_rollback=False)
    case.loaded.state.replace("switch.json", switch)
    keys = []
    for at_s in (600, 659, 660):
        monkeypatch.setattr(time, "time", partial(float, at_s))
        request = finish_request(case.loaded, switch)
        assert request is not None
        keys.append(request.run_key)
    assert keys[0] == keys[1] != keys[2]


def test_of_two_live_runs_the_worse_is_shown_and_each_is_started_by_its_own_file(
    tmp_path: Path,
) -> None:
    case = LiveCase(tmp_path)
    keep_definition(case.loaded, case.generation)
    (case.generation.checkpoint.root / "offsets").mkdir(parents=True)
    (case.generation.checkpoint.root / "offsets/0").write_text("v1")
    case.ask_for_it()
    case.launch("a", state="failed", failure=DISK_FULL)
    begin(case.loaded)
    assert read_serving(case.loaded).generation == "g1"
    with dg.DagsterInstance.ephemeral() as instance:
        found = sensor_of(case.loaded)(dg.build_sensor_context(instance=instance))
    assert isinstance(found, dg.SensorResult)
    [request] = found.run_requests or []
    assert request.job_name == "events"
    assert request.tags["hybrid/declaration"] == str(
        case.loaded.state.path("g1/definition/events.yaml")
    )
    [alive] = [
        each
        for each in found.asset_events
        if isinstance(each, dg.AssetCheckEvaluation) and each.check_name == "alive"
    ]
    assert not alive.passed


@pytest.mark.parametrize(
    ("promote", "told"),
    [
        (
            "checks",
            "Readers get it by itself once it has caught up, is healthy and has at least 50",
        ),
        ("never", "It waits for a person, who promotes or discards it."),
    ],
)
def test_a_schedule_says_whether_readers_get_the_new_table_by_itself(
    tmp_path: Path, promote: str, told: str
) -> None:
    case = GenerationCase(tmp_path)
    case.write(generations={"reruns": [{**NIGHTLY, "promote": promote, "rows_at_least": 0.5}]})
    assert told in (schedule(case).description or "")


def asked(case: GenerationCase, form: dict[str, Any]) -> dict[str, Any]:
    """What is done, after Dagster has checked the form and filled in its defaults."""
    job = pipeline_definitions(case.loaded).resolve_job_def("events_generation")
    given = dg.validate_run_config(job, {"ops": {"do_events_generation": {"config": form}}})
    config = given["ops"]["do_events_generation"]["config"]
    return read_form(config, generation_actions(case.loaded), GenerationForm).model_dump()


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ({"compare": {}}, {"action": "COMPARE"}),
        ({"new": {}}, {"action": "NEW"}),
        (
            {"rerun": {"promote": "NEVER", "rows_at_least": 0.5}},
            {"action": "RERUN", "promote": "NEVER", "rows_at_least": 0.5},
        ),
        ({"promote": {"by": "Ada"}}, {"action": "PROMOTE", "by": "Ada"}),
        (
            {"rollback": {"together_with": ["other.yaml"]}},
            {"action": "ROLLBACK", "together_with": ["other.yaml"]},
        ),
    ],
)
def test_an_action_with_its_fields_and_the_text_with_fields_beside_it_ask_for_the_same(
    tmp_path: Path, typed: dict[str, Any], written: dict[str, Any]
) -> None:
    case = GenerationCase(tmp_path)
    assert asked(case, {"action": typed}) == asked(case, written)
    assert asked(case, {})["action"] == "COMPARE", "what changes nothing"


@pytest.mark.parametrize(
    "action",
    [
        {"new": {"promote": "NEVER"}},
        {"rerun": {"promote": "SOMETIMES"}},
        # A name is asked of who decides what serves; the computation of a candidate is no decision.
        *({action: {"by": "Ada"}} for action in ("compare", "new", "rerun", "discard", "abort")),
        {"new": {}, "rerun": {}},
    ],
)
def test_fields_of_other_actions_are_refused_before_the_launch(
    tmp_path: Path, action: dict[str, Any]
) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError):
        asked(GenerationCase(tmp_path), {"action": action})


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"action": "RERUNS"}, "`RERUNS` is not an action"),
        ({"action": "RERUN", "promote": "SOMETIMES"}, "Field `promote` of the launch form"),
        ({"action": "RERUN", "rows": 1}, "Field `rows` of the launch form"),
    ],
)
def test_what_is_written_wrong_beside_a_text_is_refused_by_name(
    tmp_path: Path, form: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        asked(GenerationCase(tmp_path), form)


def asked_rerun(case: GenerationCase, form: dict[str, Any]) -> tuple[str, float]:
    found = asked(case, form)
    return found["promote"], found["rows_at_least"]


def test_a_rerun_by_hand_promotes_as_one_by_the_clock_and_the_command_do(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    assert asked_rerun(case, {"action": {"rerun": {}}}) == ("CHECKS", 0.99)
    assert asked_rerun(case, {"action": "RERUN"}) == ("CHECKS", 0.99)
    assert Rerun.model_validate(NIGHTLY).promote == "checks"


@pytest.mark.parametrize(
    ("changed", "missing", "passes"),
    [([], 0, False), (["events.sql"], 0, True), (["events.sql"], 1, False)],
)
def test_values_that_a_changed_query_makes_pass_and_lost_rows_never_do(
    changed: list[str], missing: int, passes: bool
) -> None:
    found = GenerationComparison(
        pipeline="events",
        serving="g1",
        candidate="g2",
        rows={"g1": 3, "g2": 3 - missing},
        missing=missing,
        added=0,
        changed=2,
        columns_missing=[],
        columns_added=[],
        types_changed={},
        examples={"changed": [AuditExample({"id": 1, "of": "x"}, "v", 4, None)]},
    )
    result = compared(found, changed)
    assert result.passed is passes
    shown = result.metadata["examples"]
    assert isinstance(shown, dg.TableMetadataValue)
    assert shown.records[0].data == {
        "difference": "changed",
        "key": "id=1, of=x",
        "column": "v",
        "g1": "4",
        "g2": "null",
    }
    assert ("events.sql changed since g1" in (result.description or "")) is bool(changed)


def test_only_files_of_the_definition_that_differ_are_named_as_changed(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.run({1: 10})
    keep_definition(case.loaded, case.loaded.require_generation())
    assert changed_since(case.loaded, "g1") == []
    code = tmp_path / "transforms.py"
    code.write_text(f"{code.read_text()}# Another value.\n")
    assert changed_since(case.loaded, "g1") == ["transforms.py"]
