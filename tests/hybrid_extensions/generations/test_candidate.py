"""While a candidate is computed, pages show the stream that readers depend on, and say so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from hybrid_extensions.generations.declare import COMPARED
from orchestration.defs.checks.table import HEALTHY
from orchestration.defs.jobs.restarts_of_a_day import restarts_of_a_day
from orchestration.defs.keys import RESTART_TAG, role_of
from orchestration.display import moment
from orchestration.operations import live_run
from orchestration.pipeline_definitions import pipeline_definitions
from sources.common.positions import TopicPartition
from sources.generations import begin
from sources.kept_definitions import keep_definition
from sources.ledger import SeamCount, count_name
from sources.serving import Served, Serving, read_serving, write_serving
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.supervision.live_case import DISK_FULL, LiveCase, sensor_of

LIVE, TABLE = (dg.AssetKey(["events", name]) for name in ("inbox", "table"))


@pytest.fixture
def case(tmp_path: Path) -> LiveCase:
    """A stream that runs and serves."""
    made = LiveCase(tmp_path)
    keep_definition(made.loaded, made.generation)
    offsets = made.generation.checkpoint.root / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1")
    made.ask_for_it()
    made.launch("a", batch_id=7)
    return made


def shown(case: LiveCase, instance: dg.DagsterInstance, key: dg.AssetKey) -> list[dict[str, Any]]:
    """What a look of the supervision shows on an asset, one for each event."""
    found = sensor_of(case.loaded)(dg.build_sensor_context(instance=instance))
    assert isinstance(found, dg.SensorResult)
    return [
        {name: value.value for name, value in each.metadata.items()}
        for each in found.asset_events
        if each.asset_key == key and not isinstance(each, dg.AssetCheckEvaluation)
    ]


def evaluations(case: LiveCase, instance: dg.DagsterInstance) -> list[dg.AssetCheckEvaluation]:
    """The checks that a look of the supervision evaluates."""
    found = sensor_of(case.loaded)(dg.build_sensor_context(instance=instance))
    assert isinstance(found, dg.SensorResult)
    return [each for each in found.asset_events if isinstance(each, dg.AssetCheckEvaluation)]


def test_the_health_of_the_stream_that_serves_stays_and_the_candidate_is_a_line(
    case: LiveCase,
) -> None:
    serving = case.generation
    case.generation = begin(case.loaded)
    case.ask_for_it()
    case.launch("b", state="failed", failure=DISK_FULL)
    candidate, case.generation = case.generation, serving
    assert candidate.name == "g2"
    with dg.DagsterInstance.ephemeral() as instance, case.alive():
        [live] = shown(case, instance, LIVE)
        [healthy] = [each for each in evaluations(case, instance) if each.check_name == HEALTHY]
    assert (live["generation"], live["health"]) == ("g1, which readers see", "healthy")
    assert live["details"]["batch"] == 7
    assert live["candidate"].startswith("g2: dead. The live run failed: disk full")
    assert live["now"].startswith("**Candidate dead** · healthy · ")
    # A red check says what is wrong, and what to do.
    assert not healthy.passed
    told = healthy.description or ""
    assert "Readers go on to see g1, which is well; candidate g2 is not." in told
    assert "To continue it: the job `events_generation` with the action RERUN; to delete" in told
    assert "with the action DISCARD. g2: The live run failed: disk full" in told


def test_what_is_told_of_a_dead_candidate_leads_to_its_own_log(case: LiveCase) -> None:
    serving = case.generation
    case.generation = begin(case.loaded)
    case.ask_for_it()
    case.launch("b")
    case.generation = serving
    with dg.DagsterInstance.ephemeral() as instance, case.alive():
        [live] = shown(case, instance, LIVE)
        [healthy] = [each for each in evaluations(case, instance) if each.check_name == HEALTHY]
    own = "/g2/run/inbox.log`"
    assert own in live["candidate"]
    assert own in (healthy.description or "")


def test_the_comparison_of_a_candidate_comes_again_with_each_materialization(
    case: LiveCase,
) -> None:
    begin(case.loaded)
    made = dg.AssetCheckEvaluation(
        asset_key=TABLE,
        check_name=COMPARED,
        passed=False,
        severity=dg.AssetCheckSeverity.WARN,
        description="g2 against g1: 2 = 2 rows, 1 changed",
        metadata={"changed": 1},
    )
    with dg.DagsterInstance.ephemeral() as instance, case.alive():
        instance.report_runless_asset_event(made)
        found = sensor_of(case.loaded)(dg.build_sensor_context(instance=instance))
    assert isinstance(found, dg.SensorResult)
    [*_, table] = [
        at
        for at, each in enumerate(found.asset_events)
        if isinstance(each, dg.AssetMaterialization) and each.asset_key == TABLE
    ]
    [again] = [
        each
        for each in found.asset_events[table:]
        if isinstance(each, dg.AssetCheckEvaluation) and each.check_name == COMPARED
    ]
    assert (again.passed, again.severity, again.description) == (
        False,
        dg.AssetCheckSeverity.WARN,
        made.description,
    )


def test_the_live_run_of_a_candidate_comes_after_the_one_that_readers_depend_on(
    case: LiveCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = case.generation
    case.generation = begin(case.loaded)
    case.launch("b", batch_id=1)
    beat = read_heartbeat(case.generation, "inbox")
    case.generation = serving

    def go_live(*_: object, **__: object) -> Heartbeat:
        assert beat is not None
        return beat

    monkeypatch.setattr(live_run, "go_live", go_live)
    job = pipeline_definitions(case.loaded).resolve_job_def("events")
    with dg.DagsterInstance.ephemeral() as instance, case.alive():
        done = job.execute_in_process(instance=instance, asset_selection=[LIVE])
        run = instance.get_run_by_id(done.run_id)
        lines = [each.user_message for each in instance.all_logs(done.run_id)]
    [event] = done.asset_materializations_for_node("events__inbox")
    assert [*event.metadata][:3] == ["now", "generation", "candidate"]
    assert event.metadata["generation"].value == "g1, which readers see"
    assert str(event.metadata["candidate"].value).startswith("g2, a candidate")
    assert event.metadata["candidate: batch"].value == 1
    assert run is not None
    assert run.tags["hybrid/generation"] == "g2"
    told = "This run computes g2, a candidate: readers go on to see g1 until the job"
    assert len([line for line in lines if line.startswith(told)]) == 1


def test_a_chain_that_computes_a_candidate_says_so_first_and_once(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"id": 1, "at": "2024-01-01T00:00:00Z", "v": 1}\n')
    case.run({1: 10})
    begin(case.loaded)
    job = pipeline_definitions(case.loaded).resolve_job_def("events")
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(
            instance=instance,
            raise_on_error=False,
            asset_selection=[dg.AssetKey(["events", "plan"])],
        )
        run = instance.get_run_by_id(done.run_id)
        lines = [
            each.user_message
            for each in instance.all_logs(done.run_id)
            if not each.is_dagster_event
        ]
    assert lines[0] == (
        "This run computes g2, a candidate: readers go on to see g1 until the job "
        "`events_generation` promotes it."
    )
    assert run is not None
    assert run.tags["hybrid/generation"] == "g2"


def test_automatic_restarts_of_a_day_are_on_the_page_of_the_table(case: LiveCase) -> None:
    now = datetime.now(UTC)
    with dg.DagsterInstance.ephemeral() as instance, case.alive():
        [table] = shown(case, instance, TABLE)
        assert "restarts" not in table
        for number, tags in enumerate([{RESTART_TAG: "a"}, {RESTART_TAG: "b"}, {}]):
            run = dg.DagsterRun(job_name="events", run_id=f"{number}", tags=tags)
            instance.add_run(run)
        for key in (TABLE, LIVE):
            [page] = shown(case, instance, key)
            assert page["restarts"].startswith(
                "The supervision restarted the live run 2 times, the last time on "
            )
            assert moment(int(now.timestamp() * 1000))[:-2] in page["restarts"]


def test_restarts_of_other_pipelines_and_of_earlier_days_do_not_count(case: LiveCase) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        other = dg.DagsterRun(job_name="others", run_id="1", tags={RESTART_TAG: "a"})
        instance.add_run(other)
        old = dg.DagsterRun(job_name="events", run_id="2", tags={RESTART_TAG: "a"})
        storage: Any = instance.run_storage
        storage.add_historical_run(old, datetime.now(UTC) - timedelta(days=2))
        assert restarts_of_a_day(instance, case.loaded) is None


def test_the_first_generation_is_not_said_to_be_seen_before_there_is_a_table(
    case: LiveCase,
) -> None:
    loaded = case.loaded
    assert role_of(loaded, "g1") == "g1, the first one"
    begin(loaded)
    assert role_of(loaded, "g1") == "g1, which readers see"
    assert role_of(loaded, "g2").startswith("g2, a candidate")
    replaced = Served(generation="g2", version=3, until_ms=1)
    known = read_serving(loaded)
    write_serving(loaded, known, Serving(generation="g1", before=[replaced]))
    assert role_of(loaded, "g2").endswith("kept for a rollback")


def test_the_live_asset_says_how_many_duplicates_were_removed_at_the_hand_over(
    case: LiveCase,
) -> None:
    at = TopicPartition("events", 0)
    count = SeamCount(source="inbox", rows={at: 57_102}, removed={at: 56_110})
    with dg.DagsterInstance.ephemeral() as instance, case.alive():
        [before] = shown(case, instance, LIVE)
        case.generation.replace(count_name("inbox"), count)
        case.launch("b", batch_id=8)
        [after] = shown(case, instance, LIVE)
    title = "duplicates removed at the hand-over"
    assert title not in before
    assert after[title] == "56,110 of 57,102 rows"


def test_a_generation_that_is_kept_for_a_rollback_is_not_judged(case: LiveCase) -> None:
    serving = case.generation
    begin(case.loaded)
    # Readers saw it, and see the first one again.
    case.generation = case.loaded.require_generation()
    case.ask_for_it()
    case.launch("b", state="failed", failure=DISK_FULL)
    replaced = Served(generation="g2", version=3, until_ms=1)
    known = read_serving(case.loaded)
    write_serving(case.loaded, known, Serving(generation="g1", before=[replaced]))
    case.generation = serving
    with dg.DagsterInstance.ephemeral() as instance, case.alive():
        found = sensor_of(case.loaded)(dg.build_sensor_context(instance=instance))
    assert isinstance(found, dg.SensorResult)
    checks = [each for each in found.asset_events if isinstance(each, dg.AssetCheckEvaluation)]
    assert {each.check_name for each in checks} > {"alive", "lag"}
    assert all(each.passed for each in checks), checks
    assert not any("candidate" in each.metadata for each in found.asset_events)
