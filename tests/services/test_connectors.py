"""Answers of Kafka Connect, of which some carry no reason."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hybrid_extensions.servers.connectors import Connectors
from sources.errors import RunError

# As Debezium 3.6.1 and Kafka Connect 4.3.1 write it for a user without a right.
LOG = """\
2026-11-27T09:50:10Z pool-3-thread-1 ERROR Operation connection-validation failed
java.util.concurrent.ExecutionException: io.debezium.DebeziumException: Check permissions.
Caused by: io.debezium.DebeziumException: Check database permissions or connectivity.
\tat io.debezium.connector.mysql.jdbc.MySqlConnection.<init>(MySqlConnection.java:36)
Caused by: java.sql.SQLSyntaxErrorException: Access denied; you need REPLICATION CLIENT
\tat com.mysql.cj.jdbc.exceptions.SQLError.createSQLException(SQLError.java:112)
2026-11-27T09:50:10Z qtp ERROR Uncaught exception in REST call to /connectors
java.lang.NullPointerException: Cannot invoke "ConfigValueInfo.errors()" because it is null
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "connect.log"
    file.write_text("Caused by: java.lang.Exception: of another request\n")
    return file


@pytest.fixture
def port(log: Path) -> Iterator[int]:
    """A worker whose answers are those of an uncaught exception."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            with log.open("a") as file:
                file.write(LOG)
            self.send_response(500)
            self.end_headers()
            self.wfile.write(b'{"error_code":500}')

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_cause_of_an_answer_without_a_reason_is_read_from_the_log(log: Path, port: int) -> None:
    with pytest.raises(RunError) as caught:
        Connectors(port, log).create("shop", {})
    assert "HTTP 500" in str(caught.value)
    assert "you need REPLICATION CLIENT" in str(caught.value)
    assert "another request" not in str(caught.value)
