"""An S3 server for benchmarks: a Versity gateway over a local folder, behind a proxy.

The gateway (https://github.com/versity/versitygw, ``go install
github.com/versity/versitygw/cmd/versitygw@latest``) serves requests at once and keeps to their
conditions, and is fast enough that a delay of 20 ms a request is the most of a request's time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from botocore.exceptions import BotoCoreError, ClientError

from hybrid_extensions.servers.process import HOST, TemporaryServer
from hybrid_extensions.servers.s3 import LOGIN, client


class Gateway(TemporaryServer):
    """Versity gateway on the loopback address, as a context manager; starts without any bucket.

    Args:
        program: The program ``versitygw``.
    """

    name = "Versity gateway"
    start_timeout_s = 60.0

    def __init__(self, program: Path) -> None:
        super().__init__()
        self._program = program

    @property
    def port(self) -> int:
        """TCP port of the running server."""
        return self._port

    def _command(self, folder: Path, port: int) -> list[str]:
        root = folder / "buckets"
        root.mkdir()
        login = ["--access", LOGIN["AWS_ACCESS_KEY_ID"], "--secret", LOGIN["AWS_SECRET_ACCESS_KEY"]]
        options = ["--port", f"{HOST}:{port}", "--quiet", "--keep-alive", *login]
        return [str(self._program), *options, "posix", str(root)]

    def _answers(self) -> bool:
        return _answers(f"http://{self.address}")


class CountingProxy(TemporaryServer):
    """Proxy that counts and delays the requests to a server, as a context manager.

    Args:
        port: TCP port of the server, on the loopback address.
    """

    name = "proxy"
    start_timeout_s = 30.0

    def __init__(self, port: int) -> None:
        super().__init__()
        self._server = port

    @property
    def endpoint(self) -> str:
        """URL that clients use instead of the server's."""
        return f"http://{self.address}"

    def _command(self, folder: Path, port: int) -> list[str]:
        return [sys.executable, "-m", "benchmarks.store_proxy", str(port), str(self._server)]

    def _answers(self) -> bool:
        return _answers(self.endpoint)


def _answers(endpoint: str) -> bool:
    try:
        client(endpoint).list_buckets()
    except (BotoCoreError, ClientError):
        return False
    return True


def tell(endpoint: str, what: str, **fields: Any) -> Any:
    """Set the delay of requests (``faults``, ``delay_s``), or ask for their number (``requests``).

    Args:
        endpoint: URL of a proxy.
        what: Which of the two.
        fields: Its fields.
    """
    body = json.dumps(fields).encode()
    with urlopen(Request(f"{endpoint}/_{what}", body, method="POST")) as answer:
        return json.loads(answer.read())
