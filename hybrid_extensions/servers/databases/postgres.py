"""A real PostgreSQL on this machine: own data, logical decoding, ends with its owner."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from hybrid_extensions.servers.process import (
    GRACE_S,
    HOST,
    Service,
    as_nobody,
    children_of,
    end,
    free_ports,
    is_taken,
    last_lines,
    spawn,
    start_error,
)
from hybrid_extensions.servers.server_programs import POSTGRESQL, Programs, obtain
from sources.errors import RunError

USER = "hybrid"
DATABASE = "postgres"
START_TIMEOUT_S = 60.0
_POLL_S = 0.05
_PORT_TRIES = 5
_SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "max_prepared_transactions": "10",
    "listen_addresses": f"'{HOST}'",
    "unix_socket_directories": "''",
    # The library that compiles queries is not unpacked.
    "jit": "off",
    # Its data are test data, and it ends with its owner.
    "fsync": "off",
    "autovacuum_naptime": "1s",
}


class LocalPostgres(Service):
    """PostgreSQL server for development and tests, as a context manager.

    It has logical decoding, listens on the loopback address only, and ends when this process ends.

    Args:
        data_dir: Folder of its data, which the next start finds again. Without one a temporary
            folder is used, and removed at the end.
        settings: More of PostgreSQL's settings; they take precedence.

    Attributes:
        port: Port on the loopback address; 0 before the start.
        password: Password of the superuser ``hybrid``: another for each object, also with the same
            ``data_dir``; it stays if the object is started again.
    """

    def __init__(
        self, data_dir: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self._data_dir = data_dir
        self._settings = {**_SETTINGS, **(settings or {})}
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.password = secrets.token_hex(16)

    @property
    def dsn(self) -> str:
        """Connection string for libpq; the password belongs into ``PGPASSWORD``.

        Computed from ``port``, so that it is of use only while the server runs.
        """
        return f"host={HOST} port={self.port} user={USER} dbname={DATABASE}"

    def start(self) -> None:
        """Start the server on a free port and wait until it answers; do nothing if it runs.

        Raises:
            MissingServerError: PostgreSQL is not available.
            RunError: Its data folder can't be created or opened, or the server ended or did not
                answer within 60 s; carries its output.
        """
        if self._process is not None:
            return
        programs = obtain(POSTGRESQL)
        if self._data_dir is None:
            self._folder = Path(tempfile.mkdtemp(prefix="hybrid-postgres-"))
        else:
            self._folder = self._data_dir.absolute()
            self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start(programs, self._folder)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server without waiting for its clients; do nothing if it is not running.

        A data folder that was given is kept; a temporary one is removed.
        """
        if self._process is not None and self._folder is not None:
            # On SIGTERM it would wait until all clients have left.
            with contextlib.suppress(OSError, ValueError, IndexError):
                file = self._folder / "data" / "postmaster.pid"
                os.kill(int(file.read_text().splitlines()[0]), signal.SIGINT)
                self._process.wait(GRACE_S)
        if self._process is not None:
            end(self._process)
            self._process = None
        if self._data_dir is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def kill(self) -> None:
        """End the server and its sessions by SIGKILL; :meth:`start` starts it again.

        Only with a data folder that was given; the next start recovers what was committed.
        """
        if self._process is None or self._folder is None:
            return
        file = self._folder / "data" / "postmaster.pid"
        server = int(file.read_text().splitlines()[0])
        children = children_of(server)
        for pid in (server, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        end(self._process)
        self._process = None
        # Their memory is still attached until all of them are gone.
        while any(Path(f"/proc/{pid}").exists() for pid in children):
            time.sleep(_POLL_S)

    def _start(self, programs: Programs, folder: Path) -> None:
        data, log = folder / "data", folder / "postgres.log"
        password = folder / "password"
        password.write_text(f"{self.password}\n")
        if not data.exists():
            options = ["--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", f"--username={USER}"]
            options += ["--auth=scram-sha-256", f"--pwfile={password}", f"--pgdata={data}"]
            _run([str(programs.paths["initdb"]), *options], data, "created")
        else:
            self._change_password(programs, data)
        password.unlink()
        log.touch()
        for remaining in reversed(range(_PORT_TRIES)):
            # Clients that know its address find it again after a crash.
            if not self.port or is_taken(self.port):
                (self.port,) = free_ports(1)
            given = {**self._settings, "port": str(self.port)}
            lines = [f"{name} = {value}\n" for name, value in given.items()]
            (data / "postgresql.auto.conf").write_text("".join(lines))
            begin = log.stat().st_size
            server = [str(programs.paths["postgres"]), "-D", str(data)]
            process = self._process = spawn([*as_nobody(), *server], log)
            if self._answers(programs, process):
                return
            printed = log.read_bytes()[begin:]
            waited_s = START_TIMEOUT_S if process.poll() is None else None
            end(process)
            self._process = None
            # Otherwise another process took the port before the server did.
            if not remaining or not is_taken(self.port):
                raise start_error("PostgreSQL", data, printed, waited_s)

    def _change_password(self, programs: Programs, data: Path) -> None:
        statement = f"ALTER ROLE {USER} PASSWORD '{self.password}';\n"
        command = [str(programs.paths["postgres"]), "--single", "-D", str(data), DATABASE]
        _run(command, data, "opened", statement)

    def _answers(self, programs: Programs, process: subprocess.Popen[bytes]) -> bool:
        """Return whether it answers; False once it has ended, or when time is up."""
        deadline = time.monotonic() + START_TIMEOUT_S
        ask = [str(programs.paths["pg_isready"]), "-q", "-h", HOST, "-p", str(self.port)]
        while process.poll() is None and time.monotonic() < deadline:
            if subprocess.run(ask, check=False).returncode == 0:
                return True
            time.sleep(_POLL_S)
        return False


def _run(command: list[str], data: Path, what: str, given: str = "") -> None:
    done = subprocess.run(
        [*as_nobody(), *command],
        input=given.encode(),
        capture_output=True,
        check=False,
        cwd="/",
    )
    if done.returncode:
        message = (
            f"PostgreSQL's data folder {data} can't be {what}. The end of what "
            f"{Path(command[0]).name} printed:\n{last_lines(done.stdout + done.stderr)}"
        )
        hint = "Correct the cause that the output names, or name another data folder."
        raise RunError(message, hint, file=str(data))
