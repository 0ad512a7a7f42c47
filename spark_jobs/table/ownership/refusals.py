"""Refusals of checkpoint, state and target that do not belong together: what was lost, way out.

Only the texts are here; :mod:`spark_jobs.table.ownership.belonging` decides. About a lost state
they name the ways out that extensions add, and raise InputError if an extension can't be loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

from sources.common.counting import first_few
from sources.common.times import iso
from sources.errors import ErrorFields, StateError
from sources.extensions import contributions
from sources.serving import Serving
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log
from spark_jobs.table.commit_log import RESTORE
from spark_jobs.table.ownership.foreign_changes import ForeignChanges

_SHOWN = 5
_NEW = (
    "compute the table again in a new generation: `hybrid generation new P`, `hybrid run P`, "
    "`hybrid generation promote P`"
)


def _refused(
    generation: Generation, table: Folder, message: str, hint: str, file: str | None = None
) -> StateError:
    fields: ErrorFields = {"table": table.url, "generation": generation.name}
    if file is not None:
        fields["file"] = file
    return StateError(f"{message} The run does not continue; nothing was written.", hint, **fields)


def _with_other_ways(hint: str) -> str:
    """Return what to do about a lost state, with the ways out that extensions add."""
    return " ".join([hint, *contributions("lost_state")])


def _batches(first: int, last: int) -> str:
    return f"micro-batch {last}" if first >= last else f"micro-batches {first} to {last}"


def _since(generation: Generation, batch_id: int) -> str:
    at_ms = offset_log.committed_at_ms(generation.checkpoint, batch_id)
    return "" if at_ms is None else f" (committed at {iso(at_ms)})"


def documents_missing(generation: Generation, names: Sequence[str]) -> StateError:
    """Return the error for documents of the state that are missing though batches were committed.

    Args:
        generation: The generation.
        names: Paths of the documents in the state; at least one.
    """
    files = [generation.location(name) for name in names]
    message = (
        f"The state lacks {first_few(files)}, though micro-batches were committed by what was "
        "there. A new decision could lose or duplicate rows. Nothing was started."
    )
    hint = _with_other_ways(f"Restore it from a backup of the state folder. Without one, {_NEW}.")
    return StateError(message, hint, generation=generation.name, file=files[0])


def table_missing(generation: Generation, table: Folder, committed: int) -> StateError:
    """Return the error for a target that is missing although micro-batches were committed to it.

    Args:
        generation: The generation.
        table: Folder of the target.
        committed: Last micro-batch that the checkpoint has committed.

    Raises:
        UnavailableError: The checkpoint's store does not answer.
    """
    message = (
        f"The table {table} is missing. The rows of {_batches(0, committed)}"
        f"{_since(generation, committed)} were in it; the checkpoint counts them as written and "
        "would never write them again."
    )
    hint = f"Restore the table's folder with its `_delta_log`. Without a backup, {_NEW}."
    return _refused(generation, table, message, hint)


def files_missing(generation: Generation, table: Folder, names: Sequence[str]) -> StateError:
    """Return the error for missing data files of the target that its log still lists.

    Args:
        generation: The generation.
        table: Folder of the target.
        names: The missing files; the message has the first few.
    """
    message = (
        f"Data files of the table {table} are missing, although its log lists them: "
        f"{first_few(names)}. Their rows are lost, and the table can't be read."
    )
    hint = f"Restore them from a backup, then run again: `hybrid run P`. Without one, {_NEW}."
    return _refused(generation, table, message, hint)


def serving_missing(generation: Generation, table: Folder, target: Folder) -> StateError:
    """Return the error for a missing ``serving.json`` although a promotion has been committed.

    Args:
        generation: The generation that serves.
        table: Folder of the table that it would have without the file.
        target: Folder of the target, which has its rows.
    """
    file = f"{generation.url.rpartition('/')[0]}/serving.json"
    message = (
        f"State file {file} is missing: generation {generation.name} serves, and its rows are in "
        f"{target}, but without the file its table is {table}, which does not exist."
    )
    serving = Serving(generation=generation.name)
    hint = f"Restore the file from a backup, or write it: `{serving.model_dump_json()}`."
    return _refused(generation, table, message, hint, file)


def another_owner(
    generation: Generation, table: Folder, prop: str, owner: str | None
) -> StateError:
    """Return the error for a table that another generation owns, or nobody.

    Args:
        generation: The generation.
        table: Folder of the table.
        prop: Name of the table property with the owner.
        owner: Value of that property; None if it is not set.
    """
    message = (
        f"The table {table} was not made by this generation ({generation.url}): its property "
        f"`{prop}` is {owner or 'not set'}, this generation's id is "
        f"{generation.info.transaction_id}. Nothing was written to it."
    )
    hint = (
        "Name another `sink.path` and plan again (`hybrid plan P`). Or, if nobody needs the "
        "rows of that table any more, move its folder away and run the pipeline again. If the "
        "state folder was restored or lost, restore the one that wrote this table."
    )
    hint = _with_other_ways(hint)
    return StateError(message, hint, table=table.url, generation=generation.name, field="sink.path")


def another_table(generation: Generation, table: Folder, found: str, known: str) -> StateError:
    """Return the error for a table in the target's place that is not the one written before.

    Args:
        generation: The generation.
        table: Folder of the table.
        found: Delta's id of the table.
        known: Delta's id of the table that was written before.
    """
    message = (
        f"The table {table} is not the one that this pipeline wrote to: its Delta id is {found}, "
        f"and the state knows {known}. Its rows are not those of the checkpoint."
    )
    hint = f"Put the pipeline's own table back into this folder. If it is lost, {_NEW}."
    return _refused(generation, table, message, hint)


def table_behind(generation: Generation, table: Folder, found: str, known: str) -> StateError:
    """Return the error for a target that is older than the state, as a restored copy is.

    Args:
        generation: The generation.
        table: Folder of the target.
        found: What the target is at, in words.
        known: What the state knows, in words.
    """
    message = (
        f"The table {table} is older than the state: {found}, but the state has seen {known}. An "
        "older copy of its folder was put in its place; what was written since is not in it, and "
        "the checkpoint would never write it again."
    )
    hint = (
        "Put the newest copy of the table's folder back; or restore the state folder from a "
        f"backup of the same moment. Without one, {_NEW}."
    )
    return _refused(generation, table, message, hint)


def state_behind(generation: Generation, table: Folder, found: str, known: str) -> StateError:
    """Return the error for a state folder that is older than the target, as a restored one is.

    Args:
        generation: The generation.
        table: Folder of the target.
        found: What the target is at, in words.
        known: What the state knows, in words.
    """
    message = (
        f"The state folder {generation.url} is older than the table {table}: {found}, but the "
        f"state knows {known}. It was restored from a backup, or a file of it was. A run would "
        "skip new rows as already written, or write rows twice."
    )
    hint = _with_other_ways(f"Put the newest state folder back. If it is lost, {_NEW}.")
    return _refused(generation, table, message, hint)


def superseded(generation: Generation, table: Folder) -> StateError:
    """Return the error for a driver after whose start another one has started on its target.

    Args:
        generation: The generation.
        table: Folder of the target.
    """
    message = (
        f"Another driver of generation {generation.name} has started on the table {table} since "
        "this one did, so this one ends."
    )
    hint = (
        "Nothing is lost: the newer driver resumes from the last committed micro-batch, and each "
        "micro-batch is written once. If none runs (`hybrid status P`), go on: `hybrid run P`, or "
        f"`hybrid resume P --generation {generation.name}` for a live run."
    )
    return StateError(message, hint, transient=True, table=table.url, generation=generation.name)


def checkpoint_missing(generation: Generation, table: Folder, written: int) -> StateError:
    """Return the error for a checkpoint that is missing, or new, although the target has its rows.

    Args:
        generation: The generation.
        table: Folder of the target.
        written: Last micro-batch that the target holds.
    """
    message = (
        f"The checkpoint {generation.checkpoint} is missing, or another one is in its place. The "
        f"table {table} holds {_batches(0, written)} of it; a new checkpoint would begin with "
        "micro-batch 0 again: rows would be written twice, or new rows be skipped as already "
        "written."
    )
    hint = _with_other_ways(
        f"Restore the folder `checkpoint` from a backup made after the last run. Else {_NEW}."
    )
    return _refused(generation, table, message, hint)


def checkpoint_behind(
    generation: Generation, table: Folder, planned: int | None, written: int
) -> StateError:
    """Return the error for a checkpoint that lacks micro-batches which the target has.

    Args:
        generation: The generation.
        table: Folder of the target.
        planned: Last micro-batch that the checkpoint knows; None for none.
        written: Last micro-batch that the target holds.
    """
    known = "none" if planned is None else f"none after {planned}"
    first = 0 if planned is None else planned + 1
    message = (
        f"The checkpoint {generation.checkpoint} is older than the table {table}: the table holds "
        f"{_batches(first, written)}, the checkpoint knows {known}. It was restored from a "
        "backup, or files of it were deleted. New rows would be skipped as already written."
    )
    hint = _with_other_ways(f"Put the newest checkpoint back. If it is lost, {_NEW}.")
    return _refused(generation, table, message, hint)


def commits_missing(generation: Generation, committed: int | None, planned: int) -> StateError:
    """Return the error for a checkpoint whose ``commits`` lack more than the last batch begun.

    Args:
        generation: The generation.
        committed: Last micro-batch in ``commits``; None for none.
        planned: Last micro-batch in ``offsets``.
    """
    message = (
        f"The checkpoint {generation.checkpoint} is damaged: micro-batch {planned} was begun, but "
        f"its folder `commits` has none{'' if committed is None else f' after {committed}'}. How "
        "far the sources were read is unknown. Nothing was started."
    )
    hint = _with_other_ways(f"Restore the checkpoint's files. If they are lost, {_NEW}.")
    return StateError(
        message, hint, generation=generation.name, file=generation.checkpoint.location("commits")
    )


def batches_lost(
    generation: Generation, table: Folder, written: int | None, committed: int
) -> StateError:
    """Return the error for a target that lacks micro-batches which the checkpoint has committed.

    Args:
        generation: The generation.
        table: Folder of the target.
        written: Last micro-batch that the target holds; None for none.
        committed: Last micro-batch that the checkpoint has committed.

    Raises:
        UnavailableError: The checkpoint's store does not answer.
    """
    first = 0 if written is None else written + 1
    message = (
        f"The table {table} lacks {_batches(first, committed)}{_since(generation, committed)}, "
        "which the checkpoint counts as written and would never write again. An older copy of the "
        "table's folder was put in its place, or Delta has forgotten who wrote it "
        "(`delta.setTransactionRetentionDuration`)."
    )
    hint = f"Put the newest copy of the table's folder back. Without one, {_NEW}."
    return _refused(generation, table, message, hint)


def changed_by_others(generation: Generation, table: Folder, found: ForeignChanges) -> StateError:
    """Return the error for changes of the target's rows that the pipeline did not make.

    It names the commits, five at most, and how to accept or undo them; a RESTORE can't be accepted.
    """
    is_restored = any(each.operation == RESTORE for each in found.commits)
    effect = (
        "A RESTORE takes rows away that the checkpoint counts as written and would never write "
        "again. The run does not continue; nothing was written."
        if is_restored
        else "The run does not continue with rows that it does not know; nothing was written."
    )
    message = f"{changes_in_words(table, found)}\n{effect}"
    undo = f"RESTORE TABLE delta.`{table}` TO VERSION AS OF {found.last_good} with Spark"
    ways = []
    if not is_restored:
        ways.append("If the change is intended, accept it: `hybrid accept P --by NAME`.")
    if found.own_after is None:
        ways.append(f"To undo it, run {undo}, then try again.")
    ways.append(f"{'Otherwise' if ways else 'Now'} {_NEW}.")
    return StateError(message, " ".join(ways), table=table.url, generation=generation.name)


def changes_in_words(table: Folder, found: ForeignChanges) -> str:
    """Return the sentence that lists changes of a table by others, five at most, a line for each.

    Args:
        table: Folder of the table.
        found: The changes; at least one.
    """
    commits = found.commits
    lines = [
        f"  version {each.version}, {iso(each.at_ms) if each.at_ms else 'time unknown'}: "
        + each.operation
        + (f" to version {each.restored_to}" if each.restored_to is not None else "")
        for each in commits[:_SHOWN]
    ]
    more = [f"  and {len(commits) - _SHOWN} more"] if len(commits) > _SHOWN else []
    head = f"Rows of the table {table} were changed by something other than this pipeline:"
    return "\n".join([head, *lines, *more])


def run_active(generation: Generation, table: Folder) -> StateError:
    """Return the error for accepting changes by others while a run writes to the table.

    It is transient.
    """
    message = (
        f"A run of generation {generation.name} is active, so no change of {table} can be "
        "accepted. Nothing was changed."
    )
    hint = (
        f"End it with `hybrid stop P --generation {generation.name}`, accept the change, then go "
        f"on: `hybrid run P`, or `hybrid resume P --generation {generation.name}` for a live run."
    )
    return StateError(message, hint, transient=True, table=table.url, generation=generation.name)
