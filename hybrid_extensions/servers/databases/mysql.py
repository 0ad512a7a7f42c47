"""A real MySQL on this machine: own data, binary log by row with GTIDs, ends with its owner."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path

from hybrid_extensions.servers.databases.mysql_server import MySqlServer, create_data, places
from hybrid_extensions.servers.server_programs import MYSQL, Programs, make_once
from sources.common.cache import cache_folder

_REDO_LOG = "16M"


class LocalMySql(MySqlServer):
    """MySQL server for development and tests, as a context manager; its transactions have GTIDs.

    Users log in by ``caching_sha2_password``, over TLS with a certificate that it made itself, or
    with Python's package ``cryptography``.
    """

    packages = MYSQL
    program = "mysqld"
    scheme = "mysql"
    connector = "io.debezium.connector.mysql.MySqlConnector"
    own_settings = {  # noqa: RUF012 - typed by the base
        "gtid-mode": "ON",
        "enforce-gtid-consistency": "ON",
        "innodb-redo-log-capacity": _REDO_LOG,
        "sync-binlog": "0",
        # Its other protocol would listen on every interface.
        "mysqlx": "OFF",
        # The default is a folder that the server would have to find.
        "secure-file-priv": "",
    }

    def _create(self, programs: Programs, data: Path) -> None:
        server = str(programs.paths[self.program])
        asked = subprocess.run([server, "--version"], capture_output=True, text=True, check=True)
        version = asked.stdout.partition(" Ver ")[2].split()[0]
        # To initialise it takes some ten seconds, to copy it a fraction of one.
        kept = cache_folder() / "servers" / f"mysql-data-{version}"
        command = [server, "--no-defaults", *places(programs.root), "--initialize-insecure"]
        shutil.copytree(make_once(kept, partial(self._initialise, command)), data)
        # Each server has an id of its own, which is in its GTIDs.
        (data / "auto.cnf").unlink()

    def _initialise(self, command: list[str], folder: Path) -> None:
        more = ["--skip-log-bin", f"--innodb-redo-log-capacity={_REDO_LOG}"]
        create_data(self.packages.name, [*command, *more, f"--datadir={folder}"], folder)

    def _with_password(self, user: str) -> list[str]:
        return [
            f"CREATE USER IF NOT EXISTS {user}",
            f"ALTER USER {user} IDENTIFIED BY '{self.password}'",
        ]
