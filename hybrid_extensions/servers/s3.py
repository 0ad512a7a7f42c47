"""S3 server on this machine, which keeps objects in memory and ends with its process."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from hybrid_extensions.servers.process import TemporaryServer
from sources.errors import InputError

LOGIN = {"AWS_ACCESS_KEY_ID": "an-access-key", "AWS_SECRET_ACCESS_KEY": "a-secret-key"}
"""What clients log in with, as variables of the environment; the server takes any login."""


class LocalS3(TemporaryServer):
    """S3 server for development and tests, as a context manager; it starts without any bucket.

    Args:
        app: Module with the server's application, run with ``python -m`` and the port.
    """

    name = "S3 server"
    start_timeout_s = 60.0

    def __init__(self, app: str = "hybrid_extensions.servers.s3_app") -> None:
        super().__init__()
        self._app = app

    @property
    def endpoint(self) -> str:
        """URL of the server.

        Raises:
            RunError: The server is not running.
        """
        return f"http://{self.address}"

    def _command(self, folder: Path, port: int) -> list[str]:
        if find_spec("moto") is None:
            message = "The S3 server needs the package `moto`, which is not installed."
            raise InputError(message, "Run `make install`, or `pip install 'moto[server]'`.")
        return [sys.executable, "-m", self._app, str(port)]

    def _answers(self) -> bool:
        try:
            client(self.endpoint).list_buckets()
        except (BotoCoreError, ClientError):
            return False
        return True


def client(endpoint: str) -> Any:
    """Return a client of boto3 that is logged in to a local S3 server.

    Args:
        endpoint: URL of the server.
    """
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=LOGIN["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=LOGIN["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": "path"}),
    )
