"""A secured broker, declared once: the whole chain signs in, and the password stays unseen."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.servers.broker import LocalBroker
from hybrid_extensions.servers.secured import SecuredListeners
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from sources.config.loader import load_pipeline
from sources.errors import InputError
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.context import PipelineContext
from spark_jobs.launch.launch_record import last_launch
from spark_jobs.run_state.heartbeat import read_heartbeat
from tests.e2e.case import Case, live_of
from tests.services.listening import command_of, listening, session_of
from tests.services.secured_case import Certificates

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
PASSWORD = "correct horse battery staple"
# What Spark and this project find in the environment by themselves, or by reference.
PLANTED = {
    "AWS_ACCESS_KEY_ID": "AKIAPLANTEDPLANTED00",
    "AWS_SECRET_ACCESS_KEY": "planted-aws-secret-000000",
    "AWS_SESSION_TOKEN": "planted-aws-token-0000000",
    "HOOK": "http://127.0.0.1:1/planted-hook-0000",
    "MYSQL_PWD": "planted-mysql-0000",
    "PGPASSWORD": "planted-postgres-0000",
}
# The id of a key is no secret.
SECRETS = [PASSWORD, *(value for name, value in PLANTED.items() if name != "AWS_ACCESS_KEY_ID")]
SQL = "sql?details=true&length=1000"
PAGES = ["jobs", "stages", "storage", "environment", "executors", "SQL", "StreamingQuery"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalBroker, Certificates]]:
    files = Certificates.make(tmp_path_factory.mktemp("certificates"))
    listeners = SecuredListeners(
        protocols=("SASL_SSL", "SASL_PLAINTEXT"),
        users={"ada": PASSWORD},
        certificate=files.certificate("broker"),
        key=files.key("broker"),
    )
    with LocalBroker(secured=listeners) as running:
        yield running, files


def case_on(
    folder: Path,
    broker: tuple[LocalBroker, Certificates],
    *,
    with_ui: bool = False,
    **changed: Any,
) -> Case:
    running, files = broker
    case = Case(folder, running.bootstrap_servers)
    case.write_history()
    case.produce(range(500, 1200))
    # Relative paths start at the pipeline's file, as all of them do.
    (folder / "ca.pem").write_bytes(files.ca.read_bytes())
    security = {
        "protocol": "SASL_SSL",
        "mechanism": "SCRAM-SHA-512",
        "username": "ada",
        "password": "${KAFKA_PASSWORD}",
        "ca": "ca.pem",
        **changed,
    }

    def secured(document: dict[str, Any]) -> None:
        document["sources"][1]["security"] = security
        document["sources"][1]["bootstrap_servers"] = running.address("SASL_SSL")
        document["supervision"] = {"webhook": "${HOOK:-}"}
        document["spark"]["conf"]["spark.ui.enabled"] = str(with_ui).lower()

    case.pipeline(secured)
    return case


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)


def hybrid(case: Case, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.prefix) / "bin" / "hybrid"), *arguments, str(case.folder / "events.yaml"),
         "--json"],
        capture_output=True, text=True, check=False, cwd=case.folder,
    )  # fmt: skip


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def shown_by_spark(ui: str) -> dict[str, str]:
    """What Spark's UI and its REST API show of a driver, by path."""
    found = {page: get(f"{ui}/{page}/") for page in PAGES}
    api = f"{ui}/api/v1/applications"
    (application,) = json.loads(get(api))
    paths = ["environment", "jobs", "stages", "executors", SQL]
    found |= {f"api/{path}": get(f"{api}/{application['id']}/{path}") for path in paths}
    for run in sorted(set(re.findall(r"statistics/?\?id=([0-9a-f-]+)", found["StreamingQuery"]))):
        found[f"query {run}"] = get(f"{ui}/StreamingQuery/statistics/?id={run}")
    for each in json.loads(found[f"api/{SQL}"])[-5:]:
        number = each["id"]
        found[f"execution {number}"] = get(f"{ui}/SQL/execution/?id={number}")
    return found


