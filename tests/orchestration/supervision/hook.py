"""A webhook that keeps what it is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

SECRET = "T0P-s3cret"


class Hook(ThreadingHTTPServer):
    """A real server that keeps what it is told, and answers as it is asked to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.told: list[dict[str, Any]] = []
        self.answer = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{SECRET}"


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.answer == 200 and self.path == f"/{SECRET}":
            self.server.told.append(document)
        self.send_response(self.server.answer)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def listening() -> Iterator[Hook]:
    """A webhook that is up until the end of the block."""
    with Hook() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
