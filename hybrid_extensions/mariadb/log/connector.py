"""Connector of a binary log: whether it runs, how far it has read, and that it has heartbeats.

https://kafka.apache.org/documentation/#connect_rest (``/offsets`` since version 3.6)
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.cdc.databases.kafka_connect import (
    ask_connect,
    failure_in_words,
    read_config,
    read_state,
)
from hybrid_extensions.mariadb.log.gtid import Gtid, parse_gtids
from hybrid_extensions.mariadb.server import ask
from sources.common.optional import needs_extra
from sources.errors import InputError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.cursors import Cursor

FIRST_S = 75.0
"""Seconds within which a connector has read something, so that a snapshot may be taken."""
_POLL_S = 1.0
_HEARTBEAT = "heartbeat.interval.ms"
_NOT_A_CONNECTOR = "Kafka Connect's answer is not that of a connector of MariaDB or MySQL"
_AGAIN = "then take the snapshot: `hybrid snapshot P`."


class ReadUpTo(NamedTuple):
    """Position in a binary log that a connector has reached, as Kafka Connect keeps it.

    Attributes:
        is_running: Whether the connector and its task run.
        file: Number of the log's file, such as 3 for ``binlog.000003``; None if the connector has
            not read yet.
        offset: Position in the file, in bytes.
        gtids: MariaDB's last GTID of each domain; empty without GTIDs, and for MySQL.
        gtid_set: MySQL's set of all GTIDs that the connector has read, as text; empty without
            GTIDs.
        failure: Why the connector or its task failed; empty if none did.
    """

    is_running: bool
    file: int | None
    offset: int
    gtids: list[Gtid]
    gtid_set: str = ""
    failure: str = ""


def require_reader(connection: Connection[Cursor], table: CapturedTable) -> None:
    """Refuse a snapshot before a connector reads the log: changes in between would be lost.

    Of a connector that runs, it waits for the first position: Kafka Connect keeps these once a
    minute by default (``offset.flush.interval.ms``).

    Args:
        connection: Open connection to the database.
        table: The table; its options may name the connector.

    Raises:
        InputError: The declared connector does not run, or has no position within 75 s; or no
            connector is declared, and the server shows no reader of its binary log.
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    url = table.options.connector
    if url is None:
        reads = "SELECT 1 FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
        if ask(connection, reads):
            return
        message = (
            "In the database no connector is seen that reads the binary log: changes until one "
            "begins would be missing from the table."
        )
        hint = (
            "Start the connector, with `snapshot.mode=no_data`. If it runs, grant PROCESS to the "
            "user of `snapshot.dsn`, or declare `snapshot.connector`, its URL in Kafka Connect; "
            f"{_AGAIN}"
        )
        raise InputError(message, hint, source=table.source, table=table.name)
    deadline = time.monotonic() + FIRST_S
    while isinstance(found := ask_connector(url), ReadUpTo) and found.is_running:
        if found.file is not None:
            return
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    message = f"Connector {url} is not known to run: {found}."
    hint = f"Start the connector, or correct `snapshot.connector`; {_AGAIN}"
    if isinstance(found, ReadUpTo):
        what = "does not run"
        if found.failure:
            what = f"is FAILED ({found.failure})"
        elif found.is_running:
            what = f"runs, but Kafka Connect has kept no position of it within {FIRST_S:.0f} s"
            hint = (
                f"Set `{_HEARTBEAT}=1000` in the connector's configuration, and create the topic "
                "`__debezium-heartbeat.<topic.prefix>` if there is none, so that it has a position "
                f"without changes, too; {_AGAIN}"
            )
        message = f"Connector {url} {what}: changes until it reads would be missing from the table."
    raise InputError(message, hint, source=table.source, field="snapshot.connector")


def ask_connector(url: str) -> ReadUpTo | str:
    """Return a connector's position in the log, as Kafka Connect keeps it. Raises nothing.

    Args:
        url: URL of the connector, ``http://host:8083/connectors/<name>``.

    Returns:
        The position; or the reason why it is not known, as text.
    """
    try:
        is_running, failure = read_state(url)
        offsets = ask_connect(url, "/offsets")
    except (OSError, ValueError) as error:
        return failure_in_words(error)
    except (KeyError, TypeError):
        return _NOT_A_CONNECTOR
    try:
        read = [each["offset"] for each in offsets["offsets"] if each["offset"]]
        if not read:
            return ReadUpTo(is_running, None, 0, [], failure=failure)
        file = int(str(read[0]["file"]).rpartition(".")[2])
        text = str(read[0].get("gtids") or "")
        return ReadUpTo(
            is_running,
            file,
            int(read[0]["pos"]),
            parse_gtids(text),
            text if ":" in text else "",
            failure,
        )
    except (KeyError, TypeError, ValueError, IndexError):
        return _NOT_A_CONNECTOR


def require_heartbeats(url: str) -> None:
    """Refuse a connector of MariaDB or MySQL without heartbeats.

    It reports its position in the binary log only with changes.

    Args:
        url: URL of the connector, ``http://host:8083/connectors/<name>``.

    Raises:
        InputError: It has none, or Kafka Connect does not know it.
        UnavailableError: Kafka Connect does not answer.
    """
    if not has_heartbeats(read_config(url)):
        message = (
            f"Connector {url} has no heartbeats (`{_HEARTBEAT}`): while the captured tables do not "
            "change, it would not confirm how far it has read the binary log."
        )
        hint = (
            f"Set `{_HEARTBEAT}=1000` in the connector's configuration. Debezium then writes to "
            "the topic `__debezium-heartbeat.<topic.prefix>`, which has to exist, or be created by "
            "Kafka Connect. Then try again."
        )
        raise InputError(message, hint, value=url)


def has_heartbeats(config: Mapping[str, Any]) -> bool:
    """Return whether a connector reports its position while no captured table changes.

    Args:
        config: The connector's configuration.
    """
    found = str(config.get(_HEARTBEAT) or "").strip()
    return found.isdigit() and int(found) > 0