def test_the_chain_signs_in_by_a_file_and_no_secret_is_seen_anywhere(
    tmp_path: Path, broker: tuple[LocalBroker, Certificates], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secrets" / "password"
    secret.parent.mkdir()
    secret.write_text(f"{PASSWORD}\n")
    case = case_on(tmp_path, broker, with_ui=True)
    monkeypatch.delenv("KAFKA_PASSWORD")
    monkeypatch.setenv("KAFKA_PASSWORD_FILE", str(secret))
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)
    loaded = load_pipeline(tmp_path / "events.yaml")
    try:
        runs = [hybrid(case, name) for name in ("validate", "plan", "run")]
        wait_until_caught_up(PipelineContext.require(loaded))
        runs += [hybrid(case, name) for name in ("status", "audit", "report")]
        assert [run.returncode for run in runs] == [0] * 6, [run.stderr for run in runs]
        generation = loaded.require_generation()
        launch, beat = last_launch(generation), read_heartbeat(generation, "live")
        assert launch is not None
        assert launch.group is not None
        assert beat is not None
        assert beat.ui_url is not None
        processes = session_of(launch.group)
        commands = [command_of(pid) for pid in processes]
        addresses = listening(processes)
        shown = shown_by_spark(beat.ui_url)
    finally:
        stopping.stop(loaded)
    report = json.loads(runs[4].stdout)
    assert (report["expected"], report["ok"]) == (1200, True)

    # JVM, Python driver and Python workers; among their sockets are those of Spark's UI.
    assert len(processes) >= 3
    assert addresses == {"127.0.0.1"}
    assert "/kill/" not in shown["jobs"] + shown["stages"]

    # Each place has what belongs there, so that what is not there was left out.
    assert any(str(tmp_path / "events.yaml") in command for command in commands)
    assert "AKIA" not in "".join(commands)
    assert "hybrid events" in shown["environment"]
    assert '"spark.sql.redaction.options.regex"' in shown["environment"]
    assert '"fs.s3a.secret.key", "*********(redacted)"' in shown["api/environment"]
    assert "MicroBatchScan" in shown[f"api/{SQL}"]
    places = {f"output of {number}": run.stdout + run.stderr for number, run in enumerate(runs)}
    places |= {f"command {number}": command for number, command in enumerate(commands)}
    places |= shown
    assert [place for place, text in places.items() if any(one in text for one in SECRETS)] == []
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != secret]
    # The log of both Spark runs is among them.
    assert sum(path.suffix == ".log" for path in written) >= 1
    found = [path for path in written if any(s.encode() in path.read_bytes() for s in SECRETS)]
    assert found == []


def test_a_wrong_password_is_told_before_anything_is_read(
    tmp_path: Path, broker: tuple[LocalBroker, Certificates], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_on(tmp_path, broker)
    monkeypatch.setenv("KAFKA_PASSWORD", "wrong horse")
    run = hybrid(case, "plan")
    assert run.returncode == 2
    assert "refuses the login" in json.loads(run.stdout)["message"]
    assert "invalid credentials" in json.loads(run.stdout)["message"]
    assert "wrong horse" not in run.stdout + run.stderr
    assert not (tmp_path / "state").exists()


def test_an_authority_that_nobody_trusts_is_told(
    tmp_path: Path, broker: tuple[LocalBroker, Certificates]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    case = case_on(tmp_path, broker)
    (tmp_path / "ca.pem").write_bytes(Certificates.make(other).ca.read_bytes())
    with pytest.raises(InputError, match=r"refuses the login: .*certificate"):
        KafkaLog(live_of(load_pipeline(case.folder / "events.yaml")))


def test_a_password_in_the_file_is_refused_without_showing_it(
    tmp_path: Path, broker: tuple[LocalBroker, Certificates]
) -> None:
    with pytest.raises(InputError) as caught:
        case_on(tmp_path, broker, password="plain horse")
    assert "`sources[1].security.password` is written in plain text in the file" in str(
        caught.value
    )
    assert "plain horse" not in str(caught.value)
