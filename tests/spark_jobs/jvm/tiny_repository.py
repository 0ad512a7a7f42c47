"""A Maven repository of a few tiny jars, as files and behind HTTP."""

from __future__ import annotations

import base64
import functools
import os
import subprocess
import sys
import threading
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.jvm import jars
from spark_jobs.jvm.jar_sets import SETS, JarSet

ROOT = Path(jars.__file__).parents[2]
# Its dependency on `two` brings `three`; `two` wants a newer `three` than the one there is.
TINY = JarSet(
    packages=("org.example:one:1.0",),
    pins=("org.example:three:1.0",),
    excludes=("org.example.carried:*",),
)
POM = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId>"
    "<artifactId>{name}</artifactId><version>1.0</version>"
    "<dependencies>{needs}</dependencies></project>"
)
NEED = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


def add(
    repository: Path, name: str, *needs: tuple[str, str, str], group: str = "org.example"
) -> Path:
    folder = repository / group.replace(".", "/") / name / "1.0"
    folder.mkdir(parents=True)
    pom = POM.format(group=group, name=name, needs="".join(NEED.format(*need) for need in needs))
    (folder / f"{name}-1.0.pom").write_text(pom)
    with zipfile.ZipFile(folder / f"{name}-1.0.jar", "w") as jar:
        jar.writestr("content", name * 1000)
    return folder


def tiny_repository(root: Path) -> Path:
    add(
        root,
        "one",
        ("org.example", "two", "1.0"),
        ("org.example.carried", "four", "1.0"),
    )
    add(root, "two", ("org.example", "three", "2.0"))
    add(root, "three")
    return root


def use_tiny_set(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    monkeypatch.setitem(SETS, "tiny", TINY)
    monkeypatch.setenv("HYBRID_CACHE", str(cache))
    monkeypatch.delenv("HYBRID_JARS", raising=False)
    monkeypatch.delenv("HYBRID_MAVEN_REPOSITORY", raising=False)
    return cache


def take_java_away(monkeypatch: pytest.MonkeyPatch, empty: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(empty))


IN_A_PROCESS = (
    "from spark_jobs.jvm import jar_sets, jars\n"
    "jar_sets.SETS['tiny'] = jar_sets.{declared!r}\n"
    "print(*jars.resolve('tiny', lambda text: print(text, flush=True)), sep='\\n')\n"
)


def resolve_elsewhere() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", IN_A_PROCESS.format(declared=TINY)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def names(found: list[Path]) -> list[str]:
    return [path.name for path in found]


class Server(ThreadingHTTPServer):
    """Serves a repository; can ask for a password, and can hold one file back."""

    daemon_threads = True

    def __init__(self, folder: Path, secret: str = "", held: str = "") -> None:
        self.asked: list[str] = []
        self.secret = base64.b64encode(secret.encode()).decode() if secret else ""
        self.held = held
        self.reached = threading.Event()
        self.release = threading.Event()
        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self, user: str = "") -> str:
        return f"http://{user}127.0.0.1:{self.server_port}/"

    def server_close(self) -> None:
        self.release.set()
        self.shutdown()
        super().server_close()

    def handle_error(self, *_: Any) -> None:
        pass


class Handler(SimpleHTTPRequestHandler):
    server: Server

    def send_head(self) -> Any:
        name = self.path.rsplit("/", 1)[-1]
        if self.server.secret and self.headers["Authorization"] != f"Basic {self.server.secret}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="A (mirror) & more"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        if self.command == "GET":
            self.server.asked.append(name)
            if name == self.server.held:
                self.server.reached.set()
                self.server.release.wait(60)
        return super().send_head()

    def log_message(self, *_: Any) -> None:
        pass
