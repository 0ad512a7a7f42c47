"""Dagster's side of supervision: what a look turns into, without a JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from orchestration.defs.keys import live_key, table_key
from orchestration.defs.sensors import has_live_run, live_checks
from orchestration.defs.show import reports
from orchestration.defs.show.reports import Cursor
from orchestration.pipeline_definitions import pipeline_definitions
from orchestration.supervision import controls
from sources.config.loader import load_pipeline
from sources.config.pipeline import Pipeline
from sources.errors import StateError
from sources.planning.plan import Plan
from sources.state.generation import PLAN
from spark_jobs.run_state.late_row_count import LateRows, late_rows_name
from spark_jobs.run_state.requested_state import read_requested
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.supervision.hook import listening
from tests.orchestration.supervision.live_case import DISK_FULL, LiveCase, sensor_of

KEY = dg.AssetKey(["events", "inbox"])


def look(case: LiveCase, cursor: str | None = None) -> dg.SensorResult:
    with dg.DagsterInstance.ephemeral() as instance:
        found = sensor_of(case.loaded)(dg.build_sensor_context(instance=instance, cursor=cursor))
    assert isinstance(found, dg.SensorResult)
    return found


def skipped(case: LiveCase, cursor: str | None) -> str:
    found = look(case, cursor).skip_reason
    assert found is not None
    return str(found.skip_message)


def checks(found: dg.SensorResult) -> dict[str, tuple[bool, str]]:
    return {
        event.check_name: (event.passed, event.severity.value)
        for event in found.asset_events
        if isinstance(event, dg.AssetCheckEvaluation)
    }


def plots(shown: dict[str, Any]) -> dict[str, float]:
    """What Dagster draws over time: entries that are plain numbers."""
    return {name: value for name, value in shown.items() if type(value) in (int, float)}


def observed(found: dg.SensorResult) -> dict[str, Any]:
    events = [
        each
        for each in found.asset_events
        if not isinstance(each, dg.AssetCheckEvaluation) and each.asset_key == KEY
    ]
    return {name: value.value for name, value in events[0].metadata.items()}


def test_what_nobody_asked_for_is_skipped(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    assert look(case).skip_reason is not None


def test_a_run_is_observed_in_numbers_and_its_checks_pass(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch(
        "a",
        batch_id=7,
        rows_per_s=20.5,
        input_rows_per_s=12.5,
        watermark_ms=1_700_000_000_000,
        event_time_ms=1_700_000_000_000,
        bad_records=3,
    )
    case.generation.replace(late_rows_name("inbox"), LateRows(source="inbox", last_batch=7))
    with case.alive():
        found = look(case)
    assert {name: passed for name, (passed, _) in checks(found).items()} == dict.fromkeys(
        ("alive", "lag", "waiting_time", "late_rows", "healthy"), True
    )
    shown = observed(found)
    drawn = plots(shown)
    assert drawn.pop("newest row's age (s)") > 1_000_000
    assert drawn == {
        "records waiting": 0,
        "waiting (s)": 0,
        "rows/s (last micro-batch)": 20.5,
        "late rows": 0,
        "bad records": 3,
    }
    details = shown["details"]
    assert (shown["health"], details["red"], details["batch"]) == ("healthy", False, 7)
    assert not [name for name in details if "per_s" in name], "one figure of speed, one name"
    assert details.keys().isdisjoint({"lag", "waiting_s", "late_rows"}), "shown once"
    assert shown["watermark"] == "14 Nov 2023 22:13:20 UTC"
    assert not found.run_requests


def test_a_dead_run_is_red_and_its_asset_alone_is_materialized_again(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a", state="failed", failure=DISK_FULL)
    found = look(case)
    assert checks(found)["alive"] == (False, "ERROR")
    shown = observed(found)
    told = "disk full. What it committed stays in the table."
    assert (shown["details"]["red"], shown["last error"]) == (True, told)
    assert found.run_requests is not None
    [request] = found.run_requests
    assert (request.asset_selection, request.asset_check_keys) == ([KEY], [])
    assert request.tags == {
        "hybrid/restart": "a",
        "hybrid/declaration": str(case.path),
        "hybrid/generation": "g1",
    }
    case.launch("b", state="failed", failure=DISK_FULL)
    [another] = look(case).run_requests or []
    assert another.run_key != request.run_key


def test_a_restart_that_was_decided_is_asked_for_though_the_look_fails_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a", state="failed", failure=DISK_FULL)

    def damaged(*_: Any) -> None:
        raise StateError("A document is damaged.", "Restore it.")

    monkeypatch.setattr(reports, "reports", damaged)
    found = look(case)
    assert checks(found)["alive"] == (False, "ERROR")
    # It counts, and the next look takes it for under way.
    assert [each.tags["hybrid/restart"] for each in found.run_requests or []] == ["a"]


def test_the_checks_are_reported_with_what_was_judged(tmp_path: Path) -> None:
    case = LiveCase(tmp_path, {"lag": 1})
    case.ask_for_it()
    case.launch("a", splits_done=3, splits_total=5)
    with case.alive():
        found = look(case)
    [lag] = [
        event
        for event in found.asset_events
        if isinstance(event, dg.AssetCheckEvaluation) and event.check_name == "lag"
    ]
    shown = {name: value.value for name, value in lag.metadata.items()}
    assert shown == {"value": 2.0, "limit": 1.0, "unit": "splits"}


def test_a_state_that_is_gone_is_no_pipeline_that_nobody_has_begun(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.run({1: 10})
    plan = Plan(pipeline="events", created_ms=0, files=[], archives=[], topic=None, warnings=[])
    case.loaded.require_generation().replace(PLAN, plan)
    with dg.DagsterInstance.ephemeral() as instance:

        def tick(cursor: str | None) -> dg.SensorResult:
            context = dg.build_sensor_context(instance=instance, cursor=cursor)
            found = sensor(context)
            assert isinstance(found, dg.SensorResult)
            return found

        sensor = sensor_of(case.loaded)
        good = tick(None)
        assert checks(good)["healthy"][0]
        case.write(name="renamed")
        gone = tick(good.cursor)
        assert checks(gone)["healthy"] == (False, "ERROR")
        assert "is gone from" in str(gone.asset_events)
        case.write()
        assert checks(tick(gone.cursor))["healthy"][0]


def test_a_launch_that_comes_up_is_no_failure_and_not_green_but_not_evaluated(
    tmp_path: Path,
) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    starting = look(case)
    assert checks(starting) == {}
    assert observed(starting)["health"] == "starting"
    case.launch("a")
    with case.alive():
        up = look(case, starting.cursor)
    assert checks(up)["alive"][0]
    assert checks(up)["healthy"][0]


def test_a_paused_pipeline_warns_with_since_when_by_whom_what_waits_and_how_to_resume(
    tmp_path: Path,
) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a", splits_done=3, splits_total=5)
    controls.pause(case.loaded, "new brokers", "Ada")
    paused = look(case)
    assert checks(paused)["healthy"] == (False, "WARN")
    [text] = [
        event.description
        for event in paused.asset_events
        if isinstance(event, dg.AssetCheckEvaluation) and event.check_name == "healthy"
    ]
    assert text is not None
    for part in (
        "has been paused since ",
        " UTC by Ada (new brokers). How much input waits is unknown",
        "To resume it, run the job `events_control` with the action RESUME.",
    ):
        assert part in text
    assert "hybrid resume" not in text


def test_once_a_paused_pipeline_is_requested_again_no_check_says_that_it_is_paused(
    tmp_path: Path,
) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a", splits_done=3, splits_total=5)
    controls.pause(case.loaded)
    paused = look(case)
    case.ask_for_it()
    coming = look(case, paused.cursor)
    assert checks(coming).keys() == checks(paused).keys()
    assert {(False, "WARN")} == {checks(coming)[name] for name in ("healthy", "alive")}
    texts = [
        event.description or ""
        for event in coming.asset_events
        if isinstance(event, dg.AssetCheckEvaluation)
    ]
    assert not [text for text in texts if "paused" in text.lower()]
    # Until it has come up that stands: it is not well yet, and no failure.
    assert checks(look(case, coming.cursor)) == {}


def test_reading_history_warns_only_after_a_failure(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    plan = Plan(pipeline="events", created_ms=0, files=[], archives=[], topic=None, warnings=[])
    case.generation.replace("plan.json", plan)
    bounded = {"source": "history", "phase": "bounded", "rows_done": 42, "rows_total": 100}

    def reads(**changes: Any) -> None:
        case.launch("a", **bounded, **changes)
        folder = case.generation.path("run")
        (folder / "inbox-heartbeat.json").replace(folder / "history-heartbeat.json")
        launch = json.loads((folder / "launch.json").read_text())
        (folder / "launch.json").write_text(json.dumps({**launch, "source": "history"}))

    reads()
    with case.alive():
        first = look(case)
    assert checks(first) == {}
    reads(state="failed", failure=DISK_FULL)
    failed = look(case, first.cursor)
    assert checks(failed)["healthy"] == (False, "ERROR")
    reads()
    with case.alive():
        again = look(case, failed.cursor)
    assert checks(again)["healthy"] == (False, "WARN")


def test_the_same_is_not_reported_at_every_look_and_a_change_at_once(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    with case.alive():
        first = look(case)
        assert first.asset_events
        assert "Nothing changed" in skipped(case, first.cursor)
    third = look(case, first.cursor)
    assert checks(third)["alive"] == (False, "ERROR")


def test_the_table_is_no_older_than_the_live_run_that_fills_it(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    with case.alive():
        events = look(case).asset_events
    keys = [each.asset_key for each in events if isinstance(each, dg.AssetMaterialization)]
    # Dagster takes what was materialized before its upstream to be out of date.
    assert keys == [live_key(case.loaded), table_key(case.loaded)]


def test_what_can_not_be_judged_is_red(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    with case.alive():
        cursor = look(case).cursor
        case.generation.path("run/requested.json").write_text("{}")
        found = look(case, cursor)
        assert checks(found) == dict.fromkeys(("alive", "healthy"), (False, "ERROR"))
        case.ask_for_it()
        mended = checks(look(case, found.cursor))
        assert (mended["alive"][0], mended["healthy"][0]) == (True, True)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def test_a_file_that_became_invalid_turns_its_own_checks_and_its_card_red_until_it_is_mended(
    tmp_path: Path,
) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    good = case.path.read_text()
    with case.alive():
        # As after a look at a table that is there.
        cursor = Cursor.model_validate_json(look(case).cursor or "")
        seen = cursor.model_copy(update={"version": 3}).model_dump_json()
        case.path.write_text(good.replace("event_time:", "event_tme:"))
        found = look(case, seen)
        assert checks(found) == dict.fromkeys(("alive", "healthy"), (False, "ERROR"))
        [card] = [each for each in found.asset_events if isinstance(each, dg.AssetMaterialization)]
        assert card.asset_key == table_key(case.loaded)
        now = _in_one_line(str(card.metadata["now"].value))
        assert "its state is unknown" in now
        assert "event_tme" in now
        assert "nothing restarts the live run if it ends" in now
        told = _in_one_line(skipped(case, found.cursor))
        assert told == now, "once a minute is enough"
        case.path.write_text(good.replace("event_time:", "event_tyme:"))
        assert checks(look(case, found.cursor)), "another reason is told at once"
        case.path.write_text(good)
        mended = checks(look(case, found.cursor))
    assert (mended["alive"][0], mended["healthy"][0]) == (True, True)


def test_the_webhook_is_told_once_that_looks_fail_for_a_minute_and_that_they_succeed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening() as hook:
        # Each look loads the file again.
        monkeypatch.setenv("HOOK", hook.url)
        case = LiveCase(tmp_path, {"webhook": "${HOOK}"}, {"HOOK": hook.url})
        case.ask_for_it()
        case.launch("a")
        good = case.path.read_text()

        def told() -> list[tuple[str, str | None]]:
            return [(each["health"], each["before"]) for each in hook.told]

        with case.alive():
            seen = look(case).cursor
            before = told()
            case.path.write_text(good.replace("event_time:", "event_tme:"))
            failed = Cursor.model_validate_json(look(case, seen).cursor or "")
            assert told() == before, "a store that is away for a moment wakes nobody"
            a_minute_ago = failed.model_copy(
                update={"unknown_since_ms": failed.unknown_since_ms - 60_000}
            )
            hook.answer = 500
            unheard = look(case, a_minute_ago.model_dump_json()).cursor
            hook.answer = 200
            heard = look(case, look(case, unheard).cursor).cursor
            assert told() == [*before, ("unknown", None)]
            assert "event_tme" in hook.told[-1]["reason"]
            case.path.write_text(good)
            mended = look(case, heard)
            assert told()[-1] == ("healthy", "unknown")
            look(case, mended.cursor)
            assert len(hook.told) == len(before) + 2


def test_a_pipeline_without_a_stream_is_red_too_if_its_file_became_invalid(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    document = yaml.safe_load(case.path.read_text())
    case.path.write_text(yaml.safe_dump({**document, "sources": document["sources"][:1]}))
    sensor = sensor_of(load_pipeline(case.path))
    case.path.write_text("name: [events")
    with dg.DagsterInstance.ephemeral() as instance:
        found = sensor(dg.build_sensor_context(instance=instance))
    assert isinstance(found, dg.SensorResult)
    assert checks(found) == {"healthy": (False, "ERROR")}


@pytest.mark.parametrize("is_alive", [True, False])
def test_the_checks_run_by_hand_as_well(tmp_path: Path, is_alive: bool) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a", state="running" if is_alive else "failed")
    spec = dg.AssetSpec(live_key(case.loaded))
    defs = dg.Definitions(assets=[spec], asset_checks=[live_checks(case.loaded)])
    job = defs.resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance, case.alive():
        done = job.execute_in_process(instance=instance)
    evaluated = {each.check_name: each for each in done.get_asset_check_evaluations()}
    measured = {name: value.value for name, value in evaluated["waiting_time"].metadata.items()}
    assert measured == {
        "value": 0,
        "limit": 300,
        "unit": "s",
        "value in words": "less than 1 s",
        "limit in words": "5 min",
    }
    assert evaluated["lag"].metadata["value"].value == 0
    assert "limit" not in evaluated["lag"].metadata
    passed = {name: each.passed for name, each in evaluated.items()}
    assert passed == {"alive": is_alive, "lag": True, "waiting_time": True, "late_rows": True}


def test_a_chain_that_ends_is_not_supervised(tmp_path: Path) -> None:
    loaded = LiveCase(tmp_path).loaded
    assert has_live_run(loaded)
    ended = Pipeline.model_validate(
        {**loaded.pipeline.model_dump(), "sources": loaded.pipeline.model_dump()["sources"][:1]}
    )
    assert not has_live_run(type(loaded)(loaded.path, ended))


def test_materializing_a_paused_pipeline_leaves_it_paused_and_the_run_says_so(
    tmp_path: Path,
) -> None:
    case = LiveCase(tmp_path)
    case.plan_history()
    case.ask_for_it()
    controls.pause(case.loaded, "new brokers", "Ada")
    job = pipeline_definitions(case.loaded).resolve_job_def("events")
    rest = [dg.AssetKey(["events", name]) for name in ("inbox", "table", "progress")]
    with dg.DagsterInstance.ephemeral() as instance:
        again = job.execute_in_process(instance=instance, asset_selection=rest)
        run = instance.get_run_by_id(again.run_id)
        told = "\n".join(each.user_message for each in instance.all_logs(again.run_id))
    assert again.success
    assert run is not None
    assert run.tags["hybrid/result"] == "still paused"
    assert " UTC by Ada (new brokers). It stays paused; to resume it, run the job" in told
    assert "`events_control` with the action RESUME" in told
    assert not again.get_asset_materialization_events()
    found = read_requested(case.generation)
    assert found is not None
    assert found.is_paused


def test_after_a_run_has_materialized_the_table_its_checks_are_evaluated_at_the_next_look(
    tmp_path: Path,
) -> None:
    """Dagster shows a check as not evaluated after each materialization."""
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    table = table_key(case.loaded)
    seen: list[dg.SensorResult] = []
    with dg.DagsterInstance.ephemeral() as instance, case.alive():
        sensor = sensor_of(case.loaded)

        def look_again() -> dict[str, tuple[bool, str]]:
            cursor = seen[-1].cursor if seen else None
            context = dg.build_sensor_context(instance=instance, cursor=cursor)
            found = sensor(context)
            assert isinstance(found, dg.SensorResult)
            seen.append(found)
            return checks(found)

        assert look_again()["healthy"][0]
        assert look_again() == {}

        @dg.asset(key=table)
        def by_run() -> None:
            """As the chain, or a person who materializes the table alone."""

        assert dg.materialize([by_run], instance=instance).success
        assert look_again()["healthy"][0]
        assert look_again() == {}
