"""Run of a change log: lease of one writer, waits after failures (1 to 30 s), engine's settings."""

from __future__ import annotations

import json
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hybrid_extensions.change_log import postgres_slot
from hybrid_extensions.change_log.declare import LoadedLog, LogDeclaration
from hybrid_extensions.change_log.engine import Engine
from hybrid_extensions.change_log.segments import Segments
from hybrid_extensions.change_log.server import LogServer
from hybrid_extensions.change_log.writer import LogPosition, Writer
from sources.common.durations import span_ms
from sources.common.times import now_ms
from sources.errors import HybridError, InputError, StateError
from spark_jobs.jvm.java import require_java
from spark_jobs.run_state.lease import take

_LEASE = "lease.json"
_HISTORY = "definitions.jsonl"
_AGAIN_S = (1.0, 30.0)
_CLEAN_S = 60.0
Say = Callable[[str], None]


def run(log: LoadedLog, say: Say, stop: threading.Event | None = None) -> None:
    """Write a change log and serve it until interrupted; after a transient failure try again.

    The wait before another attempt grows from 1 s to 30 s. Nothing is lost by an end at any time:
    the next run continues where the log ends.

    Args:
        log: The log.
        say: Called with a line of text for each failure, and once it is served.
        stop: Ends the run; by default only an exception does.

    Raises:
        StateError: Another process writes the log, a part of it is gone, or the database does not
            have the changes after its end any more.
        InputError: Java is missing; host and port can't be listened at, such as when another
            process does; or the declaration or the database does not allow it.
        UnavailableError: The log's store does not answer when the run begins.
    """
    require_java()
    stop = stop or threading.Event()
    lease = take(log.folder, _LEASE, uuid.uuid4().hex, is_driven=False)
    if lease is None:
        message = f"Another process writes the change log {log.folder}."
        hint = "End it first; a process that was killed is given up after half a minute."
        raise StateError(message, hint, file=log.folder.url)
    declared = log.declared
    keep_ms = -1 if declared.keep is None else span_ms(declared.keep)
    try:
        segments = Segments(log.folder)

        def topics() -> set[str]:
            return declared.topics | segments.last.ends.keys()

        with (
            _server(log, segments, topics, keep_ms) as server,
            tempfile.TemporaryDirectory(prefix="hybrid-change-log-") as scratch,
        ):
            writing = _Writing(log, segments, server, Path(scratch), say)
            wait_s = _AGAIN_S[0]
            while not stop.is_set():
                begun = time.monotonic()
                try:
                    writing.write(stop)
                except HybridError as error:
                    if not error.transient:
                        raise
                    say(str(error))
                if time.monotonic() - begun > _AGAIN_S[1]:
                    wait_s = _AGAIN_S[0]
                stop.wait(wait_s)
                wait_s = min(2 * wait_s, _AGAIN_S[1])
    finally:
        lease.release()


def _server(
    log: LoadedLog, segments: Segments, topics: Callable[[], set[str]], keep_ms: int
) -> LogServer:
    """Return the server of a log at its address, which it can't have while another one does."""
    try:
        return LogServer(segments, topics, log.address, keep_ms)
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        listen = log.declared.listen
        message = f"The change log can't be served at {listen}: {why}. No change was read or lost."
        hint = (
            "If another process listens there, end it; or declare another host and port in "
            "`listen`, and as `bootstrap_servers` of the pipelines that read the log. Until it "
            "runs again, the database keeps the changes."
        )
        raise InputError(message, hint, field="listen", value=listen, server=listen) from None


