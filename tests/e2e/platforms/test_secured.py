"""A secured broker, declared once: the whole chain signs in, and the password stays unseen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestration import operations
from services.broker import LocalBroker
from services.secured import SecuredListeners
from sources.config.loader import load_pipeline
from sources.errors import InputError
from sources.kafka.client import KafkaLog
from tests.e2e.case import Case, live_of
from tests.services.secured_case import Certificates

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
PASSWORD = "correct horse battery staple"


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


def case_on(folder: Path, broker: tuple[LocalBroker, Certificates], **changed: Any) -> Case:
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

    os.environ["KAFKA_PASSWORD"] = PASSWORD
    case.pipeline(secured)
    return case


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)


def hybrid(case: Case, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.prefix) / "bin" / "hybrid"), *arguments, str(case.folder / "events.yaml"),
         "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_chain_signs_in_and_leaves_no_trace_of_the_password(
    tmp_path: Path, broker: tuple[LocalBroker, Certificates]
) -> None:
    case = case_on(tmp_path, broker)
    try:
        runs = [hybrid(case, name) for name in ("validate", "plan")]
        runs.append(hybrid(case, "run", "--until", "caught-up"))
        runs += [hybrid(case, name) for name in ("status", "audit")]
    finally:
        operations.stop(load_pipeline(tmp_path / "events.yaml"))
    assert [run.returncode for run in runs] == [0] * 5, [run.stderr for run in runs]
    report = json.loads(runs[-1].stdout)
    assert (report["expected"], report["ok"]) == (1200, True)
    for run in runs:
        assert PASSWORD not in run.stdout + run.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    # The log of both Spark runs is among them.
    assert sum(path.suffix == ".log" for path in written) >= 1
    assert [path for path in written if PASSWORD.encode() in path.read_bytes()] == []


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
