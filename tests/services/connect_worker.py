"""A server that answers as Kafka Connect does, with what a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RUNNING = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "RUNNING"}]}
FAILED = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "FAILED"}]}


@contextmanager
def worker(answers: dict[str, Any], posted: list[str] | None = None) -> Iterator[str]:
    """A server that answers as Kafka Connect does; yields the URL of a connector.

    Paths that something is posted to are added to ``posted``.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path)
            self.send_response(404 if answer is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def do_POST(self) -> None:
            assert posted is not None
            posted.append(self.path)
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/connectors/shop"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
