"""What a client of the local S3 server reads from its connection, byte by byte."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from hybrid_extensions.servers.s3 import LocalS3, client

BUCKET = "lake"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# By anyone: the server takes any login, and reads from it which service is meant.
LOGIN = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, Signature=0"


@pytest.fixture(
    scope="module", params=["hybrid_extensions.servers.s3_app", "tests.services.s3_app"]
)
def server(request: pytest.FixtureRequest) -> Iterator[LocalS3]:
    with LocalS3(request.param) as running:
        client(running.endpoint).create_bucket(Bucket=BUCKET)
        yield running


def connected(server: LocalS3) -> socket.socket:
    host, _, port = server.address.partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def head(server: LocalS3, method: str, key: str, *headers: str) -> bytes:
    lines = [
        f"{method} /{BUCKET}/{key} HTTP/1.1",
        f"Host: {server.address}",
        f"Authorization: {LOGIN}",
        "Connection: keep-alive",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def rest_of(connection: socket.socket) -> bytes:
    """All that the server sends until it closes the connection."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize("size", [0, 5, 3_000_000])
@pytest.mark.parametrize("waits", [True, False], ids=["waits", "sends at once"])
def test_a_client_that_expects_continue_is_told_so_once_then_the_result(
    server: LocalS3, size: int, waits: bool
) -> None:
    key, body = f"{size}-{waits}", b"x" * size
    asked = head(server, "PUT", key, "Expect: 100-continue", f"Content-Length: {size}")
    with connected(server) as connection:
        connection.sendall(asked)
        first = connection.recv(len(CONTINUE), socket.MSG_WAITALL) if waits else b""
        connection.sendall(body)
        told = first + rest_of(connection)
    interim, final, answer = told.partition(b"HTTP/1.1 200 OK\r\n")
    assert (interim, bool(final)) == (CONTINUE, True)
    assert b"HTTP/1.1" not in answer
    with connected(server) as connection:
        connection.sendall(head(server, "GET", key))
        found = rest_of(connection)
    assert found.startswith(b"HTTP/1.1 200 OK\r\n")
    assert found.partition(b"\r\n\r\n")[2] == body


def test_a_client_that_expects_nothing_is_told_the_result_alone(server: LocalS3) -> None:
    with connected(server) as connection:
        connection.sendall(head(server, "PUT", "plain", "Content-Length: 1") + b"x")
        assert rest_of(connection).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_connection_that_is_to_be_kept_is_closed_and_the_answer_says_so(server: LocalS3) -> None:
    asked = head(server, "PUT", "kept", "Expect: 100-continue", "Content-Length: 1") + b"x"
    with connected(server) as connection:
        connection.sendall(asked)
        told = rest_of(connection)
    assert b"\r\nConnection: close\r\n" in told
    # The next request is one of a new connection, and is answered in the same way.
    with connected(server) as connection:
        connection.sendall(asked)
        assert rest_of(connection).count(b"HTTP/1.1 ") == told.count(b"HTTP/1.1 ") == 2
