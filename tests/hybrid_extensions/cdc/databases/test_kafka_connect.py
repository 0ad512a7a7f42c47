"""What Kafka Connect says of a connector: recorded answers."""

from __future__ import annotations

import json
import socket
import threading
from email.message import Message
from typing import Any
from urllib.error import HTTPError

import pytest

from hybrid_extensions.cdc.databases import kafka_connect
from hybrid_extensions.cdc.databases.kafka_connect import (
    ConnectorState,
    failure_in_words,
    find_connector_state,
    read_config,
    restart_command,
    restart_failed,
)
from sources.errors import InputError, UnavailableError
from tests.services.connect_worker import RUNNING, worker

# As Kafka Connect 4.3 answers after MySQL was started again, shortened.
TRACE = (
    "org.apache.kafka.connect.errors.ConnectException: An exception occurred in the change event "
    "producer. This connector will be stopped.\n"
    "\tat io.debezium.pipeline.ErrorHandler.setProducerThrowable(ErrorHandler.java:67)\n"
    "Caused by: io.debezium.DebeziumException: Failed to read next byte from position 1042\n"
    "\tat io.debezium.connector.binlog.BinlogStreamingChangeEventSource.wrap(X.java:1)\n"
    "Caused by: java.io.EOFException: Failed to read next byte from position 1042\n"
    "\t... 3 more\n"
)


def failed(trace: str | None) -> dict[str, Any]:
    task = {"id": 0, "state": "FAILED", "worker_id": "127.0.0.1:8083"}
    tasks = [task if trace is None else {**task, "trace": trace}]
    return {"connector": {"state": "RUNNING"}, "tasks": tasks}


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (RUNNING, ConnectorState(True)),
        ({"connector": {"state": "PAUSED"}, "tasks": []}, ConnectorState(False)),
        ({"connector": {"state": "RUNNING"}, "tasks": []}, ConnectorState(False)),
        (
            failed(TRACE),
            ConnectorState(False, "EOFException: Failed to read next byte from position 1042"),
        ),
        (failed(None), ConnectorState(False, "no reason is reported")),
        (
            failed("java.sql.SQLException: jdbc:mysql://deb:geheim@db/?password=geheim&x=1"),
            ConnectorState(False, "SQLException: jdbc:mysql://***db/?password***&x=1"),
        ),
        (None, "Kafka Connect answers 404 (Not Found)"),
        ({"tasks": []}, None),
    ],
)
def test_a_connector_runs_or_failed_for_its_last_cause(status: Any, found: Any) -> None:
    with worker({"/connectors/shop/status": status}) as url:
        expected = found or f"{url} is not answered as Kafka Connect does"
        assert find_connector_state(url) == expected


def test_only_what_failed_is_started_again() -> None:
    asked: list[str] = []
    with worker({}, asked) as url:
        restart_failed(url)
        path = "/connectors/shop/restart?includeTasks=true&onlyFailed=true"
        assert asked == [path]
        assert (
            restart_command(url) == f"curl -X POST '{url.removesuffix('/connectors/shop')}{path}'"
        )


def test_a_connector_that_was_never_started_is_to_be_started_first_of_all() -> None:
    with worker({}) as url, pytest.raises(InputError) as raised:
        read_config(url)
    connectors = url.removesuffix("/shop")
    assert raised.value.hint.startswith(f"Start the connector: `POST {connectors}` with its")


def test_an_answer_that_is_not_of_kafka_connect_is_no_silence() -> None:
    error = json.JSONDecodeError("Expecting value", "<html>", 0)
    assert failure_in_words(error) == "what answers there is not Kafka Connect"


def test_a_connector_whose_configuration_is_refused_is_not_to_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(url: str, path: str) -> Any:
        raise HTTPError(url + path, 401, "Unauthorized", Message(), None)

    monkeypatch.setattr(kafka_connect, "ask_connect", refuse)
    with pytest.raises(InputError, match=r"can't be read: .* answers 401") as raised:
        read_config("http://connect:8083/connectors/shop")
    assert "Start" not in raised.value.hint


def test_what_does_not_speak_http_is_told_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for _ in range(2):
                asked, _ = server.accept()
                with asked:
                    asked.recv(1000)
                    asked.sendall(b"SSH-2.0-OpenSSH_9\r\n")

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/connectors/shop"
        assert "does not speak HTTP (BadStatusLine)" in str(find_connector_state(url))
        with pytest.raises(UnavailableError, match="does not speak HTTP"):
            read_config(url)
