"""Pause, resume and drain, on the command line and as Dagster's jobs, without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import dagster as dg
import pytest

from orchestration.definitions import defs
from orchestration.defs.assets.table import kept_action
from orchestration.defs.jobs.control_job import control_job
from orchestration.defs.show.dagster_remedies import in_dagster
from orchestration.display import moment
from orchestration.operations import live_run, stopping
from orchestration.remedies import program
from orchestration.supervision import controls
from orchestration.supervision.status import status
from orchestration.supervision.supervisor import restart, tick
from sources.common.durations import parse_duration
from sources.config.loader import LoadedPipeline
from sources.config.source.rate_limit import CurrentRate
from sources.errors import InputError, RunError, StateError
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.plan import make_plan
from spark_jobs.launch import run_control
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from spark_jobs.run_state.requested_state import read_requested
from tests.command_line import invoke
from tests.extensions import needs
from tests.orchestration.latest_check import latest_check
from tests.orchestration.supervision.live_case import DISK_FULL, LiveCase, sensor_of

MINUTE = timedelta(minutes=1)


def arrive(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text('{"id": 1, "at": "2024-01-01T00:00:00Z"}\n')


def health_of(instance: dg.DagsterInstance) -> str:
    """Return what the check of the table's health says in Dagster."""
    return str(latest_check(instance, "table", "healthy").description)


@pytest.fixture
def case(tmp_path: Path) -> LiveCase:
    """A pipeline that is planned, with one file in its inbox."""
    arrive(tmp_path, "in/a.json", "inbox/a.json")
    made = LiveCase(tmp_path)
    make_plan(made.loaded)
    return made


@contextmanager
def driver(case: LiveCase) -> Iterator[None]:
    """Reads what was found in the inbox, and looks for more, as a driver does."""
    stop = Event()
    case.launch("a", splits_done=0, splits_total=1)

    def follow() -> None:
        folder = GrowingFolder(PipelineContext(case.loaded, case.generation))
        while not stop.wait(0.05):
            folder.discover()
            case.launch("a", splits_done=folder.splits, splits_total=folder.splits)

    thread = Thread(target=follow)
    with case.alive_until_stopped():
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def call(case: LiveCase, *arguments: str) -> tuple[int, dict[str, Any]]:
    command, *options = arguments
    result = invoke([command, str(case.path), "--json", *options])
    return result.exit_code, json.loads(result.stdout)


def run(
    case: LiveCase, action: str | None, on: dg.DagsterInstance | None = None, **config: Any
) -> dg.ExecuteInProcessResult:
    """Launch the job with its form; without an action, as the form is."""
    form = config if action is None else {"action": {action: config}}
    if action is not None and "by" in config:
        # As forms were before, with all fields beside the action.
        form = {"action": action.upper(), **config}
    given = {"ops": {"do_events_control": {"config": form}}} if form else {}
    with dg.DagsterInstance.ephemeral() if on is None else nullcontext(on) as instance:
        return control_job(case.loaded).execute_in_process(
            given, instance=instance, raise_on_error=False
        )


def actions(loaded: LoadedPipeline) -> list[str]:
    """What the job's form lets people choose, the default first."""
    config: Any = control_job(loaded).get_node_named(f"do_{loaded.pipeline.name}_control")
    fields = config.definition.config_schema.config_type.fields
    names = list(fields["action"].config_type.non_scalar_type.fields)
    default = fields["action"].default_value
    return [default, *(name.upper() for name in names if name.upper() != default)]


def cause(result: dg.ExecuteInProcessResult) -> str:
    [event] = result.get_step_failure_events()
    failure = event.step_failure_data.user_failure_data
    assert failure is not None
    return failure.description or ""


