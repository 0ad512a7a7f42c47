"""Azurite, Microsoft's emulator of Azure Blob Storage, on this machine; it keeps data in memory.

It runs with Node.js and is installed once, by npm, into the cache folder (370 MB).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import shlex
import shutil
import subprocess
import urllib.error
import urllib.request
from email.utils import formatdate
from pathlib import Path

from hybrid_extensions.servers.process import HOST, TemporaryServer
from hybrid_extensions.servers.server_programs import MissingServerError, make_once
from sources.common.cache import cache_folder

VERSION = "3.37.0"
ACCOUNT = "devstoreaccount1"
# The same in every Azurite: https://learn.microsoft.com/azure/storage/common/storage-use-azurite.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_API = "2021-08-06"
_MAIN = "node_modules/azurite/dist/src/blob/main.js"


class LocalAzurite(TemporaryServer):
    """Azure Blob Storage for development and tests, as a context manager; without any container.

    Its account is a flat one, and it does not have the API of Data Lake Storage, so Hadoop's client
    can't use it.
    """

    name = "Azure Blob Storage server"
    start_timeout_s = 60.0

    @property
    def login(self) -> dict[str, str]:
        """Environment variables by which clients find the server and log in, by name.

        Raises:
            RunError: The server is not running.
        """
        endpoint = f"http://{self.address}/{ACCOUNT}"
        return {"AZURE_STORAGE_ENDPOINT": endpoint, "AZURE_STORAGE_ACCOUNT_KEY": KEY}

    def create_container(self, name: str) -> str:
        """Create a container and return its URL, ``abfss://…``.

        Raises:
            RunError: The server is not running.
            OSError: The server refuses, as for a container that exists.
        """
        # obstore and delta-rs can't create any.
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _API}
        signed = "".join(f"{key}:{value}\n" for key, value in headers.items())
        request = f"PUT{12 * chr(10)}{signed}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        mac = hmac.new(base64.b64decode(KEY), request.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(mac).decode()}"
        url = f"http://{self.address}/{ACCOUNT}/{name}?restype=container"
        urllib.request.urlopen(urllib.request.Request(url, headers=headers, method="PUT")).close()
        return f"abfss://{name}@{ACCOUNT}.dfs.core.windows.net"

    def _command(self, folder: Path, port: int) -> list[str]:
        node = _require("node")
        place = ["--blobHost", HOST, "--blobPort", str(port), "--inMemoryPersistence"]
        # Clients send newer versions of the API than it knows.
        options = ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        return [node, str(install() / _MAIN), *place, *options]

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"http://{self.address}/{ACCOUNT}?comp=list").close()
        except urllib.error.HTTPError:
            # It answers, although it refuses requests without a login.
            return True
        except OSError:
            return False
        return True


def install() -> Path:
    """Return the folder that Azurite is installed in; install it there if it is not.

    Several processes may call this at once: one installs, the others wait for it.

    Raises:
        MissingServerError: There is no Node.js, or npm fails.
        OSError: The cache folder can't be written.
    """
    return make_once(cache_folder() / f"azurite-{VERSION}", _install)


def _install(folder: Path) -> None:
    needs = {"private": True, "dependencies": {"azurite": VERSION}}
    (folder / "package.json").write_text(json.dumps(needs))
    command = [_require("npm"), "install", "--prefix", str(folder), "--no-audit", "--no-fund"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = f"`{shlex.join(command)}` failed:\n{done.stderr.strip()}"
        raise MissingServerError(LocalAzurite.name, why, shlex.join(command))


def _require(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        why = f"It needs Node.js, version 20 or later, and there is no program `{program}`."
        raise MissingServerError(LocalAzurite.name, why, "apt-get install nodejs npm")
    return found
