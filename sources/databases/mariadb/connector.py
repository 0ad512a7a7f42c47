"""What a connector has read of a binary log, as Kafka Connect's REST interface reports it.

https://kafka.apache.org/documentation/#connect_rest (``/status``, and ``/offsets`` since 3.6)
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, NamedTuple

from sources.common.optional import needs_extra
from sources.config.snapshot import SnapshotOptions
from sources.databases.captured_table import CapturedTable
from sources.databases.mariadb.gtid import Gtid, parse_gtids
from sources.databases.mariadb.server import ask, connect, is_lost, parse_address, text_of
from sources.databases.replication_slot import Slot
from sources.errors import HybridError, InputError, UnavailableError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection, MySQLError
    from pymysql.cursors import Cursor

_TIMEOUT_S = 5
_FIRST_S = 75.0
_POLL_S = 1.0
_HEARTBEAT = "heartbeat.interval.ms"
_AGAIN = "then take the snapshot again: `hybrid snapshot PIPELINE`."


class ReadUpTo(NamedTuple):
    """Position up to which a connector has read a binary log.

    Attributes:
        is_running: Whether the connector and its task run.
        file: Number of the file; None if it has not read yet.
        offset: Position in the file.
        gtids: The last GTIDs; empty without GTIDs, and for MySQL.
    """

    is_running: bool
    file: int | None
    offset: int
    gtids: list[Gtid]


def require_reader(connection: Connection[Cursor], table: CapturedTable) -> None:
    """Refuse a snapshot before a connector reads the log: changes in between would be lost.

    Of a connector that runs, it waits for the first position: Kafka Connect keeps these once a
    minute by default (``offset.flush.interval.ms``).

    Args:
        connection: Open connection to the database.
        table: The table; its options may name the connector.

    Raises:
        InputError: The declared connector does not run, or has read nothing within 75 s; or no
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
    deadline = time.monotonic() + _FIRST_S
    while isinstance(found := ask_connector(url), ReadUpTo) and found.is_running:
        if found.file is not None:
            return
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    message = f"Connector {url} is not known to run: {found}."
    if isinstance(found, ReadUpTo):
        said = f"has read nothing within {_FIRST_S:.0f} s" if found.is_running else "does not run"
        message = f"Connector {url} {said}: changes until it reads would be missing from the table."
    hint = f"Start the connector, or correct `snapshot.connector`; {_AGAIN}"
    raise InputError(message, hint, source=table.source, field="snapshot.connector")


def ask_connector(url: str) -> ReadUpTo | str:
    """Ask Kafka Connect up to where a connector has read. Raises no error.

    Args:
        url: URL of the connector, ``http://host:8083/connectors/<name>``.

    Returns:
        The position; or the reason why it is not known, as text.
    """
    try:
        status = _get(f"{url.rstrip('/')}/status")
        offsets = _get(f"{url.rstrip('/')}/offsets")
    except (OSError, ValueError) as error:
        return _said(error)
    try:
        states = [status["connector"]["state"], *(each["state"] for each in status["tasks"])]
        is_running = len(states) > 1 and set(states) == {"RUNNING"}
        read = [each["offset"] for each in offsets["offsets"] if each["offset"]]
        if not read:
            return ReadUpTo(is_running, None, 0, [])
        file = int(str(read[0]["file"]).rpartition(".")[2])
        gtids = parse_gtids(str(read[0].get("gtids") or ""))
        return ReadUpTo(is_running, file, int(read[0]["pos"]), gtids)
    except (KeyError, TypeError, ValueError, IndexError):
        return "Kafka Connect's answer is not that of a connector of MariaDB or MySQL"


def require_heartbeats(url: str) -> None:
    """Refuse a connector that reports how far it is only when a captured table changes.

    Args:
        url: URL of the connector, ``http://host:8083/connectors/<name>``.

    Raises:
        InputError: The connector has no heartbeats, or Kafka Connect does not know it.
        UnavailableError: Kafka Connect does not answer.
    """
    try:
        found = _get(f"{url.rstrip('/')}/config").get(_HEARTBEAT)
    except urllib.error.HTTPError as error:
        message = f"Connector {url} is not known: {_said(error)}."
        raise InputError(message, "Correct `snapshot.connector`.", value=url) from None
    except (OSError, ValueError) as error:
        message = f"Connector {url} is not known: {_said(error)}."
        hint = "Start Kafka Connect, or correct `snapshot.connector`."
        raise UnavailableError(message, hint, server=url) from None
    if not str(found or "").strip().isdigit() or int(found) == 0:
        message = (
            f"Connector {url} has no heartbeats (`{_HEARTBEAT}`): while the captured tables do not "
            "change, it would not confirm how far it has read the binary log."
        )
        hint = (
            f"Set `{_HEARTBEAT}=1000` in the connector's configuration. Debezium then writes to "
            "the topic `__debezium-heartbeat.<topic.prefix>`, which has to exist, or be created by "
            "Kafka Connect."
        )
        raise InputError(message, hint, value=url)


