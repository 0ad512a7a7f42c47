"""Launchers of clusters: what they ask, word for word, and what they make of recorded answers."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.clusters import kubernetes, yarn
from hybrid_extensions.clusters.tools import Answer
from orchestration.supervision.live_look import look_at_live
from sources.errors import InputError, RunError, StateError, UnavailableError
from spark_jobs.jvm.jar_sets import excludes, packages
from spark_jobs.jvm.spark_version import installed_parts
from spark_jobs.jvm.storage_jar import CONF, JAR, LOG_STORE, ON_DISK
from spark_jobs.launch import driver_state
from spark_jobs.launch.launch_record import Place, last_launch
from spark_jobs.launch.places.base import DriverStatus
from spark_jobs.launch.places.choice import driver_place
from spark_jobs.launch.run_control import find_running, run_to_end, stop
from spark_jobs.launch.runs import find_or_launch, find_run, why_ended
from spark_jobs.launch.submission import spark_properties, submit
from spark_jobs.run_state.driver_lock import QueryLock
from spark_jobs.run_state.heartbeat import read_heartbeat
from spark_jobs.run_state.requested_state import read_requested, request
from tests.extensions import whole
from tests.hybrid_extensions.clusters import recorded_answers as recorded
from tests.services.processes import wait_for
from tests.spark_jobs.launch.launch_case import ID, NAME, beat, launched, pipeline

TOOL = """#!{python}
import json, sys
from pathlib import Path
here = Path(__file__).resolve().parent
tool = Path(__file__).name
with (here / "asked").open("a") as asked:
    asked.write(json.dumps([tool, *sys.argv[1:]]) + "\\n")
answers = json.loads((here / "answers.json").read_text())
for words, answer in answers:
    if all(word in [tool, *sys.argv[1:]] for word in words):
        sys.stdout.write(answer["output"])
        sys.stderr.write(answer["errors"])
        sys.exit(answer["status"])
sys.exit(f"nobody taught {{tool}} to answer {{sys.argv[1:]}}")
"""


class Tools:
    """``yarn``, ``kubectl`` and ``spark-submit`` that repeat what was recorded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "bin").mkdir()
        for name in ("yarn", "kubectl", "spark-submit"):
            script = folder / name
            script.write_text(TOOL.format(python=os.sys.executable))  # type: ignore[attr-defined]
            script.chmod(0o755)
        (folder / "bin" / "spark-submit").symlink_to(folder / "spark-submit")
        self.says()

    def says(self, *answers: tuple[list[str], int, str, str]) -> None:
        """The first answer counts of which all words are in the question."""
        told = [
            (words, {"status": status, "output": output, "errors": errors})
            for words, status, output, errors in answers
        ]
        (self.folder / "answers.json").write_text(json.dumps(told))

    @property
    def asked(self) -> list[list[str]]:
        path = self.folder / "asked"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    made = Tools(tmp_path / "tools")
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    monkeypatch.setenv("SPARK_HOME", str(made.folder))
    # Each question counts.
    monkeypatch.setattr(driver_state, "ASK_AGAIN_S", 0.0)
    return made


K8S: dict[str, Any] = {
    "master": "k8s://https://10.0.0.1:6443",
    "conf": {
        "spark.kubernetes.container.image": "registry/hybrid:1",
        "spark.kubernetes.namespace": "spark",
        "spark.kubernetes.context": "prod",
    },
}
YARN = {"master": "yarn"}
KUBECTL = ["kubectl", "--context", "prod", "--server", "https://10.0.0.1:6443"]
KUBECTL += ["--namespace", "spark"]
LIST = ["yarn", "application", "-list", "-appTags", NAME, "-appStates", "ALL"]
STATUS = ["yarn", "application", "-status", recorded.APPLICATION]


def conf_of(command: list[str]) -> dict[str, str]:
    pairs = itertools.pairwise(command)
    return dict(value.split("=", 1) for flag, value in pairs if flag == "--conf")


