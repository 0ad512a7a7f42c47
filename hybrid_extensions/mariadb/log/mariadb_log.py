"""Lag in MariaDB's binary log; whether the server has the rest, or is a replica that is behind.

https://mariadb.com/kb/en/show-binlog-events/, https://mariadb.com/kb/en/binlog_gtid_pos/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from hybrid_extensions.cdc.databases.kafka_connect import ask_connect, failure_in_words
from hybrid_extensions.cdc.databases.slot import Slot, State
from hybrid_extensions.mariadb.log import mysql_log
from hybrid_extensions.mariadb.log.connector import ReadUpTo, ask_connector, has_heartbeats
from hybrid_extensions.mariadb.log.gtid import Gtid, parse_gtids
from hybrid_extensions.mariadb.server import (
    LOOK_S,
    ask,
    connect,
    is_lost,
    parse_address,
    text_of,
)
from hybrid_extensions.mariadb.snapshot.capture_checks import is_mariadb, server_variables
from hybrid_extensions.mariadb.snapshot.same_server import log_address
from sources.common.optional import needs_extra
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import HybridError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection, MySQLError
    from pymysql.cursors import Cursor

_FEW_BYTES = 1 << 16
"""Log that is looked through for changes of rows; while more is unread, there are some."""


def ask_log(options: SnapshotOptions) -> Slot | str:
    """Return how much of the binary log a declared connector has not read. Raises nothing.

    Asks Kafka Connect for the position, and the server for its log.

    Args:
        options: Declared snapshot with ``connector``.

    Returns:
        The state, as that of a replication slot: ``lost`` once the server has removed what the
        connector needs, or has never had it; ``missing`` if the connector has read nothing yet. Or,
        as text, why it is not known, such as that the server is a replica that is behind. The end
        of the log is in it only if the connector has heartbeats, and MariaDB's log has GTIDs of one
        domain; else it is 0.
    """
    url = str(options.connector)
    read = ask_connector(url)
    if isinstance(read, str):
        return read
    config, problem = _config_of(url)
    try:
        with _log_of(options, config) as connection:
            find = (
                find_mariadb_slot
                if is_mariadb(server_variables(connection))
                else mysql_log.find_mysql_slot
            )
            found = find(connection, read)
    except HybridError as error:
        return str(error)
    except (MySQLError, OSError) as error:
        text = text_of(error)
        return f"the server does not answer: {text}" if is_lost(error) else text
    if isinstance(found, str):
        return found
    found = found._replace(failure=read.failure)
    if not found.log_end:
        return found
    if problem is not None:
        return problem
    if has_heartbeats(config):
        return found
    # It would confirm nothing while only other tables change.
    return found._replace(log_end=0, unread_bytes=None)


def _config_of(url: str) -> tuple[Mapping[str, Any], str | None]:
    """Return a connector's configuration; or none, and why it is not known."""
    try:
        return ask_connect(url, "/config"), None
    except (OSError, ValueError) as error:
        return {}, failure_in_words(error)


def _log_of(options: SnapshotOptions, config: Mapping[str, Any]) -> Connection[Cursor]:
    """Return a connection to the server whose log is read: of MySQL, the connector's.

    After a failover that is another one than the declared; if it can't be asked from here, the
    declared one is.
    """
    address = parse_address(options.dsn)
    if options.dsn.startswith("mysql:"):
        with suppress(HybridError, OSError):
            if (there := log_address(address, config)) is not None:
                return connect(there, "snapshot", LOOK_S)
    return connect(address, "snapshot", LOOK_S)


def find_mariadb_slot(connection: Connection[Cursor], read: ReadUpTo) -> Slot | str:
    """Return the state of MariaDB's binary log after a position, or why it is unknown.

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
        # After a change of server, file names differ, so that GTIDs decide.
        [(begin,)] = ask(connection, "SELECT BINLOG_GTID_POS(%s, 4)", files[0][0])
        removed = _sequences(parse_gtids(str(begin or "")))
        [(last, own)] = ask(connection, "SELECT @@gtid_binlog_pos, @@server_id")
        end = parse_gtids(str(last or ""))
        ahead = _not_in_log(connection, read.gtids)
        if ahead is not None and end and max(end, key=lambda each: each.sequence).server != own:
            return mysql_log.lacks(str(ahead))
        is_gone = ahead is not None or any(
            gtids.get(domain, 0) < sequence for domain, sequence in removed.items()
        )
    else:
        is_gone = is_lost_by_file
    if is_gone:
        return Slot("lost")
    # Of the domains that the server writes; the connector keeps those that it once saw.
    confirmed = min((gtids.get(each, 0) for each in _sequences(end)), default=0)
    kept = [each for each, n in zip(files, numbers, strict=True) if n >= read.file]
    behind = 0 if is_lost_by_file else max(sum(size for _, size in kept) - read.offset, 0)
    state: State = "active" if read.is_running else "idle"
    if len(_sequences(end)) != 1:
        return Slot(state, behind, confirmed=confirmed)
    # A connector that began in an empty log counts the first transaction before it has read it.
    log_end = max(*_sequences(end).values(), 2)
    if (
        confirmed < log_end
        and behind < _FEW_BYTES
        and not _may_have_changes(connection, read, kept)
    ):
        confirmed = log_end
    unread = max(behind, 1) if confirmed < log_end else 0
    return Slot(state, behind, unread, log_end, confirmed=confirmed)


def _may_have_changes(
    connection: Connection[Cursor], read: ReadUpTo, files: Sequence[tuple[str, int]]
) -> bool:
    """Return whether the log may have changes of rows behind a position.

    A connector confirms a statement that is no transaction, such as CREATE TABLE, only with the
    transaction after it. TRUNCATE counts as a change.

    Args:
        connection: Open connection to the server.
        read: The position.
        files: The log's files from that of the position on, with their sizes.
    """
    position = read.offset
    for name, _ in files:
        try:
            events = ask(connection, "SHOW BINLOG EVENTS IN %s FROM %s", name, position)
        except MySQLError as error:
            if is_lost(error):
                raise
            # Not the place of an event, as after a failover.
            return True
        for _, _, kind, _, _, text in events:
            if "_rows" in kind and kind != "Annotate_rows":
                return True
            if kind == "Query" and "truncate" in text.lower():
                return True
        position = 4
    if not files:
        return True
    # The same place in the log of another server has other transactions before it.
    [(begin,)] = ask(connection, "SELECT BINLOG_GTID_POS(%s, %s)", files[0][0], read.offset)
    return _sequences(parse_gtids(str(begin or ""))) != _sequences(read.gtids)


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
