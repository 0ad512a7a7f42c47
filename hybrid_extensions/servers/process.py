"""Processes of servers: under a guard, as ``nobody`` for root, ended; free ports, ends of logs."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

from hybrid_extensions.servers import guard
from sources.errors import RunError

HOST = "127.0.0.1"
GRACE_S = 20.0
_TAIL_LINES = 25
_POLL_S = 0.1


class Service(ABC):
    """Server that runs as long as a ``with`` block: started at its begin, ended at its end."""

    @abstractmethod
    def start(self) -> None:
        """Start the server and wait until it answers; do nothing if it runs.

        Raises:
            RunError: The server ended at start, or did not answer in time.
            InputError: A program or package that the server needs is not installed.
        """

    @abstractmethod
    def stop(self) -> None:
        """End the server and wait until it has ended; do nothing if it is not running."""

    def __enter__(self) -> Self:
        """Start the server and wait until it answers; raises as :meth:`start`."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the server, also if the block raised an error."""
        self.stop()


class TemporaryServer(Service):
    """Server whose files are in a temporary folder, which is removed when it is stopped.

    Attributes:
        name: Name of the server, for messages, such as ``S3 server``.
        start_timeout_s: Seconds that it has for its start.
    """

    name: ClassVar[str]
    """What messages call it, such as ``S3 server``."""
    start_timeout_s: ClassVar[float]
    """Seconds that it has for its start."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def address(self) -> str:
        """``host:port`` of the running server, on the loopback address.

        Raises:
            RunError: The server is not running.
        """
        if self._process is None:
            message = f"The {self.name} is not running, so it has no address."
            hint = "Call `start()` first, or use the server as a context manager."
            raise RunError(message, hint, transient=False)
        return f"{HOST}:{self._port}"

    def start(self) -> None:
        """Start the server on a free port, wait until it answers; do nothing if it runs.

        Raises:
            RunError: The server ended at start, or did not answer in time; carries the last lines
                of its output.
            InputError: A program or package that the server needs is not installed.
        """
        if self._process is not None:
            return
        self._folder = Path(tempfile.mkdtemp(prefix="hybrid-server-"))
        try:
            (self._port,) = free_ports(1)
            log = self._folder / "server.log"
            self._process = spawn(self._command(self._folder, self._port), log)
            deadline = time.monotonic() + self.start_timeout_s
            while not self._answers():
                if self._process.poll() is not None or time.monotonic() > deadline:
                    printed = last_lines(log.read_bytes())
                    message = f"The {self.name} did not start. The end of its log:\n{printed}"
                    hint = (
                        "Its data were temporary and are removed. Correct the cause that the log "
                        "names, then start it again. If an import fails, install the versions that "
                        "this project is tested with: `make install`."
                    )
                    raise RunError(message, hint)
                time.sleep(_POLL_S)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server, whose data is lost; do nothing if it is not running."""
        if self._process is not None:
            end(self._process)
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @abstractmethod
    def _command(self, folder: Path, port: int) -> list[str]:
        """Return the command that runs the server; it may write into the folder."""

    @abstractmethod
    def _answers(self) -> bool:
        """Return whether the server answers at its address."""


def spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a command that ends when this process ends, for whatever reason; return at once.

    Args:
        command: The program and its arguments.
        log: File that the command's output is appended to.

    Returns:
        The process of the guard, the program that runs the command and ends it; its exit status is
        the command's. End it with :func:`end`.

    Raises:
        OSError: The log can't be written.
    """
    limits = ["--grace", str(GRACE_S), "--owner", str(os.getpid())]
    with log.open("ab") as output:
        return subprocess.Popen(
            # -I: the guard needs nothing but the standard library, whatever PYTHONPATH says.
            [sys.executable, "-I", guard.__file__, *limits, "--", *command],
            # Not inherited by other children, so that it is closed when this process ends.
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C in a terminal goes to a whole group; this one is ended by `end` alone.
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """End what :func:`spawn` started: SIGTERM, then SIGKILL after ``GRACE_S`` seconds.

    Returns when the guard's process has ended; no error if it had ended before.

    Args:
        process: The guard's process, as :func:`spawn` returned it.
    """
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    # A fork of this process may hold another copy of the pipe.
    process.terminate()
    try:
        process.wait(GRACE_S + 5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a server by SIGKILL that :func:`spawn` started; returns when its guard has ended, too.

    Args:
        process: The guard's process, as :func:`spawn` returned it.
    """
    for pid in children_of(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    end(process)


def children_of(pid: int) -> list[int]:
    """Return the ids of the processes that a process has started and that still run (Linux).

    Raises:
        OSError: There is no such process.
    """
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def last_lines(printed: bytes) -> str:
    """Return the last 25 lines of a server's output that are not blank, for an error message."""
    lines = printed.decode(errors="replace").splitlines()
    return "\n".join([line for line in lines if line.strip()][-_TAIL_LINES:])


def start_error(server: str, data: Path, printed: bytes, waited_s: float | None) -> RunError:
    """Return the error, for the caller to raise, that a server did not start.

    Args:
        server: Its name.
        data: Its folder of data.
        printed: What it printed.
        waited_s: How long it did not answer, in seconds; None if it ended by itself.
    """
    what = "ended at start" if waited_s is None else f"did not answer for {waited_s:g} s"
    message = f"{server} in {data} {what}. The end of its log:\n{last_lines(printed)}"
    hint = f"Correct the cause that the log names, if any; then start {server} again."
    return RunError(message, hint, file=str(data.parent))


def free_ports(count: int) -> list[int]:
    """Return so many different TCP ports of the loopback address that are free now.

    Another process may take one before it is used, so a caller has to be ready to try again.
    """
    with contextlib.ExitStack() as stack:
        # All stay open until all are known, so that they differ.
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in found]


def is_taken(port: int) -> bool:
    """Return whether a process, maybe this one, listens on a TCP port of the loopback address."""
    with socket.socket() as probe:
        # As servers do: a port whose connections are just being closed is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def as_nobody() -> list[str]:
    """Return a prefix that runs a command as the user ``nobody`` if this process is root's.

    Servers of databases refuse to run as root. What they read and write may be below folders that
    only root may enter, such as its cache. Therefore they have access to all files, as root has,
    and none of its other rights. The command ends with its parent. The prefix is empty for other
    users.
    """
    if os.geteuid() != 0:
        return []
    account = pwd.getpwnam("nobody")
    ids = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    rights = [f"--{each}-caps=+dac_override" for each in ("inh", "ambient")]
    # Programs that ask first whether they may access a file get the answer that holds.
    rights += ["--bounding-set=-all,+dac_override", "--securebits=+no_setuid_fixup"]
    return ["setpriv", *ids, *rights, "--pdeathsig=KILL", "--"]