class TestSettings:
    @pytest.mark.parametrize(
        ("spark", "complaint"),
        [
            (
                {"master": "spark://a:7077", "deploy_mode": "cluster"},
                "`deploy_mode: cluster` is not supported with `master: spark://a:7077`",
            ),
            (
                {"deploy_mode": "cluster"},
                r"`deploy_mode: cluster` is not supported with `master: local\[\*\]`",
            ),
            ({"master": "mesos://a"}, "`master: mesos://a` is not a master that is supported"),
            (
                {"master": "yarn", "conf": {"spark.yarn.tags": "x"}},
                "`conf` can't set `spark.yarn.tags`: runs are started and found by it",
            ),
            ({"master": "k8s://a"}, "Set `spark.kubernetes.container.image` in `conf`"),
            ({"job_file": "/job.py"}, "`job_file` has a meaning on Kubernetes"),
        ],
    )
    def test_what_spark_does_not_have_is_refused_by_name(
        self, tmp_path: Path, spark: dict[str, Any], complaint: str
    ) -> None:
        with pytest.raises(InputError, match=complaint):
            pipeline(tmp_path, spark)

    @pytest.mark.parametrize(
        ("spark", "place"),
        [
            ({}, Place()),
            ({"master": "spark://a:7077"}, Place()),
            ({"master": "yarn", "deploy_mode": "client"}, Place()),
            (YARN, Place(kind="yarn")),
            (
                K8S,
                Place(
                    kind="kubernetes",
                    server="https://10.0.0.1:6443",
                    context="prod",
                    namespace="spark",
                ),
            ),
            (
                {"master": "k8s://a:6443", "conf": {"spark.kubernetes.container.image": "x"}},
                Place(kind="kubernetes", server="https://a:6443", namespace="default"),
            ),
        ],
    )
    def test_the_driver_runs_on_the_cluster_where_that_exists(
        self, tmp_path: Path, spark: dict[str, Any], place: Place
    ) -> None:
        assert driver_place(pipeline(tmp_path, spark).pipeline.spark) == place


