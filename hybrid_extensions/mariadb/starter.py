"""Starter of `hybrid init` for MariaDB or MySQL: tables, connector settings and topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hybrid_extensions.cdc.capture_starter import CapturedKind, CaptureOptions, Topic
from hybrid_extensions.cdc.databases.captured_table import DatabaseTable
from hybrid_extensions.mariadb.server import needs_public_key, parse_address
from hybrid_extensions.mariadb.tables import find_tables
from sources.common.servers.server_id import server_id_of
from sources.errors import InputError

# Old heartbeats are never read.
_HEARTBEATS_MS = 3_600_000


class MariaDb(CapturedKind):
    """MariaDB or MySQL for `hybrid init`: their connector also reports statements in a topic."""

    include: Mapping[str, str] = {
        "_position": "position",
        "_committed_at": "committed_at",
        "_deleted": "deleted",
    }
    changes: Mapping[str, str] = {"on_schema_change": "follow"}

    def snapshot(self, options: CaptureOptions) -> dict[str, str]:
        """Return the fields of ``snapshot``: address, and that of the connector if known."""
        return {"dsn": options.dsn, **options.connector}

    def tables(self, options: CaptureOptions) -> tuple[list[DatabaseTable], list[str]]:
        """Return the tables with columns and keys, and a warning if no Kafka Connect is named.

        They are in the order in which they are asked for; names are compared with their case.

        Raises:
            InputError: The server refuses, or there is no such table.
            UnavailableError: The server does not answer.
        """
        found = {each.name: each for each in find_tables(options.dsn, options.tables.__contains__)}
        for name in options.tables:
            if name not in found:
                message = f"There is no table `{name}` in the database."
                hint = "Correct `database.table`, or grant the user SELECT on it; then try again."
                raise InputError(message, hint, table=name)
        unknown = (
            "Without `--connect` nothing tells how far the connector has read: `hybrid status P` "
            "and `--until caught-up` look no further than the topic. Add `snapshot.connector`, the "
            "connector's URL, to the files."
        )
        return [found[name] for name in options.tables], [] if options.connect else [unknown]

    def topics(self, options: CaptureOptions) -> dict[str, Topic]:
        """Return the topics to create by name: of each table, of statements, and of heartbeats.

        The topic of statements has one partition, so that its records have an order.
        """
        return {
            options.name: Topic(1),
            f"__debezium-heartbeat.{options.name}": Topic(1, _HEARTBEATS_MS),
            **super().topics(options),
        }

    def connector(self, options: CaptureOptions, tables: Sequence[DatabaseTable]) -> dict[str, str]:
        """Return the connector's settings that are specific to MariaDB or MySQL.

        Asks the server how passwords are sent.

        Raises:
            InputError: The server refuses, or the address is not valid.
            UnavailableError: The server does not answer.
        """
        del tables
        address = parse_address(options.dsn)
        is_mysql = options.dsn.startswith("mysql:")
        kind = "mysql.MySqlConnector" if is_mysql else "mariadb.MariaDbConnector"
        login = {"driver.allowPublicKeyRetrieval": "true"} if needs_public_key(address) else {}
        return {
            "connector.class": f"io.debezium.connector.{kind}",
            "database.hostname": address.host,
            "database.port": str(address.port),
            "database.user": address.user,
            **login,
            "database.server.id": str(server_id_of(options.name)),
            "schema.history.internal.kafka.bootstrap.servers": options.brokers,
            "schema.history.internal.kafka.topic": f"{options.name}.history",
            # Otherwise 2^63 and more of `bigint unsigned` become negative, and the year 1 2001.
            "bigint.unsigned.handling.mode": "precise",
            "enable.time.adjuster": "false",
            "heartbeat.interval.ms": "1000",
        }


STARTER = MariaDb()
