"""A real S3 store on this machine: versitygw, which serves many requests at once.

It is a program in Go, which is built once, into the cache folder (1.5 minutes of one core), and
keeps objects as files (https://github.com/versity/versitygw).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from services.process import HOST, TemporaryServer
from services.s3 import LOGIN, client
from sources.common.cache import cache_folder, make_private

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


def require_versitygw() -> None:
    """Skip the test if the store is not there, and can't be built."""
    built = _folder() / "versitygw"
    if not built.exists() and shutil.which("go") is None:
        command = f"GOBIN={built.parent} go install {_PACKAGE}"
        pytest.skip(f"versitygw is not installed, nor Go, which builds it: {command}")


def _folder() -> Path:
    return cache_folder() / f"versitygw-{VERSION}"


def _program() -> Path:
    """The program; built if it is not there. Of several processes one builds, the others wait."""
    folder = _folder()
    make_private(folder.parent)
    with folder.with_name(f"{folder.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "versitygw").exists():
            part = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            environment = {**os.environ, "GOBIN": str(part)}
            subprocess.run(["go", "install", _PACKAGE], env=environment, check=True)
            part.rename(folder)
    return folder / "versitygw"
