"""Whether a generation that no run has read anything for is planned again, and its plan dropped."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress

from sources.config.loader import LoadedPipeline
from sources.config.source.exported_source import ExportedFiles
from sources.config.source.file_options import TimeRange
from sources.config.source.file_source import FileSource
from sources.errors import InputError, StateError
from sources.files.listing.split_table import row_tuples
from sources.generations import is_unread, newest_before, remove_if_past
from sources.kept_definitions import declaration_of, is_kept
from sources.planning.approval import find_approval
from sources.planning.declaration_digests import is_planned_by
from sources.planning.files.file_plan import read_splits
from sources.planning.plan import Plan, find_plan
from sources.serving import FIRST, OWNER, newest_generation, read_serving, target_of
from sources.state.generation import (
    CURRENT,
    IDENTITY,
    CurrentGeneration,
    Generation,
    GenerationInfo,
    make_generation,
    read_generation,
    remove_generation,
)
from sources.storage.base import FILES
from sources.storage.folder import Folder
from sources.storage.listing import match_files
from spark_jobs.run_state.driver_lock import LEASE, is_held, take_launch_lock
from spark_jobs.table.delta_table import open_table, paths_of
from spark_jobs.table.ownership.belonging import require_belonging


def find_outdated(loaded: LoadedPipeline, *, looks_at_files: bool = False) -> Generation | None:
    """Return the newest generation if it has to be planned again, and may be; else None.

    It has to be if another declaration made its plan, or a table of its splits is missing; it may
    be as long as no run has read anything for it. None, too, without a generation, and for a kept
    copy of a declaration, which never replaces anything.

    Args:
        loaded: The pipeline, with the declaration that is to be planned.
        looks_at_files: Whether it has to be, too, if its files have changed, and its plan is not
            approved. Only files of folders are looked at; with a ``time_range`` none, as which of
            them have rows of it is not known without opening them.

    Raises:
        InputError: A storage refuses to list the files.
        StateError: The state is damaged.
        UnavailableError: The state's store or a storage does not answer.
    """
    # Without a newest one, the first may be left by a process that was killed while it removed it.
    name = newest_generation(loaded) or FIRST
    if loaded.kept is not None or not loaded.state.exists(f"{name}/{IDENTITY}"):
        return None
    generation = read_generation(loaded.state, name)
    plan = find_plan(generation)
    is_whole = plan is None or plan.is_whole(generation)
    is_current = is_whole and is_planned_by(loaded, generation)
    if (is_current and not looks_at_files) or not is_unread(generation):
        return None
    return None if is_current and not _has_other_files(loaded, generation, plan) else generation


def _has_other_files(loaded: LoadedPipeline, generation: Generation, plan: Plan | None) -> bool:
    """Return whether folders no longer have the files of a plan that nobody has approved."""
    files = loaded.pipeline.bounded_files
    if plan is None or any(map(_is_fixed, files)) or find_approval(generation) is not None:
        return False
    for source in files:
        splits = read_splits(plan.files_of(source.name), generation)
        found = match_files(source.name, source.patterns, loaded.folder, loaded.pipeline.stores)
        if {*row_tuples(splits, *FILES.names)} != {*row_tuples(found, *FILES.names)}:
            return True
    return False


def _is_fixed(source: FileSource) -> bool:
    """Return whether other files are no reason to plan again: of a table, an export, a snapshot."""
    is_made = source.is_table or source.snapshot is not None or isinstance(source, ExportedFiles)
    return is_made or source.time_range != TimeRange()


def drop_unread(loaded: LoadedPipeline, generation: Generation) -> None:
    """Delete the plan of the newest generation, and all decisions that rest on it.

    They are approval, splits, plan log, start offsets, and the table if it is empty. The generation
    keeps its name, and begins again with the declaration as it is now. A process that is killed on
    the way leaves a pipeline without this generation, never one with half of its plan.

    Args:
        loaded: The pipeline, with the declaration that is to be planned.
        generation: Its newest generation, for which no run has read anything.

    Raises:
        InputError: The kept copy of the declaration is not valid, or needs an environment variable
            that is not set.
        StateError: A run of it is active, or has written to the table; another process has begun it
            again, or read something for it, in the meantime (transient); or the state can't be
            written.
        UnavailableError: The store of the state or of the table does not answer.
    """
    lock = take_launch_lock(generation, uuid.uuid4().hex)
    try:
        if lock is None or is_held(generation):
            raise _in_use(loaded, generation)

        def require_lock() -> None:
            # A lease expires while this process is suspended, and another one begins it again.
            if not lock.is_held():
                raise _by_another(loaded, generation)

        known = _require_as_found(loaded, generation)
        _require_unread(loaded, generation, require_lock)
        # Before anything is removed, so that no process continues with what is left.
        home, serving = loaded.state, read_serving(loaded).generation
        require_lock()
        dropped = None
        if generation.name != serving:
            newest = newest_before(loaded, generation.name)
            dropped = CurrentGeneration(generation=newest, last=generation.name)
            if not home.replace_known(CURRENT, known, dropped):
                raise _by_another(loaded, generation)
        else:
            home.delete(CURRENT)
        remove_generation(home, generation.name, keep=[LEASE], require=require_lock)
    finally:
        if lock is not None:
            lock.release()
    if dropped is not None:
        made = make_generation(home, generation.name, loaded.contract())
        if not home.replace_known(CURRENT, dropped, CurrentGeneration(generation=made.name)):
            remove_if_past(loaded, made.name)
            raise _by_another(loaded, generation)


def _require_as_found(loaded: LoadedPipeline, generation: Generation) -> CurrentGeneration | None:
    """Refuse a generation that others have begun again, or read something for, since it was found.

    Returns:
        The record of the newest generation, which is this one; None if it was deleted.
    """
    known = loaded.state.read(CURRENT, CurrentGeneration)
    newest = FIRST if known is None else known.generation
    there = loaded.state.read(f"{generation.name}/{IDENTITY}", GenerationInfo)
    if newest != generation.name or there != generation.info or not is_unread(generation):
        raise _by_another(loaded, generation)
    return known


def _require_unread(
    loaded: LoadedPipeline, generation: Generation, require_lock: Callable[[], None]
) -> None:
    """Remove the generation's table if it is empty; refuse if the table holds rows of it."""
    if not is_kept(loaded, generation.name):
        # No run was ever launched.
        return
    declared = declaration_of(loaded, generation.name)
    # A checkpoint that was removed has read something.
    require_belonging(declared, generation)
    with suppress(InputError):
        table = target_of(declared, generation.name)
        opened = open_table(table)
        owner = opened.metadata().configuration.get(OWNER)
        if owner != generation.info.transaction_id:
            return
        if paths_of(opened):
            raise _has_rows(loaded, generation, table)
        table.delete_all(require_lock)