def test_a_paused_run_is_not_red_and_says_since_when_and_why_and_counts_no_input_that_nobody_lists(
    case: LiveCase,
) -> None:
    case.ask_for_it()
    case.launch("a", splits_done=3, splits_total=5)
    with case.alive_until_stopped():
        assert status(case.loaded).live is not None
        controls.pause(case.loaded, " new brokers ", " ann ")
    wanted = read_requested(case.generation)
    assert wanted is not None
    told = (
        f"The live run has been paused since {moment(wanted.at_ms)} UTC by ann (new brokers). "
        "How much input waits is unknown: nobody looks into the folder meanwhile. To resume it, "
        "run `hybrid resume P`."
    )
    found = status(case.loaded)
    assert found.live is not None
    assert (found.live.health, found.live.reason, found.healthy) == ("paused", told, True)
    # What it reported last counts no file that arrived since.
    assert found.sources[-1].lag is None
    with dg.DagsterInstance.ephemeral() as instance:
        looked = sensor_of(case.loaded)(dg.build_sensor_context(instance=instance))
    assert isinstance(looked, dg.SensorResult)
    assert not looked.run_requests
    checks = [each for each in looked.asset_events if isinstance(each, dg.AssetCheckEvaluation)]
    of_table = [each for each in checks if each.asset_key.path[-1] == "table"]
    assert [each.passed for each in of_table] == [False]
    in_words = in_dagster(told, case.loaded)
    assert in_words in str(of_table[0].description)
    shown = {
        (each.check_name, each.passed, each.severity, each.description)
        for each in checks
        if each not in of_table
    }
    assert shown == {
        (name, False, dg.AssetCheckSeverity.WARN, in_words)
        for name in ("alive", "lag", "waiting_time", "late_rows")
    }
    # Asked twice is asked once; to stop is another thing.
    assert call(case, "pause", "--why", "again")[0] == 0
    assert read_requested(case.generation) == wanted
    printed = invoke(["status", str(case.path)]).stdout
    assert " ".join(printed.split()).count("(new brokers)") == 1
    stopping.stop(case.loaded, "bob")
    found = status(case.loaded)
    assert found.live is not None
    assert found.live.health == "stopped"
    assert "UTC by bob. How much input waits is unknown" in found.live.reason