class TestCommands:
    def test_yarn(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(submit, "resolve", lambda name: [Path(f"/jars/{name}.jar")])
        loaded = pipeline(tmp_path, YARN)
        generation = loaded.open_generation(create=True)
        assert generation is not None
        command = submit.command(loaded, ["history"], ID)
        conf = conf_of(command)
        assert conf["spark.master"] == "yarn"
        assert conf["spark.submit.deployMode"] == "cluster"
        assert conf["spark.yarn.tags"] == NAME
        assert conf["spark.yarn.submit.waitAppCompletion"] == "false"
        assert conf["spark.yarn.maxAppAttempts"] == "1"
        assert conf["spark.executorEnv.PYTHONPATH"].startswith(str(tmp_path))
        # Nothing that lies on the machine that launches alone.
        assert not [name for name in conf if "extraJavaOptions" in name or "dir" in name]
        job = str(spark_properties.PACKAGE / "job.py")
        told = ["--pipeline", str(loaded.path), "--source", "history", "--launch-id", ID]
        # What the driver's Spark is compared with, as the cluster may have another one.
        told += ["--spark", version("pyspark")]
        assert command[-11:] == ["--jars", "/jars/spark.jar", job, *told]

    def test_kubernetes(self, tmp_path: Path) -> None:
        loaded = pipeline(tmp_path, {**K8S, "job_file": "/opt/hybrid/spark_jobs/job.py"})
        generation = loaded.open_generation(create=True)
        assert generation is not None
        command = submit.command(loaded, ["history"], ID)
        conf = conf_of(command)
        assert conf["spark.submit.deployMode"] == "cluster"
        assert conf["spark.kubernetes.driver.pod.name"] == NAME
        assert conf["spark.kubernetes.submission.waitAppCompletion"] == "false"
        assert conf["spark.kubernetes.driverEnv.PYTHONPATH"] == str(tmp_path)
        assert conf["spark.executorEnv.PYTHONPATH"] == str(tmp_path)
        assert conf["spark.jars.packages"] == packages("spark")
        assert conf["spark.jars.excludes"] == excludes("spark")
        assert "--jars" not in command
        assert "spark.pyspark.python" not in conf
        assert command[-9] == "local:///opt/hybrid/spark_jobs/job.py"

    def test_a_pod_fetches_the_object_store_without_the_bundle(self, tmp_path: Path) -> None:
        files = {"name": "history", "type": "files", "path": "s3://a/*.parquet"}
        source = {**files, "format": "parquet"}
        loaded = pipeline(tmp_path, K8S, sources=[source], s3={"region": "eu-central-1"})
        generation = loaded.open_generation(create=True)
        assert generation is not None
        conf = conf_of(submit.command(loaded, ["history"], ID))
        assert conf["spark.jars.packages"] == f"{packages('spark')},{packages('s3')}"
        assert conf["spark.jars.excludes"] == excludes("spark", "s3")

    @pytest.mark.parametrize("what", ["state", "target"])
    @pytest.mark.parametrize("spark", [{}, K8S])
    def test_what_is_written_to_an_object_store_is_written_by_condition(
        self, tmp_path: Path, what: str, spark: dict[str, Any]
    ) -> None:
        sink = {"path": "out", "mode": "append", "key": ["id"]}
        places: dict[str, dict[str, Any]] = {
            "state": {"state": "s3://lake/state"},
            "target": {"sink": {**sink, "path": "s3://lake/out"}},
        }
        place = {"job_file": "/opt/hybrid/spark_jobs/job.py"} if spark else {}
        loaded = pipeline(tmp_path, {**spark, **place}, **places[what])
        command = submit.command(loaded, ["history"], ID)
        conf = conf_of(command)
        assert CONF.items() <= conf.items()
        jars = command[command.index("--jars") + 1].split(",")
        inside = "local:///opt/hybrid/spark_jobs/jvm/storage/hybrid-storage.jar"
        assert (inside if spark else str(JAR.path)) in jars

    @whole
    @pytest.mark.parametrize(
        ("variables", "expected"),
        [
            (
                {"AZURE_STORAGE_ACCOUNT_KEY": "s3cr3t", "AZURE_STORAGE_SAS_TOKEN": "sig=s3cr3t"},
                {
                    "account.auth.type.a.dfs.core.windows.net": "SharedKey",
                    "account.key.a.dfs.core.windows.net": "${env.AZURE_STORAGE_ACCOUNT_KEY}",
                },
            ),
            (
                {"AZURE_STORAGE_SAS_TOKEN": "sig=s3cr3t"},
                {
                    "account.auth.type.a.dfs.core.windows.net": "SAS",
                    "sas.fixed.token.a.dfs.core.windows.net": "${env.AZURE_STORAGE_SAS_TOKEN}",
                },
            ),
            (
                {
                    "AZURE_TENANT_ID": "tenant",
                    "AZURE_CLIENT_ID": "client",
                    "AZURE_STORAGE_CLIENT_SECRET": "s3cr3t",
                },
                {
                    "account.auth.type.a.dfs.core.windows.net": "OAuth",
                    "account.oauth.provider.type.a.dfs.core.windows.net": (
                        "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
                    ),
                    "account.oauth2.client.endpoint.a.dfs.core.windows.net": (
                        "https://login.microsoftonline.com/${env.AZURE_TENANT_ID}/oauth2/token"
                    ),
                    "account.oauth2.client.id.a.dfs.core.windows.net": "${env.AZURE_CLIENT_ID}",
                    "account.oauth2.client.secret.a.dfs.core.windows.net": (
                        "${env.AZURE_STORAGE_CLIENT_SECRET}"
                    ),
                },
            ),
            ({}, {}),
        ],
    )
    def test_spark_logs_in_to_azure_by_names_of_variables(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        variables: dict[str, str],
        expected: dict[str, str],
    ) -> None:
        monkeypatch.setattr(submit, "resolve", lambda name: [Path(f"/jars/{name}.jar")])
        for name in [name for name in os.environ if name.startswith("AZURE_")]:
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        loaded = pipeline(tmp_path, {}, state="abfss://c@a.dfs.core.windows.net/state")
        command = submit.command(loaded, ["history"], ID)
        prefix = "spark.hadoop.fs.azure."
        found = {name: value for name, value in conf_of(command).items() if prefix in name}
        assert found == {f"{prefix}{name}": value for name, value in expected.items()}
        assert command[command.index("--jars") + 1] == "/jars/spark.jar,/jars/azure.jar"
        assert not any("s3cr3t" in part for part in command)

    @pytest.mark.skipif(
        "google" in installed_parts().lacks, reason="this Hadoop has no client of it"
    )
    @pytest.mark.parametrize(
        ("variable", "expected"),
        [
            (
                "GOOGLE_SERVICE_ACCOUNT",
                {
                    "type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                    "service.account.json.keyfile": "${env.GOOGLE_SERVICE_ACCOUNT}",
                },
            ),
            ("GOOGLE_APPLICATION_CREDENTIALS", {"type": "APPLICATION_DEFAULT"}),
            (None, {}),
        ],
    )
    def test_spark_logs_in_to_google_by_names_of_variables(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        variable: str | None,
        expected: dict[str, str],
    ) -> None:
        for name in [name for name in os.environ if name.startswith("GOOGLE_")]:
            monkeypatch.delenv(name)
        if variable is not None:
            monkeypatch.setenv(variable, "/keys/account.json")
        files = {"name": "history", "type": "files", "path": "gs://a/*.parquet"}
        loaded = pipeline(tmp_path, K8S, sources=[{**files, "format": "parquet"}])
        generation = loaded.open_generation(create=True)
        assert generation is not None
        conf = conf_of(submit.command(loaded, ["history"], ID))
        prefix = "spark.hadoop.fs.gs.auth."
        found = {name: value for name, value in conf.items() if prefix in name}
        assert found == {f"{prefix}{name}": value for name, value in expected.items()}
        assert conf["spark.jars.packages"] == f"{packages('spark')},{packages('google')}"

    @pytest.mark.parametrize("settings", [{}, {"master": "spark://10.0.0.1:7077"}])
    def test_a_checkpoint_on_a_disk_is_written_without_hadoop_where_all_tasks_are_here(
        self, tmp_path: Path, settings: dict[str, Any]
    ) -> None:
        loaded = pipeline(tmp_path, settings)
        generation = loaded.open_generation(create=True)
        assert generation is not None
        command = submit.command(loaded, ["history"], ID)
        conf, is_here = conf_of(command), not settings
        assert LOG_STORE not in conf
        assert (ON_DISK.items() <= conf.items()) == is_here
        assert (str(JAR.path) in command[command.index("--jars") + 1]) == is_here

    def test_a_standalone_cluster_is_told_of_python_and_modules(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PYTHONPATH", "/more")
        conf = spark_properties.spark_conf(
            pipeline(tmp_path, {"master": "spark://a:7077"}), tmp_path
        )
        assert conf["spark.executorEnv.PYTHONPATH"] == f"{tmp_path}:/more"
        assert conf["spark.pyspark.python"] == sys.executable
        assert "spark.driver.host" not in conf

    @pytest.mark.parametrize(
        ("spark", "way"),
        [(YARN, "spark.yarn.appMasterEnv."), (K8S, "spark.kubernetes.driver.secretKeyRef.")],
    )
    def test_a_variable_that_the_driver_would_not_have_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: dict[str, Any], way: str
    ) -> None:
        monkeypatch.setenv("LATENESS", "1 h")
        monkeypatch.setenv("HOOK", "https://hook")
        changes: dict[str, Any] = {
            "allowed_lateness": "${LATENESS:-2 h}",
            "supervision": {"webhook": "${HOOK:-}"},
        }
        loaded = pipeline(tmp_path, spark, **changes)
        generation = loaded.open_generation(create=True)
        assert generation is not None
        with pytest.raises(InputError, match=f"variable LATENESS, .* Set `{way}LATENESS` in"):
            submit.command(loaded, ["history"], ID)
        monkeypatch.setattr(submit, "resolve", lambda name: [Path(f"/jars/{name}.jar")])
        for name in ("LATENESS", "LATENESS_FILE"):
            conf = {**spark.get("conf", {}), f"{way}{name}": "x"}
            loaded = pipeline(tmp_path, {**spark, "conf": conf}, **changes)
            assert submit.command(loaded, ["history"], ID)


class TestYarnAnswers:
    @pytest.mark.parametrize(
        ("state", "final", "expected"),
        [
            ("ACCEPTED", "UNDEFINED", DriverStatus("waiting")),
            ("RUNNING", "UNDEFINED", DriverStatus("running")),
            (
                "FINISHED",
                "SUCCEEDED",
                DriverStatus("ended", True, f"as SUCCEEDED on YARN ({recorded.APPLICATION})"),
            ),
        ],
    )
    def test_states(self, state: str, final: str, expected: DriverStatus) -> None:
        answer = Answer(0, recorded.report(state, final), "")
        assert yarn.read_status(recorded.APPLICATION, answer) == expected

    @pytest.mark.parametrize(
        ("state", "diagnostics", "told"),
        [
            ("FINISHED", "User application exited with status 2", "exited with status 2$"),
            ("KILLED", recorded.KILLED_BY_USER, "was killed by user root at 127.0.0.1$"),
            (
                "FAILED",
                recorded.KILLED_FOR_MEMORY,
                "out of memory; raise `spark.driver.memoryOverhead`: .*"
                "beyond the 'PHYSICAL' memory limit. Current usage: 1.3 GB of 1 GB",
            ),
        ],
    )
    def test_why_an_application_failed_is_told(
        self, state: str, diagnostics: str, told: str
    ) -> None:
        final = "KILLED" if state == "KILLED" else "FAILED"
        answer = Answer(0, recorded.report(state, final, diagnostics), "")
        status = yarn.read_status(recorded.APPLICATION, answer)
        assert (status.state, status.is_good) == ("ended", False)
        assert re.match(rf"as {final} on YARN \({recorded.APPLICATION}\): .*{told}", status.reason)
        # Command lines may hold anything.
        assert "s3cr3t" not in status.reason

    @given(
        st.sampled_from(["RUNNING", "FAILED"]),
        st.lists(st.sampled_from(["\n", "\t", "State : KILLED", "Final-State : SUCCEEDED", "x"])),
    )
    def test_diagnostics_are_anybodys_text(self, state: str, parts: list[str]) -> None:
        report = recorded.report(state, "FAILED", "".join(parts))
        status = yarn.read_status(recorded.APPLICATION, Answer(0, report, ""))
        expected = ("running", None) if state == "RUNNING" else ("ended", False)
        assert (status.state, status.is_good) == expected

    def test_no_answer_is_not_an_end(self) -> None:
        refused = yarn.read_status(
            recorded.APPLICATION, Answer(255, "", recorded.CONNECTION_REFUSED)
        )
        assert refused.state == "unknown"
        assert "Connection refused" in refused.reason
        forgotten = Answer(255, recorded.UNKNOWN_APPLICATION, "")
        status = yarn.read_status(recorded.APPLICATION, forgotten)
        assert (status.state, status.is_good) == ("ended", None)
        assert "YARN does not know application_" in status.reason


class TestKubernetesAnswers:
    @pytest.mark.parametrize(
        ("pod", "expected"),
        [
            (recorded.pod("Running"), DriverStatus("running")),
            (
                recorded.pod("Succeeded"),
                DriverStatus("ended", True, f"as Succeeded {recorded.POD}"),
            ),
            (
                recorded.pod(
                    "Pending",
                    containerStatuses=recorded.container(
                        "waiting",
                        reason="ImagePullBackOff",
                        message='Back-off pulling image "registry/hybrid:1"',
                    ),
                ),
                DriverStatus(
                    "waiting",
                    reason='ImagePullBackOff: Back-off pulling image "registry/hybrid:1"',
                ),
            ),
            (
                recorded.pod("Pending", conditions=recorded.UNSCHEDULED),
                DriverStatus("waiting", reason=f"Unschedulable: {recorded.INSUFFICIENT}"),
            ),
            (
                recorded.pod(
                    "Failed",
                    containerStatuses=recorded.container(
                        "terminated", exitCode=137, reason="OOMKilled"
                    ),
                ),
                DriverStatus(
                    "ended",
                    False,
                    f"as Failed {recorded.POD}: OOMKilled: out of memory; raise "
                    "`spark.driver.memoryOverhead`",
                ),
            ),
            (
                recorded.pod(
                    "Failed",
                    containerStatuses=recorded.container("terminated", exitCode=2, reason="Error"),
                ),
                DriverStatus("ended", False, f"as Failed {recorded.POD}: Error: exit status 2"),
            ),
            (
                recorded.pod("Failed", reason="Evicted", message=recorded.EVICTED),
                DriverStatus(
                    "ended", False, f"as Failed {recorded.POD}: Evicted: {recorded.EVICTED}"
                ),
            ),
            (
                recorded.pod(
                    "Running",
                    containerStatuses=[
                        {"name": "istio-proxy", "state": {"running": {}}},
                        *recorded.container("terminated", exitCode=137, reason="OOMKilled"),
                    ],
                ),
                DriverStatus(
                    "ended",
                    False,
                    "in its container on Kubernetes (pod hybrid-a): OOMKilled: out of memory; "
                    "raise `spark.driver.memoryOverhead`",
                ),
            ),
            (
                recorded.pod(
                    "Running",
                    containerStatuses=[
                        {"name": "init-proxy", "state": {"terminated": {"exitCode": 0}}},
                        *recorded.container("running"),
                    ],
                ),
                DriverStatus("running"),
            ),
            ("", DriverStatus("ended", None, "and Kubernetes has no pod hybrid-a")),
        ],
    )
    def test_phases(self, pod: str, expected: DriverStatus) -> None:
        assert kubernetes.read_status("hybrid-a", Answer(0, pod, "")) == expected

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            (Answer(1, "", recorded.REFUSED), "The connection to the server 10.0.0.1:6443 was"),
            (Answer(1, "", recorded.FORBIDDEN), "User .x. cannot get resource"),
            (Answer(1, "", recorded.NOT_LOGGED_IN), "You must be logged in"),
            (Answer(0, recorded.pod("Unknown"), ""), "its node does not answer"),
            (Answer(0, "<html>", ""), "reports no status of pod"),
        ],
    )
    def test_no_answer_is_not_an_end(self, answer: Answer, told: str) -> None:
        status = kubernetes.read_status("hybrid-a", answer)
        assert status.state == "unknown"
        assert re.search(told, status.reason)


