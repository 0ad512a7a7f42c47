"""Replication slot: PostgreSQL keeps its log for a connector until the connector has read it.

https://www.postgresql.org/docs/current/view-pg-replication-slots.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sources.common.optional import needs_extra
from sources.common.positions import Record, iso, now_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.databases.kafka_connect import find_state
from sources.errors import InputError
from sources.storage.folder import Folder

if TYPE_CHECKING:
    import psycopg

_TIMEOUT_S = 5
_GONE = "run/slot.json"
NEW_SNAPSHOT = (
    "Create the connector again; then take a new snapshot, in a new folder, and begin a new "
    "generation: `hybrid generation new`."
)
"""What to do, as a sentence, once a slot is missing or lost."""


State = Literal["active", "idle", "lost", "missing", "moved"]


class Slot(NamedTuple):
    """State of a PostgreSQL replication slot, or of a connector's place in a binary log.

    Positions are LSNs, for MariaDB sequence numbers of GTIDs, for MySQL file and place in it.

    Attributes:
        state: ``active``: a connector reads it; ``idle``: none does; ``lost``: the server removed
            the log that it needs; ``missing``: it does not exist, or was never read; ``moved``: it
            is in the log of another MySQL server than the snapshot's.
        retained_bytes: Bytes of the log that the server keeps for it; 0 if lost or missing.
        unread_bytes: Bytes of the log, up to its end, that no connector was sent; for MariaDB and
            MySQL, that the connector has not confirmed. None if the role may not see it, if the
            slot is lost or missing, and where ``log_end`` is 0.
        log_end: End of the log when the server was asked; 0 where the connector could not confirm
            it.
        received: Position up to which the connector has confirmed that it received the log, which
            it does every 10 s by default (``status.update.interval.ms``); None as above, and for
            MariaDB and MySQL, which are not told.
        confirmed: Position up to which it has confirmed that the topics hold all changes. For
            PostgreSQL it stays where it is while only other tables change.
        failure: Why the declared connector, or its task, failed, so that somebody has to start it
            again; empty if it did not, or none is declared.
        server: Id of the MySQL server whose log it is; empty for others, which it does not matter
            for.
    """

    state: State
    retained_bytes: int = 0
    unread_bytes: int | None = None
    log_end: int = 0
    received: int | None = None
    confirmed: int = 0
    failure: str = ""
    server: str = ""


class SlotGone(Record):
    """Finding, kept in the state, that a replication slot was missing or lost.

    Changes of the database are then missing from the generation that depends on the slot.

    Attributes:
        slot: Name of the slot.
        at_ms: When that was found: Unix time in milliseconds.
        state: State of the slot that was found, ``missing``, ``lost`` or ``moved``.
    """

    slot: str
    at_ms: int
    state: State

    def __str__(self) -> str:
        """Return the finding as text."""
        if self.state == "moved":
            return (
                f"connector {self.slot} was found at {iso(self.at_ms)} to read another server's "
                "log than that which the snapshot was taken in: positions of two servers can't be "
                "compared, so changes may have been taken for older ones"
            )
        what = "had lost its log" if self.state == "lost" else "did not exist"
        name = f"replication slot `{self.slot}`"
        if "://" in self.slot:
            what = (
                "had lost its place in the binary log" if self.state == "lost" else "had no place"
            )
            name = f"connector {self.slot}"
        return f"{name} {what} at {iso(self.at_ms)}: changes are missing"


def watched_slot(loaded: LoadedPipeline) -> SnapshotOptions | None:
    """Return the declared snapshot whose replication slot a pipeline's changes come through.

    Args:
        loaded: The pipeline.

    Returns:
        The first source's ``snapshot`` that is declared, with the slot's name; None without any.
    """
    snapshots = [source.snapshot for source in loaded.pipeline.sources]
    return next((each for each in snapshots if each is not None and each.log_reader), None)


def watched_topic(loaded: LoadedPipeline) -> KafkaSource | None:
    """Return the topic with the changes that come through :func:`watched_slot`; None without any.

    Args:
        loaded: The pipeline.
    """
    pipeline = loaded.pipeline
    for source in pipeline.sources:
        if source.snapshot is not None and source.snapshot.log_reader:
            return pipeline.topic_after(source.name)
    return None


def ask_slot(options: SnapshotOptions) -> Slot | str:
    """Ask the database server for the state of a declared replication slot. Raises no error.

    Args:
        options: Declared snapshot with connection string and slot name.

    Returns:
        The slot's state; or the reason why it is not known, as text: the server does not answer
        within 5 s or refuses, is a standby server, or the extra ``postgres`` is not installed. For
        MariaDB and MySQL, the state of the connector's place in the binary log.
    """
    if options.kind == "mariadb":
        return _ask_binary_log(options)
    try:
        with needs_extra("postgres", "A replication slot of PostgreSQL"):
            import psycopg  # noqa: PLC0415 - few need it
    except InputError as error:
        return str(error)

    try:
        with psycopg.connect(
            options.dsn,
            autocommit=True,
            connect_timeout=_TIMEOUT_S,
            application_name="hybrid slot",
            options=f"-c statement_timeout={_TIMEOUT_S * 1000}",
        ) as connection:
            row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
            if row is not None and row[0]:
                return f"{connection.info.host} is a standby server, which does not report slots"
            return _with_failure(find_slot(connection, options.log_reader), options)
    except psycopg.Error as error:
        return " ".join(str(error).split())


def _with_failure(slot: Slot, options: SnapshotOptions) -> Slot:
    """Return a slot with the reason why its connector failed, if one is declared that did."""
    if slot.state != "idle" or options.connector is None:
        return slot
    found = find_state(options.connector)
    return slot if isinstance(found, str) else slot._replace(failure=found.failure)


def _ask_binary_log(options: SnapshotOptions) -> Slot | str:
    """Return the state of a connector's place in the binary log of MariaDB or MySQL."""
    try:
        from sources.databases.mariadb.log.binlog import ask_log  # noqa: PLC0415 - as above
    except InputError as error:
        return str(error)
    return ask_log(options)


