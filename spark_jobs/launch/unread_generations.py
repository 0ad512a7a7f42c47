"""Generations that no run has read anything for, so that their plan can be replaced."""

from __future__ import annotations

import uuid
from contextlib import suppress

from sources.config.loader import LoadedPipeline
from sources.errors import InputError, StateError
from sources.generations import is_unread, newest_before
from sources.kept_definitions import declaration_of, is_kept
from sources.planning.declaration_digests import is_planned_by
from sources.planning.plan import Plan
from sources.serving import FIRST, OWNER, newest_generation, read_serving, target_of
from sources.state.generation import (
    CURRENT,
    IDENTITY,
    CurrentGeneration,
    Generation,
    make_generation,
    read_generation,
    remove_generation,
)
from sources.storage.folder import Folder
from spark_jobs.run_state.lock import LEASE, is_held, take_launch_lock
from spark_jobs.table.delta_table import open_table, paths_of
from spark_jobs.table.ownership.belonging import require_belonging


def find_outdated(loaded: LoadedPipeline) -> Generation | None:
    """Return the newest generation if it has to be planned again, and may be; else None.

    It has to be if another declaration made its plan, or a table of its splits is missing; it may
    be as long as no run has read anything for it. None, too, without a generation, and for a kept
    copy of a declaration, which never replaces anything.

    Args:
        loaded: The pipeline, with the declaration that is to be planned.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    # Without a newest one, the first may be left by a process that was killed while it removed it.
    name = newest_generation(loaded) or FIRST
    if loaded.kept is not None or not loaded.state.exists(f"{name}/{IDENTITY}"):
        return None
    generation = read_generation(loaded.state, name)
    plan = generation.read("plan.json", Plan)
    is_whole = plan is None or plan.is_whole(generation)
    if (is_whole and is_planned_by(loaded, generation)) or not is_unread(generation):
        return None
    return generation


def drop_unread(loaded: LoadedPipeline, generation: Generation) -> None:
    """Delete the plan of the newest generation, and all decisions that rest on it.

    They are approval, splits, plan log, start offsets, and the table if it is empty. The generation
    keeps its name, and begins again with the declaration as it is now. A process that is killed on
    the way leaves a pipeline without this generation, never one with half of its plan.

    Args:
        loaded: The pipeline, with the declaration that is to be planned.
        generation: Its newest generation, for which no run has read anything.

    Raises:
        StateError: A run of it is active, has read something in the meantime, or has written to the
            table; or the state can't be written.
    """
    lock = take_launch_lock(generation, uuid.uuid4().hex)
    try:
        if lock is None or is_held(generation):
            raise _in_use(loaded, generation)
        _require_unread(loaded, generation)
        # Before anything is removed, so that no process continues with what is left.
        current, serving = loaded.state, read_serving(loaded).generation
        if generation.name != serving:
            newest = newest_before(loaded, generation.name)
            current.replace(CURRENT, CurrentGeneration(generation=newest, last=generation.name))
        else:
            current.delete(CURRENT)
        remove_generation(loaded.state, generation.name, keep=[LEASE])
    finally:
        if lock is not None:
            lock.release()
    if generation.name != serving:
        made = make_generation(loaded.state, generation.name, loaded.contract())
        current.replace(CURRENT, CurrentGeneration(generation=made.name))


def _require_unread(loaded: LoadedPipeline, generation: Generation) -> None:
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
        table.delete_all()


def _in_use(loaded: LoadedPipeline, generation: Generation) -> StateError:
    name = loaded.pipeline.name
    message = (
        f"Pipeline `{name}` is declared differently than when it was planned. Nothing was read "
        f"yet, so it can be planned again, but a run of generation {generation.name} is active, "
        "and may read by the plan as it is. Nothing was changed."
    )
    hint = (
        f"End it with `hybrid stop P --generation {generation.name}`, then try again; or undo the "
        "change in the pipeline's file."
    )
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