@pytest.mark.parametrize("command", ["pause", "stop"])
def test_who_asked_is_kept_and_is_the_user_of_the_system_unless_named(
    case: LiveCase, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    for given, kept in ([], "root"), (["--by", "ann"], "ann"):
        case.ask_for_it()
        assert call(case, command, *given)[0] == 0
        wanted = read_requested(case.generation)
        assert wanted is not None
        assert wanted.by == kept


def test_what_an_action_has_done_is_shown_at_once_and_not_at_the_next_look(
    case: LiveCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: Any) -> Heartbeat:
        case.launch("b")
        beat = read_heartbeat(case.generation, "inbox")
        assert beat is not None
        return beat

    monkeypatch.setattr(live_run, "require_ready_to_stream", lambda *_: None)
    monkeypatch.setattr(run_control, "start_detached", start)
    case.ask_for_it()
    with dg.DagsterInstance.ephemeral() as instance:
        with case.alive_until_stopped():
            case.launch("a")
            assert run(case, "pause", instance).success
        assert health_of(instance).startswith("Paused")
        assert run(case, "resume", instance).success
        assert health_of(instance).startswith("Dead"), "the driver of this test holds no lock"
        with case.alive_until_stopped():
            assert run(case, "resume", instance).success
            assert health_of(instance).startswith("Healthy")
            assert run(case, "stop", instance).success
        assert health_of(instance).startswith("Stopped")
        [(_, last)] = kept_action(instance, case.loaded).items()
    assert str(last.value).startswith("STOP: Stopped inbox (generation g1, which serves)")


def test_a_user_without_a_name_may_pause(case: LiveCase, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError(4711)

    monkeypatch.setattr("getpass.getuser", nobody)
    case.ask_for_it()
    assert call(case, "pause")[0] == 0
    wanted = read_requested(case.generation)
    assert wanted is not None
    assert wanted.by == ""


def test_a_pause_that_was_written_without_a_name_is_still_read(case: LiveCase) -> None:
    older = (
        '{"version": 3, "source": "inbox", "is_requested": false, "at_ms": 0, "is_paused": true}'
    )
    case.generation.path("run").mkdir(exist_ok=True)
    case.generation.path("run/requested.json").write_text(older)
    found = status(case.loaded)
    assert found.live is not None
    assert "paused since 1 Jan 1970 00:00 UTC. To resume it" in found.live.reason


def test_a_restart_that_comes_after_a_pause_is_refused(case: LiveCase) -> None:
    case.ask_for_it()
    case.launch("a", state="failed", failure=DISK_FULL)
    looked = tick(case.loaded)
    assert looked is not None
    assert looked.restart is not None
    controls.pause(case.loaded)
    with pytest.raises(StateError, match="The live run was paused, so it is not started"):
        restart(case.loaded, case.loaded.pipeline.sources[-1])
    again = tick(case.loaded)
    assert again is not None
    assert again.restart is None


def test_what_nobody_wants_can_not_be_paused_and_what_does_not_run_not_drained(
    case: LiveCase,
) -> None:
    exit_code, answer = call(case, "pause")
    assert exit_code == 2
    assert (
        "The live run of `inbox` was never started: there is nothing to pause." in answer["message"]
    )
    assert answer["effect"] == "What is committed stays in the table, and is not read again."
    assert f"pause. {answer['effect']}" in cause(run(case, "pause"))
    case.ask_for_it()
    stopping.stop(case.loaded)
    assert call(case, "pause")[0] == 2
    exit_code, answer = call(case, "drain")
    assert exit_code == 2
    assert "is not running: nothing was drained or changed" in answer["message"]
    resume = f"`{program()} resume {case.path} --generation g1`"
    assert answer["hint"].startswith(f"Start it with {resume}")
    refused = call(case, "drain", "--within", "soon")[1]
    assert "is not a duration. Write 90 s" in f"{refused['message']} {refused['hint']}"
    # Its turn has not come: history is not read yet.
    exit_code, answer = call(case, "resume")
    assert exit_code == 2
    assert "`history`, which comes before it, has not finished" in answer["message"]


def test_a_pipeline_that_ends_has_no_live_run(case: LiveCase) -> None:
    pipeline = case.loaded.pipeline
    ended = pipeline.model_copy(update={"sources": pipeline.sources[:1]})
    loaded = type(case.loaded)(case.loaded.path, ended)
    for ask in (controls.pause, controls.resume, lambda it: controls.drain(it, MINUTE)):
        with pytest.raises(InputError, match="the bounded source `history`, so it has no live run"):
            ask(loaded)
    # Extensions add theirs after these.
    assert actions(loaded)[:3] == ["STATUS", "STOP", "RATE"]


def test_a_folder_is_drained_of_what_it_holds_when_asked(tmp_path: Path, case: LiveCase) -> None:
    case.ask_for_it()
    arrive(tmp_path, "inbox/b.json", "inbox/c.json", "inbox/gone.json")
    seen: list[int] = []

    def remove(left: int) -> None:
        seen.append(left)
        (tmp_path / "inbox/gone.json").unlink(missing_ok=True)

    with case.alive():
        case.launch("a", splits_done=0, splits_total=1)
        with pytest.raises(
            RunError, match=r"not drained after less than 1 s: 4 files or splits are left\. The"
        ):
            controls.drain(case.loaded, timedelta(0), remove)
    wanted = read_requested(case.generation)
    assert wanted is not None
    assert wanted.is_requested, "time that is up changes nothing"
    with driver(case):
        controls.drain(case.loaded, MINUTE, seen.append)
    assert (seen[0], seen[-1]) == (4, 0)
    folder = GrowingFolder(PipelineContext(case.loaded, case.generation))
    assert (folder.splits, folder.undiscovered()) == (3, set())
    found = status(case.loaded)
    assert found.live is not None
    assert found.live.health == "stopped"
    case.ask_for_it()
    with driver(case):
        assert call(case, "drain") == (
            0,
            {"ok": True, "generation": "g1", "drained": "inbox"},
        )


def test_a_drain_that_takes_too_long_is_not_tried_again_by_dagster(
    tmp_path: Path, case: LiveCase
) -> None:
    case.ask_for_it()
    arrive(tmp_path, "inbox/b.json")
    with case.alive():
        case.launch("a", splits_done=0, splits_total=1)
        ended = run(case, "drain", within="1 s")
    assert "give it longer (`within`)" in cause(ended)
    assert not [each for each in ended.all_events if each.is_step_up_for_retry]


def test_a_run_that_ends_before_it_is_drained_says_so(tmp_path: Path, case: LiveCase) -> None:
    case.ask_for_it()
    arrive(tmp_path, "inbox/b.json")
    case.launch("a", splits_done=0, splits_total=1)

    def fail(_: int) -> None:
        case.launch("a", state="failed", failure=DISK_FULL)

    with (
        case.alive(),
        pytest.raises(RunError, match=r"before it was drained: 2 .* are left\. disk full"),
    ):
        controls.drain(case.loaded, MINUTE, fail)


def test_each_command_is_an_action_of_one_job(tmp_path: Path, case: LiveCase) -> None:
    own = ["STATUS", "PAUSE", "RESUME", "DRAIN", "STOP", "RATE"]
    # Extensions add theirs after these.
    assert actions(case.loaded)[: len(own)] == own
    assert "is not running: nothing was drained" in cause(run(case, "drain", within="1 s"))
    assert "`soon` is not a duration" in cause(run(case, "drain", within="soon"))
    assert "there is nothing to pause" in cause(run(case, "pause", why="new brokers"))

    case.ask_for_it()
    before = read_requested(case.generation)
    seen = run(case, None)
    assert seen.success, "the form can be launched as it is"
    assert read_requested(case.generation) == before, "and then only shows"
    [output] = [each for each in seen.all_events if each.event_type_value == "STEP_OUTPUT"]
    shown = str(output.step_output_data.metadata["now"].value)
    assert "no table yet" in " ".join(shown.split())
    assert run(case, "pause", why="new brokers", by="Ada").success
    wanted = read_requested(case.generation)
    assert wanted is not None
    assert (wanted.is_paused, wanted.why, wanted.by) == (True, "new brokers", "Ada")
    case.ask_for_it()
    with driver(case):
        assert run(case, "drain").success
    wanted = read_requested(case.generation)
    assert wanted is not None
    assert (wanted.is_requested, wanted.is_paused) == (False, False)
    case.ask_for_it()
    assert run(case, "stop").success
    wanted = read_requested(case.generation)
    assert wanted is not None
    assert not wanted.is_requested

    assert run(case, "rate", source="inbox", files=7, bytes="1MiB").success
    rate = case.generation.read("run/inbox-rate.json", CurrentRate)
    assert rate is not None
    assert (rate.limit.files, rate.limit.bytes) == (7, 1 << 20)
    assert run(case, "rate", source="inbox").success
    rate = case.generation.read("run/inbox-rate.json", CurrentRate)
    assert rate is not None
    assert rate.limit.files is None


@pytest.mark.parametrize(
    ("job", "form", "told"),
    [
        (
            "rate",
            {"source": "inbox", "files": 0},
            "`files: 0` is not a limit",
        ),
        ("rate", {"source": "inbox", "bytes": "many"}, "`many` is not a number of bytes"),
        ("rate", {"source": "inbox", "offsets": 5}, "`rate.offsets` has no meaning"),
        ("drain", {"within": "soon"}, "soon"),
        ("pause", {"why": "x"}, "there is nothing to pause"),
    ],
)
def test_a_form_that_is_filled_in_wrongly_is_told_in_words(
    case: LiveCase, job: str, form: dict[str, Any], told: str
) -> None:
    result = run(case, job, **form)
    assert not result.success
    assert told in cause(result)


@pytest.mark.parametrize(
    ("job", "form", "told"),
    [
        ("rate", {"source": "other"}, "events_source got other"),
        ("soar", {}, 'unexpected config entry "soar"'),
        ("rate", {"source": "inbox", "fils": 3}, 'Received unexpected config entry "fils"'),
    ],
)
def test_a_form_that_does_not_fit_is_refused_before_its_job_is_launched(
    case: LiveCase, job: str, form: dict[str, Any], told: str
) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match=told):
        run(case, job, **form)


@needs("ranges")
def test_the_forms_of_all_jobs_load_and_describe_their_fields() -> None:
    dg.Definitions.validate_loadable(defs)
    jobs = {job.name for job in defs.resolve_all_job_defs() if job.name.startswith("flight_delays")}
    assert jobs == {f"flight_delays{each}" for each in ("", "_control", "_generation", "_backfill")}
    job = defs.resolve_job_def("flight_delays_control")
    config = job.get_node_named("do_flight_delays_control")
    schema: Any = config.definition.config_schema
    action = schema.config_type.fields["action"]
    its = action.config_type.non_scalar_type.fields
    fields = [field for each in its.values() for field in each.config_type.fields.values()]
    assert all(field.description for field in [action, *its.values(), *fields])
    assert not any(field.is_required for field in [action, *fields])
    source = its["rate"].config_type.fields["source"].config_type
    assert {each.config_value for each in source.enum_values} == {"history", "live"}


@pytest.mark.parametrize(("text", "seconds"), [("90 s", 90), ("10 min", 600), ("2 h", 7200)])
def test_a_duration_is_read_as_people_write_it(text: str, seconds: int) -> None:
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1.5 ms", "`1.5 ms` is not a whole number of milliseconds"),
        ("999999999999 d", "`999999999999 d` is longer than the longest duration"),
        ("soon", "`soon` is not a duration"),
        ("-PT1M", "`-PT1M` is not a duration"),
    ],
)
def test_a_text_that_is_not_a_duration_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_duration(text)
