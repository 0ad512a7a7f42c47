"""Check at each launch that checkpoint, state and target belong together, and none is older.

The target knows its owner (``hybrid.generation``), the epoch and the last micro-batch that it
holds (Delta transactions); the state knows table, epoch and the last version that was verified;
the checkpoint knows which micro-batches were begun and committed. Delta's sink and MERGE commit a
transaction for every micro-batch, also for one without rows, so the target's last micro-batch is
the last committed one, or the one that was begun after it.

The epoch is a Delta transaction rather than a table property: it does not conflict with an
OPTIMIZE that is running, and a promotion carries it over in its one commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deltalake import DeltaTable

from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.serving import OWNER, Switch, pending_switch, read_serving, target_of
from sources.state.generation import Generation
from sources.storage.folder import Folder
from sources.storage.tables.delta import is_delta_table
from sources.storage.tables.delta_log import has_log
from spark_jobs.checkpoint import offset_log
from spark_jobs.run_state.target_record import TargetRecord, missing_documents, read_target_record
from spark_jobs.table.commit_log import Commit, CommitLog
from spark_jobs.table.delta_table import open_table, transactions_of
from spark_jobs.table.ownership import refusals
from spark_jobs.table.ownership.foreign_changes import ForeignChanges, foreign_changes

SWITCHES = "hybrid.switch"
"""Delta application id of promotions and rollbacks; its version is the time of the last one."""
_LOOKS = 3  # a driver may be writing both sides while they are compared


def epoch_id(generation: Generation) -> str:
    """Return Delta's application id under which a target records its generation's epoch.

    The epoch counts the starts of queries.
    """
    return f"{generation.info.transaction_id}-epoch"


@dataclass(frozen=True)
class TargetSide:
    """A generation and the table that it writes to, as the commits of its queries name them.

    Attributes:
        generation: State of the generation.
        table: Folder of the table.
        is_append: Whether the micro-batches are appended, under the query's id; else they are
            merged under the generation's transaction id.
    """

    generation: Generation
    table: Folder
    is_append: bool

    @classmethod
    def of(cls, loaded: LoadedPipeline, generation: Generation) -> TargetSide:
        """Return a generation with the table that it writes to, which the state decides.

        Raises:
            StateError: The state is damaged.
            UnavailableError: The state's store does not answer.
        """
        is_append = loaded.pipeline.sink.mode == "append"
        return cls(generation, target_of(loaded, generation.name), is_append)

    def writer(self) -> str | None:
        """Return Delta's application id of the micro-batches; None before the query's first start.

        Read from the checkpoint at each call.

        Raises:
            StateError: The checkpoint's file with the id is damaged.
            UnavailableError: The checkpoint's store does not answer.
        """
        if self.is_append:
            return offset_log.query_id(self.generation.checkpoint)
        return self.generation.info.transaction_id

    def is_own(self, writer: str | None) -> Callable[[Commit], bool]:
        """Return a predicate that is true for the pipeline's own commits and false for others.

        Its own are micro-batches, starts, promotions, compactions and the like.

        Args:
            writer: Application id of the micro-batches, as :meth:`writer` returned it; None before
                the query's first start.
        """
        own = self.generation.info.transaction_id
        return lambda commit: any(
            each == writer or each.startswith(own) for each in commit.transactions
        )


@dataclass(frozen=True)
class Examined:
    """Result of a successful comparison of checkpoint, state and target.

    Attributes:
        record: The state's record as it was read; an empty one before the first start.
        table: The target; None if it does not exist and nothing was committed yet.
        written: Last micro-batch that it holds; None if it holds none.
        foreign: Changes by others since the verified version.
    """

    record: TargetRecord
    table: DeltaTable | None
    written: int | None
    foreign: ForeignChanges


def require_belonging(loaded: LoadedPipeline, generation: Generation) -> None:
    """Refuse checkpoint, state and target that do not belong together; change nothing.

    Called at each launch. Nothing is refused between the commit of a promotion or rollback and its
    last step: the commit exchanges them. Nor of a generation that another one has replaced in the
    target: it may not write anyway.

    Raises:
        StateError: One of them is missing, or older than the others; the target is another table;
            or others changed its rows. Names what was lost and the way on.
        InputError: The target can't be read.
        UnavailableError: The store of the state or of the table does not answer.
    """
    if read_serving(loaded).served(generation.name) is not None:
        return
    try:
        require(TargetSide.of(loaded, generation))
    except StateError:
        # Asked last: a process that is at it may have committed since the comparison began.
        switch = pending_switch(loaded)
        if switch is not None and is_committed(loaded, switch):
            return
        _explain_serving(loaded, generation)
        raise


def is_committed(loaded: LoadedPipeline, switch: Switch) -> bool:
    """Return whether the target has the commit of a promotion or rollback, so that readers see it.

    False if the target does not exist.

    Raises:
        InputError: The target can't be read.
        UnavailableError: The table's store does not answer.
    """
    target = loaded.target
    if not has_log(target):
        return False
    return transactions_of(target, [SWITCHES]).get(SWITCHES) == switch.at_ms


def _explain_serving(loaded: LoadedPipeline, generation: Generation) -> None:
    """Refuse with the actual cause where only ``serving.json`` is missing."""
    target, own = loaded.target, target_of(loaded, generation.name)
    record = read_target_record(generation)
    if own.url == target.url or record is None or is_delta_table(own):
        return
    if is_delta_table(target) and (
        open_table(target).metadata().configuration.get(OWNER) == generation.info.transaction_id
    ):
        raise refusals.serving_missing(generation, own, target)


def require(side: TargetSide) -> Examined:
    """Refuse checkpoint, state and target of a generation that do not belong together.

    Changes nothing.

    Returns:
        What the comparison has found.

    Raises:
        StateError: One of them is missing, or older than the others; the target is another table;
            or others changed its rows.
        InputError: The target can't be read.
        UnavailableError: The store of the state or of the table does not answer.
    """
    found = examine(side)
    if found.foreign.commits:
        raise refusals.changed_by_others(side.generation, side.table, found.foreign)
    return found


def examine(side: TargetSide) -> Examined:
    """Compare checkpoint, state and target, also while a driver writes them; allow foreign changes.

    Returns:
        What was found, with changes of rows by others, which are not refused here.

    Raises:
        StateError: One of the three is missing, or older than the others; or the target is another
            table.
        InputError: The target can't be read.
        UnavailableError: The store of the state or of the table does not answer.
    """
    for _ in range(_LOOKS):
        record = read_target_record(side.generation)
        try:
            return _examine(side, record)
        except StateError:
            # A driver that has just recorded a start, or a version, was caught between the two.
            if read_target_record(side.generation) == record:
                raise
    return _examine(side, read_target_record(side.generation))


def _examine(side: TargetSide, known: TargetRecord | None) -> Examined:
    generation = side.generation
    # First of all: a driver that is writing commits to the table before the checkpoint.
    committed = offset_log.last_committed(generation.checkpoint)
    record = known or TargetRecord()
    if committed is not None or record.written is not None:
        if known is None:
            raise refusals.documents_missing(generation, [TargetRecord.NAME])
        if names := missing_documents(generation, record):
            raise refusals.documents_missing(generation, names)
    if not is_delta_table(side.table):
        last = record.written if committed is None else committed
        if last is not None:
            raise refusals.table_missing(generation, side.table, last)
        return Examined(record, None, None, ForeignChanges((), -1))
    table = open_table(side.table)
    _require_same_table(side, record, table)
    written = _require_same_batches(side, record, table, committed)
    after = -1 if record.verified is None else record.verified
    commits = CommitLog(side.table).between(after, table.version())
    foreign = foreign_changes(commits, after, side.is_own(side.writer()))
    return Examined(record, table, written, foreign)


def require_owner(generation: Generation, path: Folder, table: DeltaTable) -> None:
    """Refuse a table whose property ``hybrid.generation`` does not name the generation.

    Raises:
        StateError: Names the owner that the table has, if any.
    """
    owner = table.metadata().configuration.get(OWNER)
    if owner != generation.info.transaction_id:
        raise refusals.another_owner(generation, path, OWNER, owner)


def _require_same_table(side: TargetSide, record: TargetRecord, table: DeltaTable) -> None:
    """Refuse a table of another owner or id, and one that is older or newer than the state."""
    generation, path = side.generation, side.table
    metadata = table.metadata()
    require_owner(generation, path, table)
    if record.table_id not in (None, str(metadata.id)):
        raise refusals.another_table(generation, path, str(metadata.id), str(record.table_id))
    epoch = table.transaction_version(epoch_id(generation)) or 0
    found, known = f"its epoch is {epoch}", f"epoch {record.epoch}"
    if epoch > record.epoch:
        raise refusals.state_behind(generation, path, found, known)
    if epoch < record.epoch - (1 if record.is_announced else 0):
        raise refusals.table_behind(generation, path, found, known)
    if record.verified is not None and table.version() < record.verified:
        found, known = f"it is at version {table.version()}", f"version {record.verified}"
        raise refusals.table_behind(generation, path, found, known)


def _require_same_batches(
    side: TargetSide, record: TargetRecord, table: DeltaTable, committed: int | None
) -> int | None:
    """Refuse a checkpoint that can't have written what the table holds; return its last batch.

    A driver writes in this order: offsets, table, commits. ``committed`` was read before the table.
    """
    generation, path = side.generation, side.table
    writer = side.writer()
    written = None if writer is None else table.transaction_version(writer)
    planned = offset_log.last_planned(generation.checkpoint)
    is_other = side.is_append and record.writer not in (None, writer)
    if is_other or (committed is not None and writer is None):
        raise refusals.checkpoint_missing(generation, path, record.written or committed or 0)
    if written is not None and planned is None:
        raise refusals.checkpoint_missing(generation, path, written)
    if written is not None and planned is not None and written > planned:
        raise refusals.checkpoint_behind(generation, path, planned, written)
    if committed is not None and (written is None or written < committed):
        raise refusals.batches_lost(generation, path, written, committed)
    latest = offset_log.last_committed(generation.checkpoint)
    if planned is not None and planned > (-1 if latest is None else latest) + 1:
        raise refusals.commits_missing(generation, latest, planned)
    return written
