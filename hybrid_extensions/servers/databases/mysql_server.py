"""Base of a local MySQL server, which is MariaDB or MySQL: own data, a binary log, the client."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pymysql

from hybrid_extensions.servers.process import (
    HOST,
    Service,
    as_nobody,
    end,
    free_ports,
    is_taken,
    last_lines,
    spawn,
    start_error,
)
from hybrid_extensions.servers.server_programs import Programs, Server, obtain
from sources.errors import RunError

USER = "hybrid"
START_TIMEOUT_S = 60.0
_POLL_S = 0.05
_PORT_TRIES = 5
_SETTINGS = {
    "log-bin": "binlog",
    "binlog-row-image": "FULL",
    "server-id": "1",
    "bind-address": HOST,
    "skip-name-resolve": "ON",
    # Its data are test data, and it ends with its owner.
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-flush-method": "nosync",
    "innodb-buffer-pool-size": "64M",
    "performance-schema": "OFF",
}


class MySqlServer(Service):
    """Base of a local server that speaks MySQL's protocol: ``LocalMariaDb`` and ``LocalMySql``.

    For development and tests, as a context manager. It writes a binary log by row, listens on the
    loopback address only, and ends when this process ends.

    Args:
        data_dir: Folder of its data, which the next start finds again; the password is new each
            time. Without one a temporary folder is used, and removed at the end.
        settings: More of the server's options, without dashes in front; they take precedence.

    Attributes:
        port: Port on the loopback address; 0 before the start.
        password: Password of ``hybrid``, who has all rights.
    """

    packages: ClassVar[Server]
    """Where its programs come from."""
    program: ClassVar[str]
    """Name of the server's program."""
    scheme: ClassVar[str]
    """How addresses of its databases begin."""
    connector: ClassVar[str]
    """Class of Debezium's connector."""
    own_settings: ClassVar[Mapping[str, str]]
    """Options that servers of this kind have besides those of all."""

    def __init__(
        self, data_dir: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self._data_dir = data_dir
        self._settings = {**_SETTINGS, **self.own_settings, **(settings or {})}
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.password = secrets.token_hex(16)

    def dsn(self, database: str, user: str = USER) -> str:
        """Return the address of a database; the password belongs into ``MYSQL_PWD``.

        Of use only while the server runs, as its port is new each time.

        Args:
            database: Name of the database.
            user: Name of the user.
        """
        return f"{self.scheme}://{user}@{HOST}:{self.port}/{database}"

    def execute(self, *statements: str) -> None:
        """Execute statements as a user with all rights, each in a transaction of its own.

        Args:
            statements: SQL.

        Raises:
            pymysql.MySQLError: The server refuses one.
        """
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def connect(self, database: str | None = None) -> pymysql.Connection:
        """Return a connection with all rights that commits each statement.

        Args:
            database: Default database; none if left out.

        Raises:
            pymysql.MySQLError: The server does not answer.
        """
        return pymysql.connect(
            host=HOST,
            port=self.port,
            user=USER,
            password=self.password,
            database=database,
            autocommit=True,
            charset="utf8mb4",
        )

    def start(self) -> None:
        """Start the server on a free port and wait until it answers; do nothing if it runs.

        Raises:
            MissingServerError: The server is not available.
            RunError: Its data folder can't be created or opened, or it ended or did not answer
                within 60 s; carries its output.
        """
        if self._process is not None:
            return
        programs = obtain(self.packages)
        if self._data_dir is None:
            self._folder = Path(tempfile.mkdtemp(prefix=f"hybrid-{self.scheme}-"))
        else:
            self._folder = self._data_dir.absolute()
            self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start(programs, self._folder)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server; do nothing if it is not running.

        A data folder that was given is kept; a temporary one is removed.
        """
        self._end()
        if self._data_dir is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def kill(self) -> None:
        """End the server by SIGKILL; :meth:`start` starts it again if its folder was given.

        Does nothing if it is not running.
        """
        if self._process is not None and self._folder is not None:
            os.kill(int((self._folder / "data" / "server.pid").read_text()), signal.SIGKILL)
            self._process.wait()
        self._end()

    @abstractmethod
    def _create(self, programs: Programs, data: Path) -> None:
        """Create the data folder."""

    @abstractmethod
    def _with_password(self, user: str) -> list[str]:
        """Return statements that create a user unless it is there, and set the new password."""

    def _end(self) -> None:
        if self._process is not None:
            end(self._process)
            self._process = None

    def _start(self, programs: Programs, folder: Path) -> None:
        data, log, temporary = folder / "data", folder / "server.log", folder / "tmp"
        log.touch()
        temporary.mkdir(exist_ok=True)
        if not data.exists():
            self._create(programs, data)
        user = f"{USER}@'{HOST}'"
        grant = f"GRANT ALL ON *.* TO {user} WITH GRANT OPTION"
        init = folder / "init.sql"
        init.write_text("".join(f"{line};\n" for line in [*self._with_password(user), grant]))
        init.chmod(0o600)
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        options += [
            f"--datadir={data}",
            f"--tmpdir={temporary}",
            f"--socket={folder / 'server.sock'}",
            f"--pid-file={data / 'server.pid'}",
            f"--init-file={init}",
            *places(programs.root),
        ]
        for remaining in reversed(range(_PORT_TRIES)):
            # Clients that know its address find it again after a crash.
            if not self.port or is_taken(self.port):
                (self.port,) = free_ports(1)
            begin = log.stat().st_size
            server = [str(programs.paths[self.program]), "--no-defaults", *options]
            process = self._process = spawn([*as_nobody(), *server, f"--port={self.port}"], log)
            if self._answers(process):
                init.unlink()
                return
            printed = log.read_bytes()[begin:]
            waited_s = START_TIMEOUT_S if process.poll() is None else None
            self._end()
            # Otherwise another process took the port before the server did.
            if not remaining or not is_taken(self.port):
                raise start_error(self.packages.name, data, printed, waited_s)

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        """Return whether it answers; False once it has ended, or when time is up."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline:
            try:
                self.connect().close()
            except pymysql.MySQLError:
                time.sleep(_POLL_S)
            else:
                return True
        return False


def places(root: Path) -> list[str]:
    """Return the options by which a server finds its files below ``root`` instead of ``/``.

    Empty for ``/`` itself.
    """
    if root == Path("/"):
        return []
    return [
        f"--basedir={root / 'usr'}",
        f"--lc-messages-dir={root / 'usr/share/mysql'}",
        f"--plugin-dir={root / 'usr/lib/mysql/plugin'}",
    ]


def create_data(name: str, command: Sequence[str], data: Path) -> None:
    """Run the command that creates a server's data folder, and wait for its end.

    Args:
        name: Name of the server, for messages.
        command: The program and its arguments.
        data: The data folder, for messages.

    Raises:
        RunError: The command failed; carries the end of its output.
    """
    # One of its own, as each server removes the temporary tables that it finds at its start.
    with tempfile.TemporaryDirectory(prefix="hybrid-tmp-") as own:
        done = subprocess.run(
            [*as_nobody(), *command, f"--tmpdir={own}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            cwd="/",
        )
    if done.returncode:
        message = (
            f"{name}'s data folder {data} can't be created. The end of what "
            f"{Path(command[0]).name} printed:\n{last_lines(done.stdout + done.stderr)}"
        )
        hint = "Correct the cause that the output names, or name another data folder."
        raise RunError(message, hint, file=str(data))
