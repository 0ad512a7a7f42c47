"""Guard of the target while a query writes to it: detects foreign commits and missing versions."""

from __future__ import annotations

import threading
import time
from functools import partial

from deltalake import CommitProperties, Transaction

from sources.storage.tables.delta import is_delta_table
from spark_jobs.checkpoint import offset_log
from spark_jobs.run_state.target_record import TargetRecord
from spark_jobs.table.commit_log import Commit, CommitLog
from spark_jobs.table.delta_table import NO_MORE, commit_nothing, commit_once, open_table
from spark_jobs.table.ownership import refusals
from spark_jobs.table.ownership.belonging import TargetSide, epoch_id
from spark_jobs.table.ownership.foreign_changes import foreign_changes
from spark_jobs.table.ownership.target_records import verified_record, write_record

RECORD_S = 60.0


def epoch_transaction(side: TargetSide, record: TargetRecord) -> CommitProperties:
    """Return delta-rs's commit properties that record a start's epoch in the target.

    For the commit that creates the target. The epoch counts the starts of the generation's queries;
    it is a transaction of Delta.
    """
    return CommitProperties(app_transactions=[_epoch(side, record)])


def _epoch(side: TargetSide, record: TargetRecord) -> Transaction:
    return Transaction(epoch_id(side.generation), record.epoch)


def confirm_start(side: TargetSide, record: TargetRecord) -> TargetGuard:
    """Write the epoch of an announced start to the target, and record the version as verified.

    Call it after the last change of the table before the query starts.

    Args:
        side: The generation and its target, which exists.
        record: The announced start
            (:func:`spark_jobs.table.ownership.target_records.announce_start`).

    Returns:
        The guard of the query that is about to start.

    Raises:
        StateError: Others changed rows since the start was announced; another driver has started
            since (transient); or the state can't be written.
        InputError: The table can't be read.
        UnavailableError: The table's store does not answer.
    """
    table = open_table(side.table)
    epoch = table.transaction_version(epoch_id(side.generation))
    # The commit that creates a table has the epoch already.
    before = record.epoch - (record.table_id is not None)
    if epoch is not None and epoch > before:
        # This process slept since it announced its start, or the state was copied.
        raise refusals.superseded(side.generation, side.table)
    if epoch != record.epoch:
        commit_once(partial(commit_nothing, table), side.table, _epoch(side, record))
    guard = TargetGuard(side, record)
    guard.look()
    guard.keep()
    return guard


class TargetGuard:
    """Guard of one query's target: detects commits by others, and lost or repeated micro-batches.

    It begins at the last verified version. Its methods may be called from several threads.

    Args:
        side: The generation and its target.
        record: What the state knows of the target.
    """

    def __init__(self, side: TargetSide, record: TargetRecord) -> None:
        self._side = side
        self._log = CommitLog(side.table)
        self._record = record
        self._version = -1 if record.verified is None else record.verified
        self._written = record.written
        self._writer = side.writer()
        self._kept_at = time.monotonic()
        self._lock = threading.Lock()

    def look(self, committed: int | None = None) -> None:
        """Check the target's commits since the last call; now and then record the verified version.

        Called at each look at the running query.

        Args:
            committed: Last micro-batch that the checkpoint has committed, as it was read just now;
                None to read it here.

        Raises:
            InputError: The table can't be read.
            StateError: Others changed rows of the table, another driver has started on it, the
                table is gone or was replaced by an older copy, or the checkpoint is not the one
                that wrote it. The query has to end.
            UnavailableError: The store of the table or of the state does not answer.
        """
        with self._lock:
            # Before the table: a micro-batch is committed there first.
            if committed is None:
                committed = offset_log.last_committed(self._side.generation.checkpoint)
            self._read()
            self._compare(committed)
            is_first = self._record.written is None and self._written is not None
            if is_first or time.monotonic() - self._kept_at >= RECORD_S:
                self._keep()

    def before(self, batch_id: int) -> None:
        """Refuse to write a micro-batch unless the target has the preceding one, or this one.

        Called in ``foreachBatch`` before anything is written.

        Raises:
            InputError: The table can't be read.
            StateError: The target lacks micro-batches or holds later ones, others changed its rows,
                or it was replaced by an older copy.
            UnavailableError: The table's store does not answer.
        """
        with self._lock:
            self._read()
            generation, path, written = self._side.generation, self._side.table, self._written
            last = -1 if written is None else written
            if last > batch_id:
                raise refusals.checkpoint_behind(generation, path, batch_id, last)
            if last < batch_id - 1:
                raise refusals.batches_lost(generation, path, written, batch_id - 1)

    def keep(self) -> None:
        """Record the last verified version of the target in the state; call it when a query ends.

        Raises:
            StateError: The state is damaged, or can't be written.
            UnavailableError: The store of the table or of the state does not answer.
        """
        with self._lock:
            self._keep()

    def _read(self) -> None:
        commits: list[Commit] = []
        while (commit := self._log.read(self._version + 1 + len(commits))) is not None:
            commits.append(commit)
        if not commits and self._version >= 0 and not self._log.holds(self._version):
            self._require_newer()
            return
        if self._writer is None:
            self._writer = self._side.writer()
        foreign = foreign_changes(commits, self._version, self._side.is_own(self._writer))
        if foreign.commits:
            raise refusals.changed_by_others(self._side.generation, self._side.table, foreign)
        name, own = epoch_id(self._side.generation), self._record.epoch
        # A promotion of another generation fences this one by a number beyond any epoch.
        if any(own < each.transactions.get(name, 0) < NO_MORE for each in commits):
            raise refusals.superseded(self._side.generation, self._side.table)
        for commit in commits:
            self._written = commit.transactions.get(self._writer or "", self._written)
        self._version += len(commits)

    def _require_newer(self) -> None:
        """Refuse a table without the verified version, unless its log was only tidied up."""
        generation, path = self._side.generation, self._side.table
        is_there = is_delta_table(path)
        if not (is_there and open_table(path).version() >= self._version):
            raise refusals.table_missing(generation, path, self._written or 0)

    def _compare(self, committed: int | None) -> None:
        generation, path, written = self._side.generation, self._side.table, self._written
        if committed is not None and (written is None or written < committed):
            raise refusals.batches_lost(generation, path, written, committed)
        if written == committed:
            return
        planned = offset_log.last_planned(generation.checkpoint)
        if written is not None and planned is None:
            raise refusals.checkpoint_missing(generation, path, written)
        if written is not None and planned is not None and written > planned:
            raise refusals.checkpoint_behind(generation, path, planned, written)

    def _keep(self) -> None:
        self._kept_at = time.monotonic()
        record = verified_record(self._side, self._record, self._version)
        write_record(self._side, self._record, record)
        self._record = record
