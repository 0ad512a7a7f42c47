"""Application of the local S3 server: moto in memory, which answers one request after the other.

Run as ``python -m hybrid_extensions.servers.s3_app PORT``. Conditions of requests are atomic only
that way: moto compares first, and writes then.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import run_simple

from hybrid_extensions.servers.process import HOST


class S3App:
    """WSGI application with the S3 API, with objects in memory.

    It answers one request at a time.
    """

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._turn = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request once those before it are answered."""
        with self._turn:
            return list(self._app(environ, start_response))


class _Handler(MotoRequestHandler):
    """Leaves the interim answer to werkzeug, which sends one whatever `http.server` has sent.

    S3A's asynchronous client takes a second `100 Continue` for the result of its request.
    """

    def handle_expect_100(self) -> bool:
        return True


def serve(app: Any, port: int) -> None:
    """Serve a WSGI application on the loopback address until the process is ended.

    Args:
        app: The application.
        port: TCP port.
    """
    os.environ["MOTO_PORT"] = str(port)
    run_simple(HOST, port, app, threaded=True, request_handler=_Handler)


if __name__ == "__main__":
    serve(S3App(), int(sys.argv[1]))
