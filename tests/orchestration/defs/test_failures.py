"""Errors in Dagster: which ones are tried again, and what their pages show."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from orchestration.defs.keys import RESTART_TAG, live_key
from orchestration.defs.show import dagster_failures as module
from orchestration.defs.show.dagster_failures import RETRY_POLICY, failures
from orchestration.operations import live_run, stopping
from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport, HybridError, RunError, SeamError, UnavailableError
from spark_jobs.launch.driver_error import DriverError
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.supervision.live_case import LiveCase

NO_BROKER = UnavailableError("Broker `b:1` does not answer.", "Start it.", server="b:1")
GAP = SeamError("Records are missing.", "Accept the gap.", topic="t", partition=3)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = dg.RetryPolicy(max_retries=RETRY_POLICY.max_retries, delay=0)
    monkeypatch.setattr(module, "RETRY_POLICY", policy)


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedPipeline:
    return LiveCase(tmp_path).loaded


def attempts(
    loaded: LoadedPipeline, error: HybridError, *, allow_retries: bool = True
) -> tuple[int, dg.Failure]:
    """How often an op that always fails is tried, and the failure that Dagster keeps."""
    tried = 0

    @dg.op
    def fails() -> None:
        nonlocal tried
        tried += 1
        with failures(loaded, allow_retries=allow_retries):
            raise error

    @dg.job
    def job() -> None:
        fails()

    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance, raise_on_error=False)
    [event] = done.get_step_failure_events()
    failure = event.step_failure_data.user_failure_data
    assert failure is not None
    return tried, dg.Failure(failure.description, failure.metadata)


def test_a_terminal_failure_is_not_tried_again_and_says_what_it_is_about(
    loaded: LoadedPipeline,
) -> None:
    tried, failure = attempts(loaded, GAP)
    assert tried == 1
    assert failure.description == "Records are missing.\nWhat to do: Accept the gap."
    shown = {name: value.value for name, value in failure.metadata.items()}
    assert shown == {
        "kind": "seam",
        "transient": False,
        "cause": "```\nRecords are missing.\n```",
        "What to do": "Accept the gap.",
        "topic": "t",
        "partition": 3,
    }


def test_what_an_error_quotes_is_shown_as_text_and_loads_nothing(loaded: LoadedPipeline) -> None:
    quoted = "A record holds:\n```\n![seen](https://elsewhere.example/seen.png)\n````"
    _, failure = attempts(loaded, SeamError(quoted, "Look at the record."))
    cause = str(failure.metadata["cause"].value)
    first, *inside, last = cause.splitlines()
    assert (set(first), first) == ({"`"}, last)
    assert all(len(first) > line.count("`") for line in inside)
    assert "\n".join(inside) == quoted


@pytest.mark.parametrize("error", [GAP, NO_BROKER], ids=["terminal", "transient"])
def test_a_refusal_is_told_without_a_stack_trace_which_goes_to_stderr(
    loaded: LoadedPipeline, error: HybridError, capfd: pytest.CaptureFixture[str]
) -> None:
    @dg.op
    def fails() -> None:
        with failures(loaded):
            try:
                raise OSError
            except OSError:
                raise error from None

    @dg.job
    def job() -> None:
        fails()

    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance, raise_on_error=False)
    [event] = done.get_step_failure_events()
    retries = [
        each.step_retry_data.error
        for each in done.all_events
        if each.event_type_value == "STEP_UP_FOR_RETRY"
    ]
    assert len(retries) == (2 if error.transient else 0)
    for told in [event.step_failure_data.error, *retries]:
        assert told is not None
        assert told.message == f"{error.message}\nWhat to do: {error.hint}\n"
        assert not told.stack
        assert told.cause is None
        assert told.context is None
    assert "in fails\n" in capfd.readouterr().err, "who develops needs it"


def test_a_refusal_in_a_job_names_the_jobs_to_use_instead_of_commands(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.run({1: 10})
    job = pipeline_definitions(case.loaded).resolve_job_def("events_generation")
    promote = {"ops": {"do_events_generation": {"config": {"action": "PROMOTE"}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(promote, instance=instance, raise_on_error=False)
    [event] = done.get_step_failure_events()
    told = event.step_failure_data.error
    assert told is not None
    assert told.message == (
        "Pipeline `events` has no candidate: no generation was begun that was not "
        "promoted yet. The promotion was not begun, so it changed nothing.\n"
        "What to do: Begin a new generation: the job `events_generation` with the "
        "action NEW. Then run it: the job `events`.\n"
    )


def test_a_declaration_that_can_not_be_read_is_told_like_any_other_refusal(
    tmp_path: Path,
) -> None:
    case = LiveCase(tmp_path)
    made = pipeline_definitions(case.loaded)
    case.loaded.path.write_text("name: [")
    with dg.DagsterInstance.ephemeral() as instance:
        done = made.resolve_job_def("events").execute_in_process(
            instance=instance, raise_on_error=False
        )
        looked = made.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            raise_on_error=False,
            asset_selection=[dg.AssetKey(["events", "table"])],
        )
    errors = [
        event.step_failure_data.error
        for each in (done, looked)
        for event in each.get_step_failure_events()
    ]
    assert len(errors) >= 2
    for told in errors:
        assert told is not None
        assert "Nothing was changed." in told.message
        assert "What to do: " in told.message
        assert not told.stack


def test_a_driver_that_reported_no_way_out_gets_one(loaded: LoadedPipeline) -> None:
    reported = ErrorReport(kind="spark", message="Out of memory.")
    _, failure = attempts(loaded, DriverError("live", "", reported))
    assert failure.description is not None
    message, way_out = failure.description.splitlines()
    assert message.endswith("Out of memory.")
    assert way_out.startswith("What to do: Read more of its output with")


def test_a_transient_failure_is_tried_a_limited_number_of_times(loaded: LoadedPipeline) -> None:
    tried, failure = attempts(loaded, NO_BROKER)
    assert tried == 3
    assert failure.metadata["transient"].value is True


def test_a_run_that_its_driver_called_hopeless_is_not_tried_again(loaded: LoadedPipeline) -> None:
    assert attempts(loaded, RunError("It ended.", "Start it."))[0] == 3
    assert attempts(loaded, RunError("It ended.", "Start it.", transient=False))[0] == 1


def test_the_supervision_alone_decides_about_the_retries_of_its_restarts(
    loaded: LoadedPipeline,
) -> None:
    assert attempts(loaded, NO_BROKER, allow_retries=False)[0] == 1


def test_an_interrupted_step_is_not_tried_again(loaded: LoadedPipeline) -> None:
    tried = 0

    @dg.op
    def waits() -> None:
        nonlocal tried
        tried += 1
        with failures(loaded):
            raise KeyboardInterrupt

    @dg.job
    def job() -> None:
        waits()

    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(KeyboardInterrupt):
        job.execute_in_process(instance=instance)
    assert tried == 1


def test_outside_a_step_an_error_is_a_failure(loaded: LoadedPipeline) -> None:
    with pytest.raises(dg.Failure, match="does not answer"), failures(loaded):
        raise NO_BROKER


@pytest.mark.parametrize(("error", "expected"), [(NO_BROKER, 3), (GAP, 1)])
def test_a_job_of_a_pipeline_is_tried_again_where_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: HybridError, expected: int
) -> None:
    tried = 0

    def fails(*_: object) -> None:
        nonlocal tried
        tried += 1
        raise error

    monkeypatch.setattr(stopping, "stop", fails)
    job = pipeline_definitions(LiveCase(tmp_path).loaded).resolve_job_def("events_control")
    stop = {"ops": {"do_events_control": {"config": {"action": "STOP"}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        assert not job.execute_in_process(stop, instance=instance, raise_on_error=False).success
    assert tried == expected


def test_a_restart_that_fails_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    tried = 0

    def fails(*_: object) -> None:
        nonlocal tried
        tried += 1
        raise NO_BROKER

    monkeypatch.setattr(live_run, "resume", fails)
    job = pipeline_definitions(case.loaded).resolve_job_def("events")
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(
            instance=instance,
            raise_on_error=False,
            tags={RESTART_TAG: "a"},
            asset_selection=[live_key(case.loaded)],
        )
    assert not done.success
    assert tried == 1
