"""A real MariaDB on this machine: own data, binary log by row, ends with its owner."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pymysql

from services.process import HOST, Service, as_account, end, free_ports, is_taken, last_lines, spawn
from sources.errors import RunError

USER = "hybrid"
START_TIMEOUT_S = 60.0
_POLL_S = 0.05
_PORT_TRIES = 5
_INSTALL = Path(__file__).with_name("install_mariadb.sh")
_SERVER = "/usr/sbin/mariadbd"
# The server refuses to run as root.
_ACCOUNT = "nobody"
_SETTINGS = {
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "log-slave-updates": "ON",
    "server-id": "1",
    "bind-address": HOST,
    "skip-name-resolve": "ON",
    # Its data are test data, and it ends with its owner.
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-flush-method": "nosync",
    "innodb-log-file-size": "16M",
    "innodb-buffer-pool-size": "64M",
    "performance-schema": "OFF",
}


class LocalMariaDb(Service):
    """MariaDB server for development and tests, as a context manager.

    It writes a binary log by row, listens on the loopback address only, and ends when this process
    ends.

    Args:
        data_dir: Folder of its data, which the next start finds again; the password is new each
            time. Every account must have access to it. Without one a temporary folder is used,
            and removed at the end.
        settings: More of MariaDB's options, without dashes in front; they take precedence.

    Attributes:
        port: Port on the loopback address; 0 before the start.
        password: Password of ``hybrid``, who has all rights.
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

    def dsn(self, database: str, user: str = USER) -> str:
        """Return the address of a database; the password belongs into ``MYSQL_PWD``.

        Of use only while the server runs, as its port is new each time.

        Args:
            database: Name of the database.
            user: Name of the user.
        """
        return f"mariadb://{user}@{HOST}:{self.port}/{database}"

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
            RunError: MariaDB is not installed and can't be, its data folder can't be created or
                opened, or the server ended or did not answer within 60 s; carries its output.
        """
        if self._process is not None:
            return
        _install()
        if self._data_dir is None:
            self._folder = Path(tempfile.mkdtemp(prefix="hybrid-mariadb-"))
        else:
            self._folder = self._data_dir.absolute()
            self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start(self._folder)
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
        """End the server by SIGKILL; :meth:`start` starts it again if its folder was given."""
        if self._process is not None and self._folder is not None:
            os.kill(int((self._folder / "data" / "server.pid").read_text()), signal.SIGKILL)
            self._process.wait()
        self._end()

    def _end(self) -> None:
        if self._process is not None:
            end(self._process)
            self._process = None

    def _start(self, folder: Path) -> None:
        data, log = folder / "data", folder / "mariadb.log"
        log.touch()
        _hand_over(folder, log)
        if not data.exists():
            _create(data)
        init = folder / "init.sql"
        init.write_text(
            f"CREATE OR REPLACE USER {USER}@'{HOST}' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO {USER}@'{HOST}' WITH GRANT OPTION;\n"
        )
        init.chmod(0o600)
        _hand_over(init)
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        options += [
            f"--datadir={data}",
            f"--socket={folder / 'server.sock'}",
            f"--pid-file={data / 'server.pid'}",
            f"--init-file={init}",
        ]
        for remaining in reversed(range(_PORT_TRIES)):
            # Clients that know its address find it again after a crash.
            if not self.port or is_taken(self.port):
                (self.port,) = free_ports(1)
            begin = log.stat().st_size
            command = [_SERVER, "--no-defaults", *options, f"--port={self.port}"]
            process = self._process = spawn([*as_account(_ACCOUNT), *command], log)
            if self._answers(process):
                init.unlink()
                return
            printed = log.read_bytes()[begin:]
            self._end()
            # Otherwise another process took the port before the server did.
            if not remaining or not is_taken(self.port):
                message = (
                    f"MariaDB ended at start, or did not answer within {START_TIMEOUT_S:.0f} s. "
                    f"The end of its log:\n{last_lines(printed)}"
                )
                hint = "Correct the cause that the log names, then start MariaDB again."
                raise RunError(message, hint, file=str(folder))

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


def _install() -> None:
    done = subprocess.run([str(_INSTALL)], capture_output=True, check=False)
    if done.returncode:
        message = f"MariaDB is not installed, and installing it failed:\n{last_lines(done.stderr)}"
        hint = f"Install MariaDB's server, or correct what the output names and run {_INSTALL}."
        raise RunError(message, hint)


def _hand_over(*paths: Path) -> None:
    if os.geteuid() == 0:
        account = pwd.getpwnam(_ACCOUNT)
        for path in paths:
            os.chown(path, account.pw_uid, account.pw_gid)


def _create(data: Path) -> None:
    command = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db"]
    command += ["--auth-root-authentication-method=normal", "--innodb-log-file-size=16M"]
    done = subprocess.run(
        [*as_account(_ACCOUNT), *command], capture_output=True, check=False, cwd="/"
    )
    if done.returncode:
        message = (
            f"MariaDB's data folder {data} can't be created. The end of what mariadb-install-db "
            f"printed:\n{last_lines(done.stdout + done.stderr)}"
        )
        hint = "Correct the cause that the output names, or name another data folder."
        raise RunError(message, hint, file=str(data))
