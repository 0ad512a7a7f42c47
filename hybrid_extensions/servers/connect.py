"""Kafka Connect on this machine, in one process, with Debezium's connector for a database."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hybrid_extensions.servers.connectors import Connectors
from hybrid_extensions.servers.databases.mysql_server import USER as BINLOG_USER
from hybrid_extensions.servers.databases.mysql_server import MySqlServer
from hybrid_extensions.servers.databases.postgres import DATABASE, USER, LocalPostgres
from hybrid_extensions.servers.kraft import write_properties
from hybrid_extensions.servers.process import HOST, Service, end, free_ports, is_taken, kill, spawn
from sources.common.servers.server_id import server_id_of
from sources.errors import RunError
from spark_jobs.jvm.jars import resolve
from spark_jobs.jvm.java import require_java

_JVM = (
    "-Xmx512m",
    # A worker that has lost a thread for want of memory may answer as if all were well.
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dlog4j2.level=INFO",
)


class LocalConnect(Service):
    """Worker of Kafka Connect for development and tests, as a context manager.

    Args:
        servers: Address of the Kafka broker, ``host:port``.
        folder: Folder of the connectors' offsets and the worker's log, which the next start finds
            again. Without one a temporary folder is used, and removed at the end.
        settings: More of Connect's worker settings; they take precedence.
        jars: Set of jars with the connector: ``connect`` (PostgreSQL), ``connect-mariadb`` or
            ``connect-mysql``.
    """

    def __init__(
        self,
        servers: str,
        folder: Path | None = None,
        settings: Mapping[str, str] | None = None,
        jars: str = "connect",
    ) -> None:
        self._servers = servers
        self._jars = jars
        self._given = folder
        self._settings = dict(settings or {})
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def start(self) -> None:
        """Start the worker on a free port and wait until it answers; do nothing if it runs.

        Raises:
            RunError: The worker ended, or did not answer within 120 s; carries the last lines of
                its log.
            InputError: Java is missing, or the jars of Kafka Connect can't be downloaded.
        """
        if self._process is not None:
            return
        jars = resolve(self._jars)[0].parent / "*"
        command = [str(require_java()), *_JVM, "-cp", str(jars)]
        if self._given is None:
            self._folder = Path(tempfile.mkdtemp(prefix="hybrid-connect-"))
        else:
            self._folder = self._given.absolute()
            self._folder.mkdir(parents=True, exist_ok=True)
        # Who knows the address of a connector finds it again after a crash.
        if not self._port or is_taken(self._port):
            (self._port,) = free_ports(1)
        properties = self._folder / "worker.properties"
        json_converter = "org.apache.kafka.connect.json.JsonConverter"
        made = {
            "bootstrap.servers": self._servers,
            "key.converter": json_converter,
            "value.converter": json_converter,
            # Else a null becomes the column's default, where it has one.
            "value.converter.replace.null.with.default": "false",
            "offset.storage.file.filename": str(self._folder / "offsets"),
            "offset.flush.interval.ms": "1000",
            "listeners": f"http://{HOST}:{self._port}",
            "topic.creation.enable": "true",
        }
        write_properties(properties, {**made, **self._settings})
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        self._process = spawn([*command, main, str(properties)], self.log)
        try:
            self.connectors.wait_for_worker()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the worker and its connectors; do nothing if it is not running.

        A folder that was given is kept, with the connectors' offsets; a temporary one is removed.
        """
        if self._process is not None:
            end(self._process)
            self._process = None
        if self._given is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def kill(self) -> None:
        """End the worker by SIGKILL, and start it again; its connectors have to be created again.

        They continue from the offsets in its folder, which has to be given.

        Raises:
            RunError, InputError: As :meth:`start`.
        """
        if self._process is not None:
            kill(self._process)
            self._process = None
        self.start()

    @property
    def port(self) -> int:
        """Port of its REST interface, on the loopback address; 0 before the first start."""
        return self._port

    @property
    def connectors(self) -> Connectors:
        """Its connectors; of use only while the worker runs.

        Raises:
            RunError: The worker is not running.
        """
        process = self._process
        return Connectors(
            self._port, self.log, lambda: process is not None and process.poll() is None
        )

    @property
    def log(self) -> Path:
        """File of its output.

        Raises:
            RunError: The worker was not started (not transient).
        """
        if self._folder is None:
            message = "Kafka Connect is not running, so it has no log file."
            hint = "Call `start()` first, or use the worker as a context manager."
            raise RunError(message, hint, transient=False)
        return self._folder / "connect.log"


def debezium_config(
    postgres: LocalPostgres, prefix: str, tables: Sequence[str], **more: str
) -> dict[str, str]:
    """Return the settings of Debezium's PostgreSQL connector for some tables.

    Args:
        postgres: The server, which has to run: its port is among the settings.
        prefix: Prefix of the topics' names, and the name of the replication slot.
        tables: Names of the form ``schema.table``.
        more: More settings, with underscores for dots; they take precedence.
    """
    made = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": HOST,
        "database.port": str(postgres.port),
        "database.user": USER,
        "database.password": postgres.password,
        "database.dbname": DATABASE,
        "topic.prefix": prefix,
        "slot.name": prefix,
        "publication.name": prefix,
        "publication.autocreate.mode": "filtered",
        "table.include.list": ",".join(tables),
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "1",
        # By default a truncated table is not reported.
        "skipped.operations": "none",
        "poll.interval.ms": "50",
    }
    return {**made, **{name.replace("_", "."): value for name, value in more.items()}}


def binlog_config(
    server: MySqlServer, prefix: str, tables: Sequence[str], servers: str, **more: str
) -> dict[str, str]:
    """Return the settings of Debezium's connector for some tables of a MariaDB or a MySQL.

    Args:
        server: The server, which has to run: its port is among the settings.
        prefix: Prefix of the topics' names.
        tables: Names of the form ``database.table``.
        servers: Address of the broker, in which the connector keeps the tables' definitions.
        more: More settings, with underscores for dots; they take precedence.
    """
    made = {
        "connector.class": server.connector,
        "database.hostname": HOST,
        "database.port": str(server.port),
        "database.user": BINLOG_USER,
        "database.password": server.password,
        "database.server.id": str(server_id_of(prefix)),
        "topic.prefix": prefix,
        "table.include.list": ",".join(tables),
        "schema.history.internal.kafka.bootstrap.servers": servers,
        "schema.history.internal.kafka.topic": f"{prefix}.history",
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "1",
        # The topic of statements, whose order counts.
        "topic.creation.groups": "statements",
        "topic.creation.statements.include": prefix,
        "topic.creation.statements.partitions": "1",
        "topic.creation.statements.replication.factor": "1",
        "topic.creation.statements.retention.ms": "-1",
        # Otherwise 2^63 and more of `bigint unsigned` become negative, and the year 1 2001.
        "bigint.unsigned.handling.mode": "precise",
        "enable.time.adjuster": "false",
        # By default a truncated table is not reported.
        "skipped.operations": "none",
        "poll.interval.ms": "50",
    }
    return {**made, **{name.replace("_", "."): value for name, value in more.items()}}