class TestFoundAgain:
    def test_by_its_tag_if_nobody_wrote_down_its_id(self, tmp_path: Path, tools: Tools) -> None:
        loaded = pipeline(tmp_path, YARN)
        launched(loaded)
        tools.says(
            (["-list"], 0, recorded.listing(NAME, recorded.APPLICATION), ""),
            (["-status"], 0, recorded.report("ACCEPTED", "UNDEFINED"), ""),
        )
        assert find_run(loaded.require_generation(), "inbox") is not None
        assert tools.asked == [LIST, STATUS]
        assert find_run(loaded.require_generation(), "history") is None

    def test_by_its_id_once_spark_submit_has_told_it(self, tmp_path: Path, tools: Tools) -> None:
        loaded = pipeline(tmp_path, YARN)
        launched(loaded)
        log = loaded.require_generation().path("run/inbox.log")
        log.write_text(recorded.SUBMITTING)
        tools.says(
            (["-list"], 0, recorded.listing(NAME), ""),
            (["-status"], 0, recorded.report("RUNNING", "UNDEFINED"), ""),
        )
        # An id that YARN was about to get is none.
        assert find_run(loaded.require_generation(), "inbox") is None
        log.write_text(recorded.SUBMITTED)
        assert find_run(loaded.require_generation(), "inbox") is not None
        assert tools.asked[-1] == STATUS

    def test_by_the_name_of_its_pod(self, tmp_path: Path, tools: Tools) -> None:
        loaded = pipeline(tmp_path, K8S)
        launched(loaded)
        tools.says((["get"], 0, recorded.pod("Pending"), ""))
        assert find_run(loaded.require_generation(), "inbox") is not None
        times = ["--request-timeout", "10s"]
        shown = ["--ignore-not-found", "--output", "json"]
        assert tools.asked == [[*KUBECTL, *times, "get", "pod", NAME, *shown]]

    def test_without_a_question_while_its_driver_is_heard(
        self, tmp_path: Path, tools: Tools
    ) -> None:
        loaded = pipeline(tmp_path, K8S)
        launched(loaded)
        beat(loaded, "running")
        with QueryLock(loaded.require_generation()):
            assert find_run(loaded.require_generation(), "inbox") is not None
            assert find_running(loaded.require_generation(), "inbox") is not None
        assert tools.asked == []

    def test_not_once_its_driver_has_said_its_last_word(self, tmp_path: Path, tools: Tools) -> None:
        loaded = pipeline(tmp_path, K8S)
        launched(loaded)
        beat(loaded, "stopped")
        assert find_run(loaded.require_generation(), "inbox") is None
        assert tools.asked == []


