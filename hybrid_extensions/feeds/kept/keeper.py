"""Keeper of a feed's deliveries, which appends each to their table once it is in the sink.

Sink and table can't commit together. So the rows are written to a file and announced in the state
before the sink gets them, and appended to the table, under a number that Delta remembers, once it
has. After a crash in between the sink's own position decides: with the announced one the rows are
appended, with the one before nothing was delivered, and in all other cases the delivery is repeated
by the follower, and counts as begun when it was begun first.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from hybrid_extensions.feeds.declare import AnyFeed
from hybrid_extensions.feeds.follower_lock import require_lock
from hybrid_extensions.feeds.kept.kept_record import (
    KeptRecord,
    Kind,
    PendingDelivery,
    read_kept,
    write_kept,
)
from hybrid_extensions.feeds.kept.kept_table import DELETED, NEW, KeptTable, day_of
from hybrid_extensions.feeds.position import Held, Position
from hybrid_extensions.feeds.rows import Rows
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.storage.folder import Folder
from spark_jobs.run_state.lock import Lock

_PENDING = "_pending"
"""Folder in that of the table, with rows of announced deliveries; Delta ignores it."""
_BATCHES = 10
"""Batches of rows in one file: 200,000 rows or so."""


class Keeper:
    """Keeper of the deliveries of one feed; a lock lets one process at a time keep them.

    Args:
        loaded: The pipeline.
        feed: The feed, which declares ``keep``.
        folder: State folder of the feed.
    """

    def __init__(self, loaded: LoadedPipeline, feed: AnyFeed, folder: Folder) -> None:
        assert feed.keep is not None
        self._owner, self._keep = f"{loaded.pipeline.name}.{feed.name}", feed.keep
        self._name = feed.name
        self._place, self._folder = loaded.place(feed.keep.path), folder
        self._lock: Lock | None = None
        self._table: KeptTable | None = None
        self._record = KeptRecord()
        self._begun_ms: int | None = None

    def close(self) -> None:
        """Release the lock, so that another process can keep deliveries. May be called again."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def open(self, columns: pa.Schema, key: Sequence[str]) -> None:
        """Prepare to keep a delivery; called before the sink is asked for its position.

        Args:
            columns: Columns that are delivered, with the target's types.
            key: Columns that identify a row of the target.

        Raises:
            InputError: Deliveries can't be kept in the declared folder.
            StateError: Another process keeps deliveries of this feed.
            UnavailableError: A store does not answer.
        """
        table = KeptTable(self._place, self._owner, columns, key)
        table.require()
        if self._lock is None:
            message = f"Another follower feeds `{self._name}` now, and keeps what it delivers."
            self._lock = require_lock(self._folder, "keep", message)
        self._table = table

    def settle(self, held: Held) -> None:
        """Complete or forget the delivery that was announced last, by what the sink has.

        Args:
            held: The sink's record of its position.

        Raises:
            InputError: The table can't be written.
            StateError: The state is damaged, or can't be written.
            UnavailableError: A store does not answer.
        """
        found = read_kept(self._folder)
        # In another folder nothing is kept yet.
        self._record = (
            found if found.table == self._place.url else KeptRecord(table=self._place.url)
        )
        self._begun_ms = None
        pending = self._record.pending
        if pending is not None and held.pending is None:
            if held.delivered == pending.end:
                self._complete(pending)
            elif held.delivered is not None and held.delivered == pending.start:
                self._write(pending=None)
                self._forget(pending)

    def lacks(self, position: Position) -> bool:
        """Return whether the sink got rows up to its position that were not kept.

        Called after :meth:`open` and :meth:`settle`.
        """
        return self._record.complete != position or self._opened.number != self._record.number

    def keep_all(self, rows: Rows, position: Position) -> None:
        """Keep all rows that the sink has at its position, as what was delivered is not known.

        Args:
            rows: The rows of that version of the target.
            position: The sink's position.

        Raises:
            InputError, StateError, UnavailableError: As :meth:`settle`.
        """
        # What the sink had since the last kept delivery is not known.
        before_ms = self._record.delivered_ms
        begun_ms = before_ms + 1 if before_ms else now_ms()
        with self.delivery(rows, "load", position, position, begun_ms=begun_ms):
            pass
        # Of a delivery that was interrupted some rows may be there already.
        self._begun_ms = self._record.delivered_ms

    @contextmanager
    def delivery(
        self,
        rows: Rows,
        kind: Kind,
        start: Position | None,
        end: Position,
        *,
        committed_ms: int | None = None,
        begun_ms: int | None = None,
    ) -> Iterator[None]:
        """Announce a delivery, and keep it when the body of ``with``, which makes it, has ended.

        Args:
            rows: The rows that are delivered.
            kind: Whether they are all rows, or changes.
            start: The sink's position before it; None if it has none.
            end: The position after it.
            committed_ms: When the oldest commit that is delivered was made, in ms since 1970; None
                if that is not known.
            begun_ms: Since when rows of it may be in the sink, in ms since 1970; now by default.

        Raises:
            InputError, StateError, UnavailableError: As :meth:`settle`.
        """
        record = self._record
        # The clock may have been set back.
        begun_ms = begun_ms or self._begun_ms or max(now_ms(), record.delivered_ms + 1)
        if (before := record.pending) is not None:
            begun_ms = min(begun_ms, before.begun_ms)
        stage = uuid.uuid4().hex
        parts = self._stage(rows, stage)
        # A load is kept even if it has no rows: all keys are gone then.
        has_commit = parts > 0 or kind == "load"
        pending = PendingDelivery(
            number=self._opened.number + has_commit,
            kind=kind,
            start=start,
            end=end,
            begun_ms=begun_ms,
            committed_ms=committed_ms,
            stage=stage,
            parts=parts,
        )
        self._write(pending=pending)
        if before is not None:
            self._forget(before)
        yield
        self._complete(pending)

    def _complete(self, pending: PendingDelivery) -> None:
        """Append a delivery that is in the sink to the table, and record that."""
        delivered_ms = max(now_ms(), pending.begun_ms)
        self._opened.append(self._parts(pending), pending, delivered_ms)
        self._write(
            complete=pending.end, number=pending.number, delivered_ms=delivered_ms, pending=None
        )
        self._forget(pending)
        today = day_of(delivered_ms)
        if self._record.cleaned != today.isoformat() and pending.number:
            self._opened.clean(today, today - timedelta(days=self._keep.days))
            self._write(cleaned=today.isoformat())

    def _stage(self, rows: Rows, stage: str) -> int:
        """Write rows to files that no reader of the table sees; return their number."""
        reader, number = rows.read_to_keep(DELETED, NEW), 0
        while batches := list(islice(reader, _BATCHES)):
            data = pa.BufferOutputStream()
            pq.write_table(pa.Table.from_batches(batches).cast(self._opened.rows), data)
            self._place.replace_bytes(_file(stage, number), data.getvalue().to_pybytes())
            number += 1
        return number

    def _parts(self, pending: PendingDelivery) -> Iterator[pa.Table]:
        schema = self._opened.rows
        if pending.kind == "load" and not pending.parts:
            nothing = dict.fromkeys(schema.names) | {DELETED: True}
            yield pa.Table.from_pylist([nothing], schema)
        for number in range(pending.parts):
            name = _file(pending.stage, number)
            if (data := self._place.read_bytes(name)) is None:
                place = self._place.location(name)
                message = (
                    f"The file {place} is missing, which has rows that feed `{self._name}` has "
                    "delivered and not yet kept."
                )
                hint = (
                    "Restore it. If it is lost, name another folder in `keep: {path: …}`: what the "
                    "sink has is kept there from now on."
                )
                raise StateError(message, hint, file=place)
            yield pq.read_table(pa.BufferReader(data), schema=schema)

    def _forget(self, pending: PendingDelivery) -> None:
        for number in range(pending.parts):
            self._place.delete(_file(pending.stage, number))

    def _write(self, **changed: object) -> None:
        self._record = self._record.model_copy(update=changed)
        write_kept(self._folder, self._record)

    @property
    def _opened(self) -> KeptTable:
        assert self._table is not None
        return self._table


def _file(stage: str, number: int) -> str:
    return f"{_PENDING}/{stage}-{number}.parquet"
