"""Declaration of a change log: which connector settings are needed or refused; `keep`, `listen`."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, field_validator

from sources.common.durations import Duration
from sources.common.fields import Declared
from sources.config.document.yaml_document import read_document, validated
from sources.errors import InputError
from sources.storage.folder import Folder
from sources.storage.settings import HdfsSettings, S3Settings
from sources.storage.stores import Stores

_CLASSES = {
    "io.debezium.connector.postgresql.PostgresConnector": "connect",
    "io.debezium.connector.mariadb.MariaDbConnector": "connect-mariadb",
    "io.debezium.connector.mysql.MySqlConnector": "connect-mysql",
}
_NEEDED = ("connector.class", "topic.prefix", "table.include.list")
_OWN = {
    "offset.storage": "the log keeps the offsets",
    "schema.history.internal": "the log keeps the definitions of tables",
    "provide.transaction.metadata": "its records have no place in the database's log",
    "errors.max.retries": "after an error the engine begins again where the log ends",
}
_PLAIN = re.compile(r"[\w$.-]+|(?:[\w$-]|\\\.)+")


class LogDeclaration(Declared):
    """Declaration of a change log: its folder, the connector, and where it is served.

    Attributes:
        path: Folder of the log, relative to this file, or a URL.
        connector: Settings of Debezium's connector, as for Kafka Connect.
        listen: Host and port at which clients of Kafka read the log.
        keep: How long changes are kept; for ever by default.
        s3: Object store behind ``s3://``.
        hdfs: HDFS cluster behind ``hdfs://``.
    """

    path: str
    connector: dict[str, str]
    listen: str = Field(default="127.0.0.1:9192", pattern=r"^[^:\s]+:\d+$")
    keep: Duration | None = None
    s3: S3Settings = Field(default_factory=S3Settings)
    hdfs: HdfsSettings = Field(default_factory=HdfsSettings)

    @field_validator("keep")
    @classmethod
    def _long_enough(cls, keep: timedelta | None) -> timedelta | None:
        if keep is not None and keep < timedelta(minutes=1):
            message = (
                "`keep` is less than a minute: readers could not follow. Declare a longer one."
            )
            raise ValueError(message)
        return keep

    @field_validator("connector")
    @classmethod
    def _can_be_run(cls, connector: dict[str, str]) -> dict[str, str]:
        for name in _NEEDED:
            if not connector.get(name):
                message = f"`connector` lacks `{name}`. Add it, as for Kafka Connect."
                raise ValueError(message)
        if (kind := connector["connector.class"]) not in _CLASSES:
            message = f"`connector.class: {kind}` is none of {', '.join(_CLASSES)}. Name one."
            raise ValueError(message)
        for name, why in _OWN.items():
            if name in connector:
                message = f"`connector` sets `{name}`, but {why}. Remove it."
                raise ValueError(message)
        if _CLASSES[kind] == "connect" and "driver.socketTimeout" in connector:
            # https://github.com/pgjdbc/pgjdbc/pull/4356
            message = (
                "`connector` sets `driver.socketTimeout`, with which PostgreSQL's driver may take "
                "the middle of a change that arrives late for the beginning of the next one. "
                "Remove it: the log gives up a silent database by itself."
            )
            raise ValueError(message)
        if connector.get("snapshot.mode", "no_data") != "no_data":
            message = (
                f"`snapshot.mode: {connector['snapshot.mode']}` would copy tables into the log; "
                "pipelines take snapshots themselves. Remove it, or declare `no_data`."
            )
            raise ValueError(message)
        return connector

    @property
    def jars(self) -> str:
        """Name of the set of jars with the connector, such as ``connect-mysql``."""
        return _CLASSES[self.connector["connector.class"]]

    @property
    def is_postgres(self) -> bool:
        """Whether the database is a PostgreSQL."""
        return self.jars == "connect"

    @property
    def heartbeats(self) -> str:
        """Begin of the names of topics with heartbeats.

        ``__debezium-heartbeat`` by default.
        """
        return self.connector.get("topic.heartbeat.prefix", "__debezium-heartbeat")

    @property
    def tables(self) -> list[str]:
        """Names of the tables that are listed by a plain name, not by a pattern.

        In the order of ``table.include.list``; empty if it has patterns alone.
        """
        listed = [each.strip() for each in self.connector["table.include.list"].split(",")]
        return [each.replace("\\.", ".") for each in listed if _PLAIN.fullmatch(each)]

    @property
    def topics(self) -> set[str]:
        """Names of the topics that are known before their first record.

        They are those of :attr:`tables`.
        """
        return {f"{self.connector['topic.prefix']}.{table}" for table in self.tables}


class LoadedLog(NamedTuple):
    """A change log as its file declares it.

    Attributes:
        declared: What the file declares.
        folder: Folder of the log.
    """

    declared: LogDeclaration
    folder: Folder

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen at."""
        host, _, port = self.declared.listen.partition(":")
        return host, int(port)


def load_log(path: Path) -> LoadedLog:
    """Read the file of a change log; nothing of the log or the database is opened.

    Raises:
        InputError: It can't be read, a field is not valid, or an environment variable is not set.
    """
    path = path.absolute()
    document = read_document(path)
    if isinstance(document, dict) and "sources" in document:
        message = f"{path.name} declares a pipeline, not a change log."
        hint = "Name a file with `path` and `connector`, which all pipelines of a database share."
        raise InputError(message, hint, file=str(path))
    declared = validated(path, document, LogDeclaration)
    place = declared.path
    if "://" not in place:
        place = str((path.parent / place).resolve())
    return LoadedLog(
        declared, Stores(declared.s3, declared.hdfs).folder(place).called("change log")
    )
