"""A real S3 store on this machine: versitygw, which serves many requests at once.

It is a program in Go, which is built once, into the cache folder (1.5 minutes of one core), and
keeps objects as files (https://github.com/versity/versitygw).
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from hybrid_extensions.servers.process import HOST, TemporaryServer
from hybrid_extensions.servers.s3 import LOGIN, client
from hybrid_extensions.servers.server_programs import MissingServerError, make_once
from sources.common.cache import cache_folder

VERSION = "1.8.0"
_PACKAGE = f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"


class Versitygw(TemporaryServer):
    """The store, as a context manager; it starts without any bucket, and has the one login."""

    name = "S3 store versitygw"
    start_timeout_s = 60.0

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}"

    def _command(self, folder: Path, port: int) -> list[str]:
        login = {
            "ROOT_ACCESS_KEY": LOGIN["AWS_ACCESS_KEY_ID"],
            "ROOT_SECRET_KEY": LOGIN["AWS_SECRET_ACCESS_KEY"],
        }
        objects, metadata = folder / "objects", folder / "metadata"
        for each in (objects, metadata):
            each.mkdir()
        variables = [f"{name}={value}" for name, value in login.items()]
        server = [str(_program()), "--port", f"{HOST}:{port}", "posix"]
        # Not every file system has extended attributes; without metadata it ignores conditions.
        return ["env", *variables, *server, "--sidecar", str(metadata), str(objects)]

    def _answers(self) -> bool:
        try:
            client(self.endpoint).list_buckets()
        except (BotoCoreError, ClientError):
            return False
        return True


def _program() -> Path:
    """The program; built if it is not there.

    Raises:
        MissingServerError: Go is missing, or can't build it.
    """
    return make_once(cache_folder() / f"versitygw-{VERSION}", _build) / "versitygw"


def _build(folder: Path) -> None:
    command = ["go", "install", _PACKAGE]
    if shutil.which("go") is None:
        why = "It is built by Go, which is not installed."
        raise MissingServerError(Versitygw.name, why, "apt-get install golang")
    environment = {**os.environ, "GOBIN": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        why = f"`{shlex.join(command)}` failed:\n{done.stderr.strip()}"
        raise MissingServerError(Versitygw.name, why, shlex.join(command))
