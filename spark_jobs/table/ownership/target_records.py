"""Records about the target in the state: starts, promotions, accepted changes."""

from __future__ import annotations

from urllib.parse import unquote

from deltalake import DeltaTable

from sources.config.loader import LoadedPipeline
from sources.state.generation import Generation
from sources.storage.tables.delta import delta_table
from spark_jobs.run_state.driver_lock import is_held
from spark_jobs.run_state.target_record import (
    AcceptedChange,
    TargetRecord,
    documents_of,
    read_target_record,
    replace_target_record,
)
from spark_jobs.table.commit_log import RESTORE
from spark_jobs.table.delta_table import open_table, paths_of
from spark_jobs.table.ownership import refusals
from spark_jobs.table.ownership.belonging import TargetSide, epoch_id, examine, require


def announce_start(side: TargetSide) -> TargetRecord:
    """Record in the state that a query is about to start, as the next epoch; return the record.

    The target gets the epoch afterwards (:func:`confirm_start`); a crash in between is recognized
    at the next launch.

    Raises:
        StateError: Checkpoint, state and target do not belong together; a data file of the target
            is missing, or somebody else changed its rows; another driver starts at the same time
            (transient); or the state can't be written.
        InputError: The target can't be read.
        UnavailableError: A store does not answer.
    """
    found = require(side)
    if found.table is not None:
        _require_files(side, found.table)
    epoch = found.table.transaction_version(epoch_id(side.generation)) if found.table else None
    # While nothing was committed, a deleted target may be created again.
    known = {} if found.table else {"table_id": None, "verified": None}
    # An announced one was never reached: a start that broke off is announced again.
    reached = found.record.epoch - (1 if found.record.is_announced else 0)
    last = reached if epoch is None else epoch
    changes = {"epoch": last + 1, "is_announced": True, **known}
    record = found.record.model_copy(update=changes)
    write_record(side, found.record, record)
    return record


def write_record(side: TargetSide, before: TargetRecord, after: TargetRecord) -> None:
    """Replace the record of a target; refuse if another driver has written one since.

    Args:
        side: The generation and its target.
        before: The record as it was read, or as this driver wrote it last.
        after: The new one.

    Raises:
        StateError: Another driver of the generation has started meanwhile (transient); or the state
            can't be written.
        UnavailableError: The state's store does not answer.
    """
    if not replace_target_record(side.generation, before, after):
        raise refusals.superseded(side.generation, side.table)


def _require_files(side: TargetSide, table: DeltaTable) -> None:
    """Refuse a table on this machine of which data files are missing: nobody could read it."""
    if not side.table.is_local:
        return
    names = map(unquote, paths_of(table))
    if lacking := [name for name in names if not side.table.exists(name)]:
        raise refusals.files_missing(side.generation, side.table, lacking)


def accept_foreign_changes(side: TargetSide, by: str, at_ms: int) -> list[AcceptedChange]:
    """Accept changes of the target's rows by others, so that the pipeline continues with them.

    Args:
        side: The generation and its target.
        by: Name of the person who accepts; kept with the state.
        at_ms: When, in Unix milliseconds.

    Returns:
        What was accepted; empty if nothing had to be.

    Raises:
        InputError: The target can't be read.
        StateError: A run is active; or a change is a RESTORE, which takes rows away that the
            pipeline has written; or checkpoint, state and target don't belong together otherwise.
        UnavailableError: The store of the state or of the target does not answer.
    """
    if is_held(side.generation):
        raise refusals.run_active(side.generation, side.table)
    found = examine(side)
    commits = found.foreign.commits
    if any(commit.operation == RESTORE for commit in commits):
        raise refusals.changed_by_others(side.generation, side.table, found.foreign)
    if not commits or found.table is None:
        return []
    accepted = [
        AcceptedChange(by=by, at_ms=at_ms, version=each.version, operation=each.operation)
        for each in commits
    ]
    record = verified_record(side, found.record, found.table.version())
    # A start that was announced stays announced.
    changes = {
        "accepted": [*found.record.accepted, *accepted],
        "is_announced": found.record.is_announced,
    }
    write_record(side, found.record, record.model_copy(update=changes))
    return accepted


def record_moved_rows(loaded: LoadedPipeline, generation: Generation, since: int) -> None:
    """Record in the state that a promotion or rollback moved a generation's rows to the target.

    Call it after that commit. Nothing is done for a generation whose query was never started.

    Args:
        loaded: The pipeline.
        generation: The generation that serves now.
        since: Version of the target before its rows were replaced.

    Raises:
        StateError: The state is damaged, or can't be written.
        InputError: The target can't be read.
        UnavailableError: The store of the state or of the target does not answer.
    """
    if (record := read_target_record(generation)) is None:
        return
    target = open_table(loaded.target)
    changes = {"table_id": str(target.metadata().id), "verified": since}
    generation.replace(TargetRecord.NAME, record.model_copy(update=changes))


def verified_record(side: TargetSide, record: TargetRecord, version: int) -> TargetRecord:
    """Return the record of a target that was verified up to a version; nothing is written.

    Args:
        side: The generation and its target.
        record: The record before.
        version: The version, which is read from the table.

    Raises:
        StateError: The checkpoint is damaged.
        UnavailableError: The login to the table's store has expired, or the state's store does not
            answer.
    """
    writer = side.writer()
    table = delta_table(side.table, version)
    changes = {
        "is_announced": False,
        "table_id": str(table.metadata().id),
        "verified": version,
        "writer": writer,
        "written": None if writer is None else table.transaction_version(writer),
        "documents": documents_of(side.generation),
    }
    return record.model_copy(update=changes)
