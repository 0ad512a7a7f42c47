"""Drivers on EMR Serverless and Databricks: what is asked, and what is made of their answers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hybrid_extensions.estimates.cores import executors_of
from hybrid_extensions.managed import launcher, submission
from sources.config.loader import LoadedPipeline
from sources.config.requirements import require_extras
from sources.errors import InputError, RunError, StateError, UnavailableError
from sources.state.generation import Generation
from sources.state.local_copy import local_path
from spark_jobs.jvm.jar_sets import packages
from spark_jobs.launch import driver_state
from spark_jobs.launch.driver_state import DriverState
from spark_jobs.launch.launch_record import Place, last_launch
from spark_jobs.launch.places.base import DriverStatus
from spark_jobs.launch.places.choice import driver_place, launcher_at
from spark_jobs.launch.run_control import run_to_end, stop
from spark_jobs.launch.runs import find_or_launch, find_run, why_ended
from spark_jobs.launch.watched_run import WatchedRun
from spark_jobs.run_state.driver_lock import QueryLock
from spark_jobs.run_state.heartbeat import read_heartbeat
from tests.hybrid_extensions.managed import recorded_services as recorded
from tests.hybrid_extensions.managed.recorded_services import Answer, ManagedService
from tests.services.processes import wait_for
from tests.spark_jobs.launch.launch_case import ID, NAME, beat, launched, pipeline

ROLE = "arn:aws:iam::123456789012:role/spark"
EMR: dict[str, Any] = {
    "master": f"emr-serverless://eu-central-1/{recorded.APPLICATION}",
    "service": {"executionRoleArn": ROLE},
}
CLUSTER = {"spark_version": "18.0.x-scala2.13", "node_type_id": "m6i.xlarge", "num_workers": 2}
DATABRICKS: dict[str, Any] = {
    "master": "databricks://adb-1.azuredatabricks.net",
    "job_file": "/Workspace/Shared/job.py",
    "service": {"new_cluster": CLUSTER},
}
IN_STORE = {
    "s3": {"state": "s3://lake/state", "target": "s3://lake/out"},
    "abfss": {
        "state": "abfss://lake@a.dfs.core.windows.net/state",
        "target": "abfss://lake@a.dfs.core.windows.net/out",
    },
}


class Case(NamedTuple):
    """One service, and its answers to the same questions."""

    name: str
    spark: dict[str, Any]
    started: Answer
    running: Answer
    waiting: Answer
    failed: tuple[Answer, ...]
    cancelled: Answer
    ended: Answer
    listed: Answer
    none_listed: Answer
    forbidden: Answer
    token: str


EMR_CASE = Case(
    name="EMR Serverless",
    spark=EMR,
    started=recorded.EMR_STARTED,
    running=recorded.emr_run("RUNNING"),
    waiting=recorded.emr_run("PENDING", "Waiting for capacity"),
    failed=(recorded.emr_run("FAILED", recorded.EMR_FAILED), recorded.EMR_DASHBOARD),
    cancelled=recorded.EMR_CANCELLED,
    ended=recorded.emr_run("CANCELLED"),
    listed=recorded.emr_list(NAME),
    none_listed=recorded.emr_list(None),
    forbidden=recorded.EMR_FORBIDDEN,
    token="clientToken",
)
DATABRICKS_CASE = Case(
    name="Databricks",
    spark=DATABRICKS,
    started=recorded.DATABRICKS_STARTED,
    running=recorded.databricks_run("RUNNING"),
    waiting=recorded.databricks_run("PENDING", message="Waiting for cluster"),
    failed=(
        recorded.databricks_run("TERMINATED", "FAILED", "Workload failed, see run output"),
        recorded.DATABRICKS_OUTPUT,
    ),
    cancelled=recorded.DATABRICKS_CANCELLED,
    ended=recorded.databricks_run("TERMINATED", "CANCELED"),
    listed=recorded.databricks_list(NAME),
    none_listed=recorded.databricks_list(None),
    forbidden=recorded.DATABRICKS_FORBIDDEN,
    token="idempotency_token",
)


@pytest.fixture(params=[EMR_CASE, DATABRICKS_CASE], ids=["emr", "databricks"])
def case(request: pytest.FixtureRequest) -> Case:
    made: Case = request.param
    return made


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[ManagedService]:
    with recorded.managed_service() as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_ENDPOINT_URL_EMR_SERVERLESS", server.url)
        monkeypatch.setenv("DATABRICKS_TOKEN", "token")
        # Each question counts.
        monkeypatch.setattr(driver_state, "ASK_AGAIN_S", 0.0)
        monkeypatch.setattr(launcher, "POLL_S", 0.01)
        # The state of these tests is on this machine.
        monkeypatch.setattr(submission, "STORES", {"emr-serverless": "/", "databricks": "/"})
        yield server


def loaded_for(case: Case, service: ManagedService, folder: Path) -> LoadedPipeline:
    spark = dict(case.spark)
    if case is DATABRICKS_CASE:
        spark["master"] = f"databricks://{service.url}"
    return pipeline(folder, spark)


class TestDeclaration:
    @pytest.mark.parametrize(
        ("spark", "complaint"),
        [
            ({**EMR, "deploy_mode": "client"}, "`deploy_mode: client` is not supported"),
            ({**EMR, "master": "emr-serverless://00fz"}, "names no application"),
            ({**EMR, "service": {}}, "needs `executionRoleArn` in `service`"),
            (
                {**EMR, "service": {"executionRoleArn": ROLE, "retryPolicy": {}}},
                "`service` can't set `retryPolicy`",
            ),
            ({**DATABRICKS, "service": {}}, "needs `new_cluster` in `service`"),
            ({**DATABRICKS, "job_file": None}, "needs `job_file`"),
            ({"service": {"name": "x"}}, "`service` is for managed services"),
        ],
    )
    def test_what_can_not_be_launched_is_refused_by_name(
        self, tmp_path: Path, spark: dict[str, Any], complaint: str
    ) -> None:
        with pytest.raises(InputError, match=complaint):
            pipeline(tmp_path, spark)

    def test_the_driver_runs_in_the_service(self, tmp_path: Path) -> None:
        assert driver_place(pipeline(tmp_path, EMR).pipeline.spark) == Place(
            kind="emr-serverless", server="eu-central-1", application=recorded.APPLICATION
        )
        assert driver_place(pipeline(tmp_path, DATABRICKS).pipeline.spark) == Place(
            kind="databricks", server="https://adb-1.azuredatabricks.net"
        )

    def test_its_executors_are_those_declared_or_not_known(self, tmp_path: Path) -> None:
        assert executors_of(pipeline(tmp_path, EMR).pipeline.spark) is None
        conf = {"spark.executor.instances": "3"}
        assert executors_of(pipeline(tmp_path, {**EMR, "conf": conf}).pipeline.spark) == 3

    def test_without_the_sdk_of_databricks_the_extra_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loaded = pipeline(tmp_path, DATABRICKS)
        require_extras(loaded.pipeline)
        monkeypatch.setitem(sys.modules, "databricks.sdk", None)
        with pytest.raises(InputError, match=r"`master: databricks://…` needs a Python package"):
            require_extras(loaded.pipeline)


def request_for(
    folder: Path, spark: dict[str, Any], store: str, **changes: Any
) -> tuple[LoadedPipeline, dict[str, Any]]:
    where = IN_STORE[store]
    sink = {"path": where["target"], "mode": "append", "key": ["id"]}
    loaded = pipeline(folder, spark, state=where["state"], sink=sink, **changes)
    place = driver_place(loaded.pipeline.spark)
    return loaded, submission.request_of(loaded, place, folder / "scratch", ["history"], ID, "g1")


class TestRequests:
    def test_of_emr_serverless(self, tmp_path: Path) -> None:
        spark = {**EMR, "job_file": "/opt/hybrid/spark_jobs/job.py"}
        loaded, request = request_for(tmp_path, spark, "s3")
        assert request["name"] == request["clientToken"] == NAME
        assert request["executionRoleArn"] == ROLE
        # Neither the service's twelve hours nor its repetitions: supervision decides.
        assert request["executionTimeoutMinutes"] == 0
        assert request["retryPolicy"] == {"maxAttempts": 1}
        driver = request["jobDriver"]["sparkSubmit"]
        assert driver["entryPoint"] == "local:///opt/hybrid/spark_jobs/job.py"
        told = ["--pipeline", str(loaded.path), "--generation", "g1"]
        told += ["--source", "history", "--launch-id", ID]
        assert driver["entryPointArguments"] == [*told, "--spark", version("pyspark")]
        (defaults,) = request["configurationOverrides"]["applicationConfiguration"]
        conf = defaults["properties"]
        assert defaults["classification"] == "spark-defaults"
        assert packages("spark") in conf["spark.jars.packages"]
        assert conf["spark.jars"].startswith("local:///opt/hybrid/spark_jobs/jvm/storage/")
        assert conf["spark.emr-serverless.driverEnv.PYTHONPATH"] == str(tmp_path)
        assert not {"spark.master", "spark.submit.deployMode", "spark.pyspark.python"} & conf.keys()

    def test_of_databricks(self, tmp_path: Path) -> None:
        conf = {"spark.databricks.driverEnv.ZONE": "a"}
        spark = {**DATABRICKS, "conf": conf}
        _, request = request_for(tmp_path, spark, "abfss")
        assert request["run_name"] == request["idempotency_token"] == NAME
        assert request["timeout_seconds"] == 0
        (task,) = request["tasks"]
        assert task["max_retries"] == 0
        assert task["spark_python_task"]["python_file"] == "/Workspace/Shared/job.py"
        assert task["spark_python_task"]["parameters"][-4:-2] == ["--launch-id", ID]
        coordinates = [each["maven"]["coordinates"] for each in task["libraries"]]
        assert set(packages("spark").split(",")) <= set(coordinates)
        cluster = task["new_cluster"]
        assert cluster["node_type_id"] == "m6i.xlarge"
        assert cluster["spark_env_vars"] == {"PYTHONPATH": str(tmp_path), "ZONE": "a"}
        assert "spark.sql.extensions" in cluster["spark_conf"]
        assert not [name for name in cluster["spark_conf"] if "driverEnv" in name]

    def test_a_field_that_a_cluster_has_not_is_refused(self, tmp_path: Path) -> None:
        wrong = {**DATABRICKS, "service": {"new_cluster": {**CLUSTER, "workers": 2}}}
        with pytest.raises(
            InputError,
            match="the field `workers`, which the installed `databricks-sdk` does not know",
        ):
            request_for(tmp_path, wrong, "abfss")

    @pytest.mark.parametrize(("spark", "store"), [(EMR, "abfss"), (DATABRICKS, "s3")])
    def test_a_store_that_its_driver_can_not_reach_or_write_safely_is_refused(
        self, tmp_path: Path, spark: dict[str, Any], store: str
    ) -> None:
        with pytest.raises(InputError, match=r"`state` is .* can't (reach|write safely)"):
            request_for(tmp_path, spark, store)

    @pytest.mark.parametrize(
        ("spark", "store", "prefix"),
        [
            (EMR, "s3", "spark.emr-serverless.driverEnv."),
            (DATABRICKS, "abfss", "spark.databricks.driverEnv."),
        ],
    )
    def test_a_variable_of_the_file_has_to_be_passed_on(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        spark: dict[str, Any],
        store: str,
        prefix: str,
    ) -> None:
        monkeypatch.setenv("LIMIT", "2g")
        with pytest.raises(InputError) as caught:
            request_for(tmp_path, {**spark, "driver_memory": "${LIMIT}"}, store)
        assert f"Set `{prefix}LIMIT` in `spark.conf`" in str(caught.value.hint)
        conf = {f"{prefix}LIMIT": "2g"}
        assert request_for(tmp_path, {**spark, "driver_memory": "${LIMIT}", "conf": conf}, store)


class TestStates:
    @pytest.mark.parametrize(
        ("answers", "expected"),
        [
            ([recorded.emr_run("QUEUED")], DriverStatus("waiting")),
            ([recorded.emr_run("CANCELLING")], DriverStatus("running")),
            (
                [recorded.emr_run("SUCCESS")],
                DriverStatus("ended", True, f"as SUCCESS on EMR Serverless ({recorded.JOB_RUN})"),
            ),
            (
                [recorded.emr_run("FAILED", recorded.EMR_FAILED)],
                DriverStatus(
                    "ended",
                    False,
                    f"as FAILED on EMR Serverless ({recorded.JOB_RUN}): {recorded.EMR_FAILED}",
                ),
            ),
            (
                [
                    recorded.emr_error(
                        "GET",
                        f"{recorded.EMR_JOBS}/{recorded.JOB_RUN}",
                        "ResourceNotFoundException",
                        "Job run 00fz2kr8ok7q1h27 does not exist",
                        404,
                    )
                ],
                DriverStatus(
                    "ended", None, f"and EMR Serverless does not know {recorded.JOB_RUN} any more"
                ),
            ),
        ],
    )
    def test_of_emr_serverless(
        self, tmp_path: Path, service: ManagedService, answers: list[Answer], expected: DriverStatus
    ) -> None:
        loaded = loaded_for(EMR_CASE, service, tmp_path)
        service.says(EMR_CASE.listed, *answers)
        assert asked_now(loaded) == expected

    @pytest.mark.parametrize(
        ("answers", "expected"),
        [
            ([recorded.databricks_run("QUEUED")], DriverStatus("waiting")),
            ([recorded.databricks_run("TERMINATING", "CANCELED")], DriverStatus("running")),
            (
                [recorded.databricks_run("TERMINATED", "SUCCESS")],
                DriverStatus("ended", True, f"as SUCCESS on Databricks (run {recorded.RUN})"),
            ),
            (
                list(DATABRICKS_CASE.failed),
                DriverStatus(
                    "ended",
                    False,
                    f"as FAILED on Databricks (run {recorded.RUN}): Workload failed, see run "
                    f"output: {recorded.MISSING_MODULE}",
                ),
            ),
            (
                [
                    recorded.databricks_run("INTERNAL_ERROR", message="Unexpected failure"),
                    Answer("GET", recorded.DATABRICKS_OUTPUT.path, {}),
                ],
                DriverStatus(
                    "ended",
                    False,
                    f"as INTERNAL_ERROR on Databricks (run {recorded.RUN}): Unexpected failure",
                ),
            ),
            (
                [
                    recorded.databricks_run("TERMINATED", "CANCELED", "Cancelled by etl"),
                    Answer(
                        "GET",
                        recorded.DATABRICKS_OUTPUT.path,
                        {"error_code": "INVALID_STATE", "message": "Run result is empty."},
                        400,
                    ),
                ],
                DriverStatus(
                    "ended",
                    False,
                    f"as CANCELED on Databricks (run {recorded.RUN}): Cancelled by etl",
                ),
            ),
            (
                [
                    Answer(
                        "GET",
                        recorded.databricks_run("RUNNING").path,
                        {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Run does not exist"},
                        404,
                    )
                ],
                DriverStatus(
                    "ended", None, f"and Databricks does not know run {recorded.RUN} any more"
                ),
            ),
        ],
    )
    def test_of_databricks(
        self, tmp_path: Path, service: ManagedService, answers: list[Answer], expected: DriverStatus
    ) -> None:
        loaded = loaded_for(DATABRICKS_CASE, service, tmp_path)
        service.says(DATABRICKS_CASE.listed, *answers)
        assert asked_now(loaded) == expected

    def test_no_answer_is_not_an_end(
        self, tmp_path: Path, service: ManagedService, case: Case
    ) -> None:
        loaded = loaded_for(case, service, tmp_path)
        service.says(case.forbidden)
        status = asked_now(loaded)
        assert status.state == "unknown"
        assert re.search("not authorized|does not have the permission", status.reason)

    def test_no_login_is_not_an_end(
        self,
        tmp_path: Path,
        service: ManagedService,
        case: Case,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "DATABRICKS_TOKEN"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        status = asked_now(loaded_for(case, service, tmp_path))
        assert status.state == "unknown"
        assert f"{case.name} can't be asked" in status.reason


def asked_now(loaded: LoadedPipeline) -> DriverStatus:
    launch = launched(loaded)
    generation = loaded.require_generation()
    log = generation.path(launch.log)
    return launcher_at(launch.place, generation, log).status(launch)


def test_a_launch_of_another_machine_is_not_taken_for_an_earlier_one_of_this_one(
    tmp_path: Path, service: ManagedService, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    loaded = loaded_for(case, service, tmp_path)
    launch = launched(loaded, host="worker-7")
    # As of a state in a store: each machine has the logs of its own launches.
    generation = Elsewhere(loaded.require_generation())
    earlier = local_path(generation, launch.log)
    earlier.parent.mkdir(parents=True)
    earlier.write_text(f"{launcher.SUBMITTED.format('1', case.name)}\n")
    service.says(case.listed, case.running)
    driver = DriverState.of(generation, launch)
    assert driver.status() == DriverStatus("running")
    asked = service.asked[-1]
    assert re.search(f"{recorded.JOB_RUN}|{recorded.RUN}", f"{asked.path}?{asked.query}")
    assert "Submitted" not in driver.last_lines(9)


def test_how_a_launch_of_another_machine_failed_is_told_without_a_log_of_it(
    tmp_path: Path, service: ManagedService, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    loaded = loaded_for(case, service, tmp_path)
    launch = launched(loaded, host="worker-7")
    service.says(case.listed, *case.failed)
    run = WatchedRun(DriverState.of(Elsewhere(loaded.require_generation()), launch))
    assert f"as FAILED on {case.name}" in str(run.failure())


class Elsewhere(Generation):
    """A generation as if its state folder were in a store."""

    def __init__(self, generation: Generation) -> None:
        vars(self).update(vars(generation))

    @property
    def is_local(self) -> bool:
        return False


def test_a_run_is_launched_followed_and_its_failure_told(
    tmp_path: Path, service: ManagedService, case: Case
) -> None:
    loaded = loaded_for(case, service, tmp_path)
    generation = loaded.open_generation(create=True)
    assert generation is not None
    service.says(case.started, *case.failed)
    printed: list[str] = []
    with pytest.raises(
        RunError, match=rf"as FAILED on {case.name} (.|\n)*{recorded.MISSING_MODULE}"
    ):
        run_to_end(loaded, generation, ["history"], on_output=printed.append)
    assert [line for line in printed if f"to {case.name}" in line]
    (sent,) = service.bodies(case.started.path)
    found = last_launch(generation)
    assert found is not None
    # By what it is found again, and not started twice.
    assert sent[case.token] == found.application
    assert found.place == driver_place(loaded.pipeline.spark)
    assert why_ended(generation, "history")
    assert find_run(generation, "history") is None


def test_an_answer_that_is_lost_starts_no_second_run(
    tmp_path: Path, service: ManagedService, case: Case
) -> None:
    loaded = loaded_for(case, service, tmp_path)
    generation = loaded.open_generation(create=True)
    assert generation is not None
    lost = Answer("POST", case.started.path, {"message": "try again"}, 503)
    service.says(lost, case.started, case.running)
    run = find_or_launch(loaded, generation, ["history"], {})
    wait_for(lambda: "Submitted run" in run_log(loaded, "history"), "the second answer")
    tokens = {body[case.token] for body in service.bodies(case.started.path)}
    assert len(service.bodies(case.started.path)) == 2
    assert tokens == {run.driver.launch.application}


def run_log(loaded: LoadedPipeline, source: str) -> str:
    path = loaded.require_generation().path(f"run/{source}.log")
    return path.read_text() if path.exists() else ""


def test_a_request_that_is_refused_is_an_end_with_its_reason(
    tmp_path: Path, service: ManagedService
) -> None:
    loaded = loaded_for(EMR_CASE, service, tmp_path)
    generation = loaded.open_generation(create=True)
    assert generation is not None
    refusal = recorded.emr_error(
        "POST", recorded.EMR_JOBS, "ValidationException", "Application is in state STOPPED", 400
    )
    service.says(refusal, EMR_CASE.none_listed)
    with pytest.raises(RunError, match=r"knows no run of it(.|\n)*in state STOPPED"):
        run_to_end(loaded, generation, ["history"])


def test_a_run_is_found_again_by_its_name_if_nobody_wrote_down_its_id(
    tmp_path: Path, service: ManagedService, case: Case
) -> None:
    loaded = loaded_for(case, service, tmp_path)
    launched(loaded)
    service.says(case.listed, case.waiting)
    assert find_run(loaded.require_generation(), "inbox") is not None
    asked = [each.path for each in service.asked if ".well-known" not in each.path]
    assert asked == [case.listed.path, case.waiting.path]
    service.says(case.none_listed)
    assert find_run(loaded.require_generation(), "inbox") is None


def test_nothing_is_asked_while_its_driver_is_heard(
    tmp_path: Path, service: ManagedService, case: Case
) -> None:
    loaded = loaded_for(case, service, tmp_path)
    launched(loaded)
    beat(loaded, "running")
    with QueryLock(loaded.require_generation()):
        assert find_run(loaded.require_generation(), "inbox") is not None
    assert service.asked == []


def test_nothing_is_launched_while_nobody_can_tell_whether_a_run_is_there(
    tmp_path: Path, service: ManagedService, case: Case
) -> None:
    loaded = loaded_for(case, service, tmp_path)
    made = launched(loaded)
    service.says(case.forbidden)
    generation = loaded.require_generation()
    with pytest.raises(UnavailableError, match=r"unknown whether .* Nothing was started"):
        find_or_launch(loaded, generation, ["inbox"], {})
    with pytest.raises(StateError, match="A run of `inbox` is active"):
        find_or_launch(loaded, generation, ["history"], {})
    assert last_launch(generation) == made
    assert service.bodies(case.started.path) == []
    with pytest.raises(UnavailableError, match="can't be asked, so it is unknown"):
        stop(generation, "inbox")


def test_a_run_is_cancelled_and_its_end_waited_for(
    tmp_path: Path, service: ManagedService, case: Case
) -> None:
    loaded = loaded_for(case, service, tmp_path)
    launched(loaded)
    beat(loaded, "running")

    def answer_to(asked: recorded.Asked) -> Answer:
        service.asked.append(asked)
        cancels = [each for each in service.asked if each.path == case.cancelled.path]
        is_cancelled = any(each.method == case.cancelled.method for each in cancels)
        asks = [each for each in service.asked if each.path == case.running.path]
        if (asked.method, asked.path) == (case.cancelled.method, case.cancelled.path):
            return case.cancelled
        if asked.path == case.listed.path:
            return case.listed
        return case.ended if is_cancelled and len(asks) > 5 else case.running

    service.answer_to = answer_to  # type: ignore[method-assign]
    assert stop(loaded.require_generation(), "inbox")
    assert [each for each in service.asked if each.path == case.running.path][5:]
    # A driver that was cancelled is not taken for one that died.
    said = read_heartbeat(loaded.require_generation(), "inbox")
    assert said is not None
    assert said.state == "stopped"


def test_a_run_that_does_not_end_is_told(
    tmp_path: Path, service: ManagedService, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "GONE_WITHIN_S", 0.05)
    loaded = loaded_for(case, service, tmp_path)
    launched(loaded)
    service.says(case.listed, case.running, case.cancelled)
    with pytest.raises(RunError, match=rf"{case.name} did not end run .* Don't start another run"):
        stop(loaded.require_generation(), "inbox")