class _Writing:
    """Runs of the engine, one after the other.

    Args:
        log: The log.
        segments: Its segments.
        server: Server whose clients are woken for new records.
        scratch: Folder for the connector's own files.
        say: Called once with the address at which the log is served.
    """

    def __init__(
        self, log: LoadedLog, segments: Segments, server: LogServer, scratch: Path, say: Say
    ) -> None:
        self._log, self._segments, self._server, self._say = log, segments, server, say
        self._history = scratch / _HISTORY
        # A folder in a store has no log of the engine.
        self._output = (log.folder.root if log.folder.is_local else scratch) / "engine.log"
        self._kept_history = 0
        self._cleaned = time.monotonic()

    def write(self, stop: threading.Event) -> None:
        """Write what the engine sends until that ends.

        Raises:
            HybridError: Why it ended; transient if the engine is to be started again.
        """
        declared = self._log.declared
        self._segments.refresh()
        writer = Writer(self._segments, self._log.folder, declared.heartbeats)
        if declared.is_postgres:
            begun = writer.position
            end = postgres_slot.begin(declared, None if begun is None else begun.start)
            if begun is None:
                writer.begin(
                    {"server": declared.connector["topic.prefix"]}, {"lsn": end, "lsn_commit": end}
                )
        elif (history := self._log.folder.read_bytes(_HISTORY)) is not None:
            self._history.write_bytes(history)
        self._serve(writer)
        settings = engine_settings(declared, self._history, writer.position)
        with Engine(declared.jars, settings, self._output) as engine:
            for batch in engine.batches(partial(_require_database, declared)):
                self._keep_history()
                engine.answer(writer.take(batch))
                self._serve(writer)
                self._clean()
                if stop.is_set():
                    return

    def _serve(self, writer: Writer) -> None:
        """Serve what is there, once it is kept where the log begins.

        A snapshot that is taken from then on is followed, whatever is killed.
        """
        if writer.position is None:
            return
        if not self._server.is_open:
            self._server.open()
            self._say(f"The change log is served at {self._server.address}; Ctrl-C ends it.")
        self._server.wake_clients()

    def _keep_history(self) -> None:
        """Keep the definitions of tables, which are written before the changes that need them."""
        size = self._history.stat().st_size if self._history.exists() else 0
        if size != self._kept_history:
            self._log.folder.replace_bytes(_HISTORY, self._history.read_bytes())
            self._kept_history = size

    def _clean(self) -> None:
        keep = self._log.declared.keep
        if keep is not None and time.monotonic() - self._cleaned > _CLEAN_S:
            self._cleaned = time.monotonic()
            self._segments.delete_before(now_ms() - span_ms(keep))


def _require_database(declared: LogDeclaration) -> None:
    """Raise an UnavailableError if a database that an engine has not read yet does not answer."""
    if declared.is_postgres:
        postgres_slot.require_answer(declared)
    # The drivers of MariaDB and MySQL have a limit of their own.


def engine_settings(
    declared: LogDeclaration, history: Path, position: LogPosition | None
) -> dict[str, str]:
    """Return the settings of Debezium's engine, by name; they contain the declared secrets.

    Declared settings win over this project's defaults, but not over what it needs, such as
    ``snapshot.mode``.

    Args:
        declared: The log.
        history: File for the definitions of a binary log's tables.
        position: Where the engine begins; None for the present end of the database's log.
    """
    name = declared.connector["topic.prefix"]
    made = {
        "value.converter.replace.null.with.default": "false",
        "heartbeat.interval.ms": "1000",
        "poll.interval.ms": "50",
        "max.queue.size.in.bytes": str(32 << 20),
        # A binary log's heartbeats come with those of its server.
        "connect.keep.alive.interval.ms": "2000",
        **declared.connector,
        "name": name,
        "snapshot.mode": "no_data",
        # It begins again by `position`, where each change has its place.
        "errors.max.retries": "0",
        "offset.flush.interval.ms": "0",
        "lsn.flush.mode": "connector",
        # Some versions ask for it, and none uses it.
        "bootstrap.servers": "none:9092",
    }
    if not declared.is_postgres:
        # In ms. Not for PostgreSQL, whose driver could take the middle of a change that is late for
        # the begin of the next one: https://github.com/pgjdbc/pgjdbc/pull/4356.
        made.setdefault("driver.socketTimeout", "60000")
        made |= {
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(history),
        }
    if position is not None:
        key = json.dumps([name, position.partition], separators=(",", ":"))
        made |= {
            "hybrid.offset.key": key,
            "hybrid.offset.value": json.dumps(position.start),
        }
    return made