def _in_use(loaded: LoadedPipeline, generation: Generation) -> StateError:
    name = loaded.pipeline.name
    message = (
        f"Pipeline `{name}` is declared differently than when it was planned. Nothing was read "
        f"yet, so it can be planned again, but a run of generation {generation.name} is active or "
        "being started, or another process plans it again just now. Nothing was changed."
    )
    hint = (
        f"End a run with `hybrid stop P --generation {generation.name}`, then try again; or undo "
        "the change in the pipeline's file."
    )
    return StateError(message, hint, transient=True, pipeline=name, generation=generation.name)


def _by_another(loaded: LoadedPipeline, generation: Generation) -> StateError:
    name = loaded.pipeline.name
    message = (
        f"The plan of generation {generation.name} of pipeline `{name}` is not made again by this "
        "process: another one may have planned, run or discarded the generation meanwhile."
    )
    hint = "Look at `hybrid status P`, then try again."
    return StateError(message, hint, transient=True, pipeline=name, generation=generation.name)


def _has_rows(loaded: LoadedPipeline, generation: Generation, table: Folder) -> StateError:
    name = loaded.pipeline.name
    message = (
        f"The table {table} holds rows of generation {generation.name}, but its checkpoint "
        f"{generation.checkpoint} has no micro-batch: the checkpoint was removed. Nothing was "
        "changed."
    )
    hint = (
        "Restore the checkpoint from a backup; or compute the table again next to this one: "
        "`hybrid generation new P`."
    )
    return StateError(message, hint, pipeline=name, generation=generation.name, table=table.url)