@pytest.mark.parametrize(
    ("spark", "answer"),
    [
        (YARN, (["-list"], 255, "", recorded.CONNECTION_REFUSED)),
        (K8S, (["get"], 1, "", recorded.REFUSED)),
    ],
)
def test_nothing_is_launched_while_nobody_can_tell_whether_a_run_is_there(
    tmp_path: Path, tools: Tools, spark: dict[str, Any], answer: Any
) -> None:
    loaded = pipeline(tmp_path, spark)
    made = launched(loaded)
    tools.says(answer)
    generation = loaded.require_generation()
    with pytest.raises(UnavailableError, match=r"unknown whether .* Nothing was started"):
        find_or_launch(loaded, generation, ["inbox"], {})
    with pytest.raises(StateError, match="A run of `inbox` is active"):
        find_or_launch(loaded, generation, ["history"], {})
    assert last_launch(generation) == made
    assert not [asked for asked in tools.asked if asked[0] == "spark-submit"]
    assert find_run(generation, "inbox") is not None
    with pytest.raises(
        (RunError, UnavailableError), match=r"`hybrid stop P.*` again once|Check wh"
    ):
        stop(generation, "inbox")


@pytest.mark.parametrize(
    ("spark", "answers", "told"),
    [
        (
            YARN,
            [
                (["-list"], 0, recorded.listing(NAME, recorded.APPLICATION), ""),
                (["-status"], 0, recorded.report("FAILED", "FAILED", "disk full"), ""),
            ],
            rf"as FAILED on YARN \({recorded.APPLICATION}\): disk full",
        ),
        (K8S, [(["get"], 0, "", "")], f"and Kubernetes has no pod {NAME}"),
    ],
)
def test_how_a_driver_ended_is_told_to_the_supervisor(
    tmp_path: Path, tools: Tools, spark: dict[str, Any], answers: Any, told: str
) -> None:
    loaded = pipeline(tmp_path, spark)
    launched(loaded)
    beat(loaded, "running")
    request(loaded.require_generation(), "inbox", is_requested=True)
    tools.says(*answers)
    # A request that is older than the launch.
    moved = read_requested(loaded.require_generation())
    assert moved is not None
    loaded.require_generation().replace("run/requested.json", moved.model_copy(update={"at_ms": 0}))
    look = look_at_live(loaded, loaded.require_generation())
    assert look is not None
    assert look.verdict.health == "dead"
    assert re.match(f"The live run ended {told}", look.verdict.reason)