def ask_log(options: SnapshotOptions) -> Slot | str:
    """Ask whether the binary log still has what a declared connector has not read. No error.

    Args:
        options: Declared snapshot with ``connector``.

    Returns:
        The state, as that of a replication slot: ``lost`` once the server has removed what the
        connector needs, or has never had it, with the bytes of log that it keeps; or why it is not
        known, as text.
    """
    read = ask_connector(str(options.connector))
    if isinstance(read, str):
        return read
    try:
        with connect(parse_address(options.dsn), "snapshot") as connection:
            return find_state(connection, read)
    except HybridError as error:
        return str(error)
    except (MySQLError, OSError) as error:
        return "the server does not answer" if is_lost(error) else text_of(error)


def find_state(connection: Connection[Cursor], read: ReadUpTo) -> Slot | str:
    """Return whether a server's binary log still has what comes after a position.

    Args:
        connection: Open connection to the server.
        read: Up to where the connector has read.

    Returns:
        As :func:`ask_log`.

    Raises:
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    if read.file is None:
        return Slot("missing")
    files = [(str(name), int(size)) for name, size, *_ in ask(connection, "SHOW BINARY LOGS")]
    numbers = [int(name.rpartition(".")[2]) for name, _ in files]
    is_lost_by_file = not numbers or read.file < numbers[0] or read.file > numbers[-1]
    gtids = _sequences(read.gtids)
    end: list[Gtid] = []
    if gtids:
        # Another server has other files.
        [(begin,)] = ask(connection, "SELECT BINLOG_GTID_POS(%s, 4)", files[0][0])
        removed = _sequences(parse_gtids(str(begin or "")))
        [(last, own)] = ask(connection, "SELECT @@gtid_binlog_pos, @@server_id")
        end = parse_gtids(str(last or ""))
        ahead = _not_in_log(connection, read.gtids)
        if ahead is not None and end and max(end, key=lambda each: each.sequence).server != own:
            return (
                f"the server's log does not have {ahead}, which the connector has read: it is a "
                "replica that is behind, or was promoted without this transaction"
            )
        is_gone = ahead is not None or any(
            gtids.get(domain, 0) < sequence for domain, sequence in removed.items()
        )
    else:
        is_gone = is_lost_by_file
    if is_gone:
        return Slot("lost")
    # Of the domains that the server writes; the connector keeps those that it once saw.
    confirmed = min((gtids.get(each, 0) for each in _sequences(end)), default=0)
    kept = sum(size for (_, size), n in zip(files, numbers, strict=True) if n >= read.file)
    behind = 0 if is_lost_by_file else max(kept - read.offset, 0)
    return Slot("active" if read.is_running else "idle", behind, confirmed=confirmed)


def _not_in_log(connection: Connection[Cursor], read: Sequence[Gtid]) -> Gtid | None:
    """Return a transaction that a connector has read and the server's log never had; or None.

    So it is after a failover to a replica that had not received it, and after RESET MASTER.
    """
    [(text,)] = ask(connection, "SELECT @@gtid_binlog_state")
    state = parse_gtids(str(text or ""))
    last = {(each.domain, each.server): each.sequence for each in state}
    domains = {each.domain for each in state}
    for each in read:
        # A connector that began in an empty log counts the first transaction before it is there;
        # domains that were removed from the server stay with the connector.
        is_known = each.domain in domains or not domains
        if is_known and each.sequence > max(last.get((each.domain, each.server), 0), 1):
            return each
    return None


def _sequences(gtids: Sequence[Gtid]) -> dict[int, int]:
    """Return the highest sequence number of GTIDs by domain."""
    found: dict[int, int] = {}
    for each in gtids:
        # After a failover there is one for each server.
        found[each.domain] = max(each.sequence, found.get(each.domain, 0))
    return found


def _said(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"Kafka Connect answers {error.code} ({error.reason})"
    return f"Kafka Connect does not answer: {' '.join(str(error).split())}"


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
        return json.loads(answer.read())
