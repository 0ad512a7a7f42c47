"""What `hybrid init` needs of a kind of database to capture tables: connector, topics, fields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from hybrid_extensions.cdc.databases.captured_table import DatabaseTable
from hybrid_extensions.cdc.tables.names import topic_part
from sources.errors import UnavailableError
from sources.kafka.client.address import resolve_bootstrap

_PARTITIONS = 3
_FOREVER = -1


class Topic(NamedTuple):
    """Topic to create.

    Attributes:
        partitions: Number of its partitions.
        retention_ms: How long it keeps records, in milliseconds; -1 for ever.
    """

    partitions: int
    retention_ms: int = _FOREVER


@dataclass(frozen=True)
class CaptureOptions:
    """Options of a starter that captures tables.

    Attributes:
        name: Name of the connector, its slot and publication, and prefix of the topics.
        dsn: How the database is reached, as ``snapshot.dsn``, without a password.
        tables: Names of the form ``schema.table``, or ``database.table``.
        servers: Brokers of the topics, or ``local``.
        connect: URL of Kafka Connect, such as ``http://connect:8083``; empty if it is not known.
    """

    name: str
    dsn: str
    tables: Sequence[str]
    servers: str = "local"
    connect: str = ""

    @property
    def brokers(self) -> str:
        """Brokers of the topics, ``host:port,...``.

        ``localhost:9092`` if the local broker is meant and does not run. Whether others answer is
        not asked.
        """
        try:
            return resolve_bootstrap(self.servers)
        except UnavailableError:
            return "localhost:9092"

    @property
    def connectors(self) -> str:
        """URL of the connectors in Kafka Connect, with a placeholder for unknown parts.

        Without a slash at its end; the connector's name follows after one.
        """
        return f"{(self.connect or 'http://<connect>:8083').rstrip('/')}/connectors"

    @property
    def connector(self) -> dict[str, str]:
        """Field of ``snapshot`` with the connector's URL; empty if Kafka Connect is not known."""
        return {"connector": f"{self.connectors}/{self.name}"} if self.connect else {}


class CapturedKind(ABC):
    """Interface of a kind of database for the starter; its extension implements it.

    Attributes:
        include: Parts of a change's envelope that are columns, by name of the column.
        changes: Further fields of the topic of changes, by name.
        sink: Further fields of the sink, by name.
    """

    include: Mapping[str, str]
    changes: Mapping[str, str] = MappingProxyType({})
    sink: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def snapshot(self, options: CaptureOptions) -> dict[str, str]:
        """Return the fields of ``snapshot`` in the pipeline's file, such as ``dsn``."""

    @abstractmethod
    def tables(self, options: CaptureOptions) -> tuple[list[DatabaseTable], list[str]]:
        """Return the tables, and sentences about those that can't be captured.

        Raises:
            InputError: The database refuses, there is no such table, or it can't be captured.
            UnavailableError: The database does not answer.
        """

    @abstractmethod
    def connector(self, options: CaptureOptions, tables: Sequence[DatabaseTable]) -> dict[str, str]:
        """Return the settings of the connector, by name, that only this kind of database has.

        Args:
            options: Options of the starter.
            tables: The tables to capture.
        """

    def topics(self, options: CaptureOptions) -> dict[str, Topic]:
        """Return the topics to create, by name.

        By default that of each table, with 3 partitions, which keeps records for ever.
        """
        return {topic_of(options, table): Topic(_PARTITIONS) for table in options.tables}


def topic_of(options: CaptureOptions, table: str) -> str:
    """Return the name of a table's topic, as Debezium forms it.

    Args:
        options: Options of the starter.
        table: ``schema.table``, or ``database.table``.
    """
    schema, _, name = table.partition(".")
    return f"{options.name}.{topic_part(schema)}.{topic_part(name)}"