@pytest.mark.parametrize(
    ("spark", "answers", "asked"),
    [
        (
            YARN,
            [
                (["-list"], 0, recorded.listing(NAME, recorded.APPLICATION), ""),
                (["-status"], 0, recorded.report("RUNNING", "UNDEFINED"), ""),
                (["-kill"], 0, recorded.KILLING, ""),
            ],
            ["yarn", "application", "-kill", recorded.APPLICATION],
        ),
        (
            K8S,
            [(["get"], 0, recorded.pod("Running"), ""), (["delete"], 0, 'pod "x" deleted\n', "")],
            [
                *KUBECTL,
                *["delete", "pod", NAME, "--ignore-not-found", "--wait"],
                *["--grace-period", "20", "--timeout", "90s"],
            ],
        ),
    ],
)
def test_a_run_is_stopped_by_the_cluster(
    tmp_path: Path, tools: Tools, spark: dict[str, Any], answers: Any, asked: list[str]
) -> None:
    loaded = pipeline(tmp_path, spark)
    launched(loaded)
    beat(loaded, "running")
    tools.says(*answers)
    assert stop(loaded.require_generation(), "inbox")
    assert tools.asked[-1] == asked
    # A driver that was killed is not taken for one that died.
    said = read_heartbeat(loaded.require_generation(), "inbox")
    assert said is not None
    assert said.state == "stopped"


