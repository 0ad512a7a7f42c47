"""A server with the S3 API on this machine; keeps objects in memory, ends with its process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from services.process import HOST, Service, end, free_ports, last_lines, spawn
from sources.errors import InputError, RunError

START_TIMEOUT_S = 60.0
_POLL_S = 0.1
LOGIN = {"AWS_ACCESS_KEY_ID": "an-access-key", "AWS_SECRET_ACCESS_KEY": "a-secret-key"}
"""What clients log in with, as variables of the environment; the server takes any login."""


class LocalS3(Service):
    """S3 server for development and tests, as a context manager; it starts without any bucket.

    Args:
        log_file: File that the server's output is appended to; a temporary one if left out.
        app: Module with the application, run with ``python -m``.
    """

    def __init__(self, log_file: Path | None = None, app: str = "services.s3_app") -> None:
        self._log_file = log_file
        self._app = app
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def endpoint(self) -> str:
        """URL of the server; kept in memory.

        Raises:
            RunError: The server is not running.
        """
        if self._process is None:
            message = "The S3 server is not running, so it has no address."
            hint = "Call `start()` first, or use the server as a context manager."
            raise RunError(message, hint, transient=False)
        return f"http://{HOST}:{self._port}"

    def client(self) -> Any:
        """Return a client of boto3 that is logged in.

        Raises:
            RunError: The server is not running.
        """
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=LOGIN["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=LOGIN["AWS_SECRET_ACCESS_KEY"],
            config=Config(s3={"addressing_style": "path"}),
        )

    def start(self) -> None:
        """Start the server and wait until it answers; do nothing if it runs.

        Raises:
            RunError: The server ended at start, or did not answer within 60 s.
            InputError: moto is not installed.
        """
        if self._process is not None:
            return
        if find_spec("moto") is None:
            message = "The S3 server needs the package `moto`, which is not installed."
            raise InputError(message, "Run `make install`, or pip install 'moto[server]'.")
        log = self._log_file or Path(tempfile.mkstemp(prefix="s3-", suffix=".log")[1])
        (self._port,) = free_ports(1)
        self._process = spawn([sys.executable, "-m", self._app, str(self._port)], log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                message = f"The S3 server did not start:\n{last_lines(log.read_bytes())}"
                raise RunError(message, "Correct what its log names, then start it again.")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End the server, whose objects are lost; do nothing if it is not running."""
        if self._process is not None:
            end(self._process)
            self._process = None

    def _answers(self) -> bool:
        try:
            self.client().list_buckets()
        except (BotoCoreError, ClientError):
            return False
        return True
