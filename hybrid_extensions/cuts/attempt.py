"""Attempt to publish a cut: open a barrier in all tables, and wait until they reach it.

The order of steps is what makes a cut right; :mod:`hybrid_extensions.cuts.barrier` has the drivers'
part:

1. The barrier is written to the state of each table, without a position.
2. The database is asked for a position in its log, which is written to each.
3. The connector has confirmed more than that: the topics hold all changes from before it.
4. Their end offsets are read, and each table commits up to them.
5. Of each table the version is read, *then* the driver's answer, which counts if there is one;
   *then* the barrier again, which nobody may have replaced meanwhile. *Then* its repairs: no driver
   answers before one, and it may have written rows as they became behind the barrier.
6. The cut is written in one commit.

Whoever stops in between leaves a barrier that nobody waits for; drivers give it up in the end, and
the next attempt has another number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pydantic import BaseModel

from hybrid_extensions.cdc.databases.kinds import access_to
from hybrid_extensions.cdc.databases.log_mark import Mark
from hybrid_extensions.cdc.databases.replication_slot import (
    NEW_SNAPSHOT,
    SlotGone,
    ask_slot,
    gone_state,
)
from hybrid_extensions.cuts.barrier import Barrier, read_barrier, read_crossing, write_barrier
from hybrid_extensions.cuts.members import CutTable
from hybrid_extensions.cuts.table import TableVersion
from sources.common.counting import counted
from sources.common.positions import Offsets
from sources.common.times import now_ms
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import RunError, leaving
from spark_jobs.run_state.repairs import read_repairs
from spark_jobs.table.delta_table import version_of

_NONE_PUBLISHED = "This attempt published no cut, and changed no table; earlier cuts stay."


class GivenUp(NamedTuple):
    """Result of an attempt that has failed, so that no cut is published.

    Attributes:
        why: The reason, a sentence.
    """

    why: str


class Database(NamedTuple):
    """The two requests that an attempt makes to the captured database; tests may replace it.

    Attributes:
        mark: Writes a mark into the database's log, and returns its position there.
        confirmed: Returns the log position that the connector has confirmed, as a number; or, as
            text, why it is not known.
    """

    mark: Callable[[], Mark]
    confirmed: Callable[[], int | str]


def database_of(options: SnapshotOptions, server: str = "") -> Database:
    """Return the requests to the captured database of a declared snapshot; nothing is asked yet.

    ``confirmed`` raises RunError if the replication slot is missing or lost.

    Args:
        options: The snapshot.
        server: Id of the MySQL server that the snapshot was taken in; empty if it is not known.

    Raises:
        InputError: No installed extension supports this kind of database.
    """

    def confirmed() -> int | str:
        slot = ask_slot(options)
        if isinstance(slot, str):
            return slot
        if (state := gone_state(slot, server)) is not None:
            gone = SlotGone(slot=options.log_reader, at_ms=now_ms(), state=state)
            message = f"Cuts can't be published any more: {gone}."
            raise RunError(message, NEW_SNAPSHOT, transient=False, value=options.log_reader)
        return slot.confirmed

    return Database(lambda: access_to(options.dsn).mark_log(options), confirmed)


class UnderWay(BaseModel, frozen=True):
    """Attempt to publish a cut that waits for the connector or for a table, to be continued later.

    A value that can be kept between two calls of :func:`~hybrid_extensions.cuts.publisher.advance`.

    Attributes:
        number: Number of the cut.
        generations: Name of the generation that served at its begin, by table.
        barrier: The open barrier.
        mark: Position of the barrier in the database's log.
        ends: End offsets of the topics, by table, once the connector had confirmed the position;
            empty before.
    """

    number: int
    generations: dict[str, str]
    barrier: Barrier
    mark: Mark
    ends: dict[str, Offsets]


class Attempt:
    """Attempt to publish a cut: one barrier in the states of some tables.

    A cut is a version of each table that together equal the database as of one commit. Use
    :meth:`open`, then :meth:`look` until it has a result, then :meth:`close`.

    Args:
        tables: The tables.
        database: Its requests to the database.
        limit_s: Seconds after which the attempt is given up.

    Attributes:
        barrier: The barrier.
        mark: Position of the barrier in the database's log; set by :meth:`open`.
        ends: End offsets of the topics, by table, once the connector has confirmed the position;
            empty before.

    Raises:
        StateError: The document of a barrier is damaged.
        UnavailableError: A state's store does not answer.
    """

    mark: Mark

    def __init__(self, tables: Sequence[CutTable], database: Database, limit_s: float) -> None:
        self._tables, self._database = tables, database
        self._deadline = time.monotonic() + limit_s
        last = [read_barrier(each.generation) for each in tables]
        # The time, as a state may be younger than the targets, which know the numbers, too.
        number = max([now_ms(), *(each.number + 1 for each in last if each is not None)])
        until_ms = now_ms() + int(limit_s * 1000)
        self.barrier = Barrier(number=number, is_open=True, until_ms=until_ms)
        self.ends: dict[str, Offsets] = {}
        self._problem = "The connector has not confirmed the position yet"

    @classmethod
    def resume(cls, tables: Sequence[CutTable], database: Database, under_way: UnderWay) -> Attempt:
        """Return the attempt of an earlier call, with its barrier and what is left of its time.

        Nothing is written; :meth:`open` must not be called again.

        Args:
            tables: The same tables as before, with the same generations; that is not checked.
            database: Its requests to the database.
            under_way: The attempt as it was kept.
        """
        left_s = (under_way.barrier.until_ms - now_ms()) / 1000
        made = cls(tables, database, left_s)
        made.barrier, made.mark, made.ends = under_way.barrier, under_way.mark, under_way.ends
        return made

    @leaving(_NONE_PUBLISHED)
    def open(self) -> None:
        """Write the barrier to the state of each table, then with the position that it stands for.

        The position is asked of the database in between. After any error the caller has to call
        :meth:`close`: barriers may be open.

        Raises:
            StateError: A state can't be written.
            InputError: The database refuses.
            UnavailableError: The database or a store does not answer.
        """
        self._write(self.barrier)
        self.mark = self._database.mark()
        self.barrier = self.barrier.model_copy(update={"position": self.mark.position})
        self._write(self.barrier)

    @leaving(_NONE_PUBLISHED)
    def look(self) -> dict[str, TableVersion] | GivenUp | None:
        """Check once how far the tables are; return their versions, a failure, or None so far.

        Returns:
            By table its version if all have committed what is before the barrier; :class:`GivenUp`
            if a driver gave the barrier up, another process replaced it, or the time is over; None
            as long as the attempt is under way: look again.

        Raises:
            RunError: The replication slot, or the connector's place in the log, is missing or lost.
            StateError: A state is damaged.
            InputError: The broker refuses, or a table can't be read.
            UnavailableError: The broker or a store does not answer.
        """
        number = self.barrier.number
        for table in self._tables:
            crossing = read_crossing(table.generation, number)
            if crossing is not None and crossing.failure is not None:
                return GivenUp(f"{table.name}: {crossing.failure}.")
        if self._is_delivered() and self._is_committed():
            return self._versions()
        if time.monotonic() > self._deadline:
            return GivenUp(f"{self._problem}.")
        return None

    def close(self) -> None:
        """Close the barrier in each table, unless another attempt has replaced it.

        Raises:
            StateError: A state can't be read or written.
            UnavailableError: A state's store does not answer.
        """
        for table in self._tables:
            if read_barrier(table.generation) == self.barrier:
                closed = self.barrier.model_copy(update={"is_open": False})
                write_barrier(table.generation, closed)

    def _write(self, barrier: Barrier) -> None:
        for table in self._tables:
            write_barrier(table.generation, barrier)

    def _is_delivered(self) -> bool:
        """Whether the topics hold all changes from before the barrier; reads their ends then."""
        if self.ends:
            return True
        confirmed = self._database.confirmed()
        if isinstance(confirmed, str):
            self._problem = f"The database does not answer: {confirmed.rstrip('.')}"
            return False
        if confirmed < self.mark.through:
            self._problem = (
                f"The connector has not confirmed the position {self.mark.text}, as its task "
                "failed, is behind, or `offset.flush.interval.ms` of Kafka Connect is too long"
            )
            return False
        self.ends = {each.name: each.log_end() for each in self._tables}
        return True

    def _is_committed(self) -> bool:
        """Whether each table has committed its topic up to the ends that were read."""
        left = {each.name: each.unread(self.ends[each.name]) for each in self._tables}
        behind = [
            f"{name} has {'not begun' if count is None else counted(count, 'record') + ' to read'}"
            for name, count in left.items()
            if count != 0
        ]
        self._problem = f"Too slow, or not running: {', '.join(behind)}"
        return not behind

    def _versions(self) -> dict[str, TableVersion] | GivenUp:
        found: dict[str, TableVersion] = {}
        for table in self._tables:
            target = table.target
            # In this order: a change from behind the barrier comes after its answer.
            version = version_of(target)
            crossing = read_crossing(table.generation, self.barrier.number)
            if crossing is not None:
                if crossing.table_version is None:
                    return GivenUp(f"{table.name}: {crossing.failure}.")
                version = crossing.table_version
            if read_barrier(table.generation) != self.barrier:
                return GivenUp("Another process publishes cuts of these tables, too.")
            if self._is_repaired(table, version):
                return GivenUp(f"{table.name}: rows were repaired meanwhile.")
            found[table.name] = TableVersion(target.url, version)
        return found

    def _is_repaired(self, table: CutTable, version: int) -> bool:
        """Whether a version may have repaired rows as they became behind the barrier."""
        # A repair is recorded before its commit, and its version after that.
        return any(
            each.log_end > self.mark.position
            and (each.table_version is None or each.table_version <= version)
            for each in read_repairs(table.generation).repairs
        )
