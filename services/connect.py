"""Kafka Connect in one process, with Debezium's connector for PostgreSQL or for MariaDB."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from services.kraft import write_properties
from services.mariadb import USER as MARIADB_USER
from services.mariadb import LocalMariaDb
from services.postgres import DATABASE, USER, LocalPostgres
from services.process import HOST, Service, end, free_ports, is_taken, kill, last_lines, spawn
from sources.databases.mariadb.server import server_id_of
from sources.errors import RunError
from spark_jobs.jvm.jars import resolve
from spark_jobs.jvm.java import require_java

START_TIMEOUT_S = 120.0
_POLL_S = 0.1
_ANSWER_S = 30.0
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=INFO")


class LocalConnect(Service):
    """Worker of Kafka Connect, as a context manager; connectors are created and deleted by name.

    Args:
        servers: Address of the Kafka broker, ``host:port``.
        folder: Folder of the connectors' offsets and the worker's log, which the next start finds
            again. Without one a temporary folder is used, and removed at the end.
        settings: More of Connect's worker settings; they take precedence.
        jars: Set of jars with the connector: ``connect`` (PostgreSQL) or ``connect-mariadb``.
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
        self._process = spawn([*command, main, str(properties)], self._log)
        try:
            self._wait(lambda: self._ask("GET", "/connectors") is not None, "answer")
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

    def is_running(self, name: str) -> bool:
        """Return whether a connector's only task runs; False also if it is not there.

        Args:
            name: Name of the connector.
        """
        return [task["state"] for task in self._tasks(name)] == ["RUNNING"]

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector, and wait until its only task runs.

        Args:
            name: Name of the connector.
            config: Settings of the connector, such as those of :func:`debezium_config`.

        Raises:
            RunError: Connect refuses the connector, its task fails, or the task does not run within
                120 s; carries what Connect answers, or the last lines of its log.
        """
        self._ask("POST", "/connectors", {"name": name, "config": dict(config)})
        self._wait(lambda: self._has_come_up(name), f"run connector `{name}`")

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Change a connector's settings, which starts its task again; does not wait for that.

        Args:
            name: Name of the connector.
            config: All of its settings.

        Raises:
            RunError: Connect refuses the settings.
        """
        self._ask("PUT", f"/connectors/{name}/config", dict(config))

    def pause(self, name: str) -> None:
        """Let a connector write nothing more to its topics, until :meth:`resume`.

        Args:
            name: Name of the connector.

        Raises:
            RunError: Connect refuses, or the task does not pause within 120 s.
        """
        self._ask("PUT", f"/connectors/{name}/pause", {})

        def is_paused() -> bool:
            return [task["state"] for task in self._tasks(name)] == ["PAUSED"]

        self._wait(is_paused, f"pause connector `{name}`")

    def resume(self, name: str) -> None:
        """Let a connector continue after :meth:`pause` or :meth:`begin_transaction_again`.

        Args:
            name: Name of the connector.

        Raises:
            RunError: Connect refuses.
        """
        self._ask("PUT", f"/connectors/{name}/resume", {})

    def begin_transaction_again(self, name: str) -> None:
        """Stop a connector of MariaDB, and let it read its last transaction from the beginning.

        Its offset counts events in the transaction, and another server has others.

        Args:
            name: Name of the connector.

        Raises:
            RunError: Connect refuses, or the connector does not stop within 120 s.
        """
        self._ask("PUT", f"/connectors/{name}/stop", {})
        self._wait(lambda: self._state(name) == "STOPPED", f"stop connector `{name}`")
        found = self._ask("GET", f"/connectors/{name}/offsets")
        for each in found["offsets"]:
            each["offset"] = {part: each["offset"][part] for part in ("file", "pos", "gtids")}
        self._ask("PATCH", f"/connectors/{name}/offsets", found)

    def delete(self, name: str) -> dict[str, str]:
        """Delete a connector; its offsets and its replication slot in the database are kept.

        Returns:
            The connector's settings, to create it again.

        Raises:
            RunError: Connect refuses, as for a connector that does not exist.
        """
        config: dict[str, str] = self._ask("GET", f"/connectors/{name}/config") or {}
        self._ask("DELETE", f"/connectors/{name}")
        return config

    def url(self, name: str) -> str:
        """Return a connector's URL in the worker's REST interface.

        Args:
            name: Name of the connector.
        """
        return f"http://{HOST}:{self._port}/connectors/{name}"

    @property
    def _log(self) -> Path:
        if self._folder is None:
            message = "Kafka Connect is not running, so it has no log file."
            hint = "Call `start()` first, or use the worker as a context manager."
            raise RunError(message, hint, transient=False)
        return self._folder / "connect.log"

    def _has_come_up(self, name: str) -> bool:
        tasks = self._tasks(name)
        if "FAILED" in [task["state"] for task in tasks]:
            trace = tasks[0].get("trace", "")
            message = f"The task of connector `{name}` failed: {trace or 'no reason is reported'}"
            hint = f"Correct the settings of `{name}`, delete the connector and create it again."
            raise RunError(message, hint, value=name)
        return self.is_running(name)

    def _state(self, name: str) -> str:
        found = self._ask("GET", f"/connectors/{name}/status") or {"connector": {"state": ""}}
        return str(found["connector"]["state"])

    def _tasks(self, name: str) -> list[dict[str, Any]]:
        """Return what Connect says of a connector's tasks; none if it is not there."""
        found = self._ask("GET", f"/connectors/{name}/status") or {}
        tasks: list[dict[str, Any]] = found.get("tasks", [])
        return tasks

    def _wait(self, is_done: Any, what: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not is_done():
            if (
                self._process is None
                or self._process.poll() is not None
                or time.monotonic() > deadline
            ):
                tail = last_lines(self._log.read_bytes())
                message = (
                    f"Kafka Connect did not {what} within {START_TIMEOUT_S:.0f} s, or ended before "
                    f"that. The end of its log:\n{tail}"
                )
                hint = "Correct the cause that the log names, then start Kafka Connect again."
                raise RunError(message, hint, server=f"{HOST}:{self._port}")
            time.sleep(_POLL_S)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return Connect's answer; None while it has none yet."""
        request = urllib.request.Request(
            f"http://{HOST}:{self._port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            if error.code in (404, 409) and method == "GET":
                return None
            answered = error.read().decode(errors="replace")
            message = f"Kafka Connect refuses {method} {path} (HTTP {error.code}): {answered}"
            hint = "Correct the connector's name or settings as the answer says, then repeat this."
            raise RunError(message, hint, server=f"{HOST}:{self._port}") from None
        except OSError:
            return None
        with contextlib.suppress(ValueError):
            return json.loads(text)
        return {}


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


def mariadb_config(
    mariadb: LocalMariaDb, prefix: str, tables: Sequence[str], servers: str, **more: str
) -> dict[str, str]:
    """Return the settings of Debezium's MariaDB connector for some tables.

    Args:
        mariadb: The server, which has to run: its port is among the settings.
        prefix: Prefix of the topics' names.
        tables: Names of the form ``database.table``.
        servers: Address of the broker, in which the connector keeps the tables' definitions.
        more: More settings, with underscores for dots; they take precedence.
    """
    made = {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": HOST,
        "database.port": str(mariadb.port),
        "database.user": MARIADB_USER,
        "database.password": mariadb.password,
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
        # Otherwise 2^63 and more of `bigint unsigned` become negative.
        "bigint.unsigned.handling.mode": "precise",
        # By default a truncated table is not reported.
        "skipped.operations": "none",
        "poll.interval.ms": "50",
    }
    return {**made, **{name.replace("_", "."): value for name, value in more.items()}}