@pytest.mark.parametrize(
    ("spark", "answers", "told"),
    [
        (
            YARN,
            [
                (["-status"], 0, recorded.report("FINISHED", "FAILED", "status 2"), ""),
                (["logs"], 0, recorded.DRIVER_LOG, ""),
            ],
            r"as FAILED on YARN .*: status 2\. The last lines:\n(.|\n)*No module named 'features'",
        ),
        (
            K8S,
            [
                (["get"], 0, recorded.FAILED_POD, ""),
                (["logs"], 0, "No module named 'features'\n", ""),
            ],
            r"as Failed .*: exit status 2\. The last lines:\nNo module named 'features'",
        ),
    ],
)
def test_a_run_is_launched_followed_and_its_failure_told(
    tmp_path: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch,
    spark: dict[str, Any], answers: Any, told: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(submit, "resolve", lambda name: [Path(f"/jars/{name}.jar")])
    loaded = pipeline(tmp_path, spark)
    generation = loaded.open_generation(create=True)
    assert generation is not None
    tools.says((["--launch-id"], 0, "", recorded.SUBMITTED), *answers)
    printed: list[str] = []
    with pytest.raises(RunError, match=told):
        run_to_end(loaded, generation, ["history"], on_output=printed.append)
    told_job = ["--pipeline", str(loaded.path), "--generation", "g1", "--source", "history"]
    assert tools.asked[0][-8:-2] == told_job
    assert [line for line in printed if "Submitted application" in line]
    # What the cluster may forget is kept beside the state.
    assert "No module named 'features'" in generation.path("run/history.log").read_text()
    found = last_launch(generation)
    assert found is not None
    assert found.place == driver_place(loaded.pipeline.spark)
    assert why_ended(generation, "history")
    # It is not there any more: the next one is a launch of its own.
    assert find_run(generation, "history") is None


def test_what_is_left_of_a_run_makes_way_for_the_next_one(
    tmp_path: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "resolve", lambda name: [Path(f"/jars/{name}.jar")])
    loaded = pipeline(tmp_path, K8S)
    launched(loaded)
    beat(loaded, "failed")
    tools.says(
        (["get", NAME], 0, recorded.pod("Running"), ""),
        (["delete"], 0, 'pod "x" deleted\n', ""),
        (["--launch-id"], 0, "", ""),
        (["get"], 0, recorded.pod("Pending"), ""),
    )
    run = find_or_launch(loaded, loaded.require_generation(), ["inbox"], {})
    wait_for(lambda: tools.asked[-1][0] == "spark-submit", "the next launch")
    assert tools.asked[-2][len(KUBECTL) :][:3] == ["delete", "pod", NAME]
    found = last_launch(loaded.require_generation())
    assert found is not None
    assert found.launch_id != ID
    run.end()


def test_without_the_clusters_tool_nothing_is_launched(
    tmp_path: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "resolve", lambda name: [Path(f"/jars/{name}.jar")])
    loaded = pipeline(tmp_path, YARN)
    generation = loaded.open_generation(create=True)
    assert generation is not None
    (tools.folder / "yarn").unlink()
    with pytest.raises(InputError, match="There is no command `yarn` on the PATH"):
        find_or_launch(loaded, generation, ["history"], {})
    assert last_launch(generation) is None
    assert tools.asked == []


def test_a_driver_of_another_machine_is_not_signalled(tmp_path: Path) -> None:
    loaded = pipeline(tmp_path, {})
    launched(loaded, host="elsewhere")
    beat(loaded, "running")
    with (
        QueryLock(loaded.require_generation()),
        pytest.raises(
            RunError, match=r"4000000 on worker-7, .* stop P --generation g1` on worker-7"
        ),
    ):
        stop(loaded.require_generation(), "inbox")
