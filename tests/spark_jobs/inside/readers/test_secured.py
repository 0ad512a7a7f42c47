"""Spark's Kafka source against secured listeners: it gets in, and it keeps the secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sources.common.login.security import spark_settings
from spark_jobs.jvm.jars import resolve
from tests.services.secured_case import RECORDS, TOPIC, WAYS, secured_broker

ROOT = Path(__file__).parents[4]
# One of them: Spark tries four times, for seconds.
WRONG = "SASL_SSL SCRAM-SHA-256"
# Named, as Spark raises the level of the root in a Python driver.
LOG4J = """
logger.all.name = org
logger.all.level = info
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n%ex
"""

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@dataclass(frozen=True)
class Run:
    """What each way answered, all that was printed, and the beginning of the client's key."""

    answers: dict[str, dict[str, Any]]
    printed: str
    key: str


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("secured")
    (folder / "log4j2.properties").write_text(LOG4J)
    with secured_broker(folder) as case:
        secured = {way: case.security(way) for way in WAYS}
        secured["wrong"] = case.security(WRONG, "hunter2?")
        options = {
            name: {
                "kafka.bootstrap.servers": case.broker.address(security.protocol),
                **spark_settings(security),
            }
            for name, security in secured.items()
        }
        asked = {
            "topic": TOPIC,
            "jars": [str(jar) for jar in resolve("spark")],
            "log": (folder / "log4j2.properties").as_uri(),
            "options": options,
        }
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.spark_jobs.inside.readers.secured_reader",
                str(folder / "answers.json"),
            ],
            input=json.dumps(asked),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        assert done.returncode == 0, done.stdout[-5000:]
        answers = json.loads((folder / "answers.json").read_text())
        key = case.files.key("client").read_text().splitlines()[1]
        yield Run(answers, done.stdout, key)


@pytest.mark.parametrize("kind", ["batch", "stream"])
@pytest.mark.parametrize("way", WAYS)
def test_the_records_are_read(run: Run, way: str, kind: str) -> None:
    answer = run.answers[way][kind]
    assert answer["error"] == ""
    assert answer["rows"] == sorted(record.decode() for record in RECORDS)


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_a_wrong_password_fails_by_the_first_refusal(run: Run, kind: str) -> None:
    error = run.answers["wrong"][kind]["error"]
    assert "SaslAuthenticationException: Authentication failed" in error
    assert "TimeoutException" not in error


def test_no_secret_is_in_logs_plans_and_errors(run: Run) -> None:
    # The clients' settings are in the log, so that what is not in there was left out.
    assert "sasl.jaas.config = [hidden]" in run.printed
    shown = [run.printed]
    for kinds in run.answers.values():
        shown += [text for one in kinds.values() for text in (one["explained"], one["error"])]
    secrets = ["hunter2", run.key]
    assert [text for text in shown if any(secret in text for secret in secrets)] == []