def find_slot(connection: psycopg.Connection[Any], name: str) -> Slot:
    """Return the state of a replication slot, ``missing`` if the server has none of the name.

    Args:
        connection: Open connection to the server, which is not a standby.
        name: Name of the slot.

    Raises:
        psycopg.Error: The server does not answer, or refuses.
    """
    # Asked first: what was sent by then is compared with it.
    end = connection.execute("SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
    row = connection.execute(
        "SELECT s.active, coalesce(s.wal_status, ''), "
        "coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn), 0)::bigint, "
        "(s.confirmed_flush_lsn - '0/0'::pg_lsn)::bigint, "
        "(r.sent_lsn - '0/0'::pg_lsn)::bigint, (r.write_lsn - '0/0'::pg_lsn)::bigint "
        "FROM pg_replication_slots s LEFT JOIN pg_stat_replication r ON r.pid = s.active_pid "
        "WHERE s.slot_name = %s",
        [name],
    ).fetchone()
    if end is None or row is None or row[3] is None:
        return Slot("missing")
    is_active, status, retained, confirmed, sent, written = row
    if status == "lost":
        return Slot("lost")
    if not is_active:
        sent = written = confirmed
    unread = max(end[0] - sent, 0) if sent is not None else 0 if confirmed >= end[0] else None
    # A connector that has not reported yet has received what it confirmed before.
    received = max(confirmed, written or 0) if sent is not None else None
    state: State = "active" if is_active else "idle"
    return Slot(state, retained, unread, end[0], received, confirmed)


def gone_state(slot: Slot, server: str) -> State | None:
    """Return the state of a slot through which no more changes come that count; None if they do.

    Args:
        slot: The slot.
        server: Id of the MySQL server that the snapshot was taken in; empty if it is not known.
    """
    if slot.state in ("lost", "missing"):
        return slot.state
    return "moved" if server and slot.server and slot.server != server else None


def slot_gone(
    generation: Folder, options: SnapshotOptions, slot: Slot | str, server: str = ""
) -> SlotGone | None:
    """Return the finding that a slot is missing or lost now, or was once in this generation.

    A kept finding stays, as a slot of the same name that is created later lacks the changes in
    between. Nothing is written (:func:`keep_gone` does that).

    Args:
        generation: State folder of the generation, which keeps the finding.
        options: Declared snapshot with the slot's name.
        slot: State of the slot, or why it is not known, as :func:`ask_slot` returns it.
        server: As for :func:`gone_state`.

    Returns:
        None if the slot was never found missing or lost.
    """
    known = generation.read(_GONE, SlotGone)
    if known is not None and known.slot == options.log_reader:
        return known
    if isinstance(slot, str) or (state := gone_state(slot, server)) is None:
        return None
    return SlotGone(slot=options.log_reader, at_ms=now_ms(), state=state)


def keep_gone(generation: Folder, gone: SlotGone) -> None:
    """Write the finding that a slot was missing or lost to the state; a second call does nothing.

    Args:
        generation: State folder of the generation.
        gone: The finding.

    Raises:
        StateError: The state folder can't be written.
    """
    if generation.read(_GONE, SlotGone) != gone:
        generation.replace(_GONE, gone)


def look_at_slot(loaded: LoadedPipeline, generation: Folder, server: str) -> None:
    """Ask for the slot of a pipeline, if it has one, and keep a finding that it is missing or lost.

    Args:
        loaded: The pipeline.
        generation: State folder of the generation.
        server: As for :func:`gone_state`.

    Raises:
        StateError: The state folder can't be written.
    """
    if (options := watched_slot(loaded)) is not None:
        gone = slot_gone(generation, options, ask_slot(options), server)
        if gone is not None:
            keep_gone(generation, gone)
