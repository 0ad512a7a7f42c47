"""A real MariaDB on this machine: own data, binary log by row, ends with its owner."""

from __future__ import annotations

import os
from pathlib import Path

from hybrid_extensions.servers.databases.mysql_server import MySqlServer, create_data, places
from hybrid_extensions.servers.server_programs import MARIADB, Programs, obtain


class LocalMariaDb(MySqlServer):
    """MariaDB server for development and tests, as a context manager.

    Arguments, attributes and errors are those of its base class.
    """

    packages = MARIADB
    program = "mariadbd"
    scheme = "mariadb"
    connector = "io.debezium.connector.mariadb.MariaDbConnector"
    own_settings = {  # noqa: RUF012 - typed by the base
        "binlog-format": "ROW",
        "log-slave-updates": "ON",
        "innodb-log-file-size": "16M",
    }

    def _create(self, programs: Programs, data: Path) -> None:
        create = [str(programs.paths["mariadb-install-db"]), "--no-defaults"]
        create += [*places(programs.root), f"--datadir={data}", "--skip-test-db"]
        create += ["--auth-root-authentication-method=normal", "--innodb-log-file-size=16M"]
        # Even where the machine's own name has no address.
        create += ["--force"]
        create_data(self.packages.name, create, data)

    def _with_password(self, user: str) -> list[str]:
        return [f"CREATE OR REPLACE USER {user} IDENTIFIED BY '{self.password}'"]


def add_client_to_path() -> None:
    """Let this process, and what it starts, find MariaDB's client, which comparisons run.

    Raises:
        MissingServerError: MariaDB is not available.
    """
    programs = obtain(MARIADB)
    folder = str(programs.paths["mariadb"].parent)
    folders = os.environ["PATH"].split(os.pathsep)
    if folder not in folders:
        os.environ["PATH"] = os.pathsep.join([folder, *folders])
    # Of a login by MySQL's `caching_sha2_password`, as an unpacked client looks below /usr.
    for plugins in programs.root.glob("usr/lib/*/libmariadb3/plugin"):
        os.environ.setdefault("MARIADB_PLUGIN_DIR", str(plugins))
