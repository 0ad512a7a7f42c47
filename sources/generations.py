"""Generations: whether a new one may begin, which have read nothing, removal, which one acts."""

from __future__ import annotations

import re

from sources.config.loader import LoadedPipeline
from sources.errors import InputError, StateError
from sources.kept_definitions import declaration_of, is_kept, keep_definition, kept_folder
from sources.serving import (
    candidate_name,
    newest_generation,
    own_table,
    read_serving,
    target_of,
)
from sources.state.action_log import recorded
from sources.state.adopted_table import Adopted
from sources.state.generation import (
    CURRENT,
    IDENTITY,
    PLAN,
    CurrentGeneration,
    Generation,
    changed_parts,
    digests,
    is_there,
    make_generation,
    read_generation,
    remove_generation,
)
from sources.storage.tables.delta_log import has_log

_NAME = re.compile(r"g(\d+)")
_LOOK = "Look at `hybrid generation list P` before you try again."


def generations(loaded: LoadedPipeline) -> list[Generation]:
    """Read all generations of a pipeline from its state folder, the oldest first.

    Returns:
        The generations; empty if the pipeline was never planned or run.

    Raises:
        StateError: A generation's document is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    last = newest_generation(loaded)
    return [
        read_generation(loaded.state, f"g{number}")
        for number in _numbers(loaded)
        if (last is None or number <= _number(last))
        and loaded.state.exists(f"g{number}/{IDENTITY}")
    ]


def begin(loaded: LoadedPipeline, by: str | None = None) -> Generation:
    """Create a new generation (another computation of the whole table); nothing runs yet.

    It is planned and run by the declaration ``loaded``, and becomes the newest generation. The
    serving one continues with the copy of the declaration that was kept when it last started. If
    the newest generation is a candidate that has read nothing yet, that one is returned; without a
    plan it follows ``loaded`` from then on.

    Args:
        loaded: The pipeline.
        by: Who begins it, for the log of actions; None if unknown.

    Raises:
        InputError: The store of the state or of a table refuses.
        StateError: The pipeline has not run yet; there is a candidate that has read something, to
            be promoted or discarded first; the serving generation's kept declaration is lost, and
            the pipeline's file has changed; another process has begun or discarded one meanwhile
            (transient); or the state can't be written.
        UnavailableError: The store of the state or of a table does not answer.
    """
    serving = read_serving(loaded)
    known = loaded.state.read(CURRENT, CurrentGeneration)
    name = None if known is None else known.generation
    if name is None or not has_run(loaded):
        message = (
            f"Pipeline `{loaded.pipeline.name}` has not run yet, so it has no generation that a "
            "new one could replace."
        )
        hint = (
            "Run `hybrid run P`: as long as nothing was read, the first generation is planned by "
            "the pipeline's file as it is."
        )
        raise StateError(message, hint, pipeline=loaded.pipeline.name)
    if candidate_name(loaded) is not None:
        begun = read_generation(loaded.state, name)
        if is_unread(begun):
            # With a plan it is planned again if the declaration is another one by now.
            return begun if begun.exists(PLAN) else _declared_now(loaded, begun)
        message = (
            f"Pipeline `{loaded.pipeline.name}` has a candidate already, generation {name}: there "
            "is one at a time."
        )
        hint = (
            f"To continue with {name}, compute its table (`hybrid run P`), then promote it: "
            f"`hybrid generation promote P`. To begin another one, first discard {name}, whose "
            "table and state are then deleted: `hybrid generation discard P`."
        )
        raise StateError(message, hint, pipeline=loaded.pipeline.name, generation=name)
    if name == serving.generation:
        _require_definition(loaded, read_generation(loaded.state, name))
    for left in (f"g{number}" for number in _numbers(loaded)):
        is_left = not is_there(loaded.state, left) and left != newest_generation(loaded)
        if is_left and not read_serving(loaded).ever_served(left):
            # Left by a process that was killed while it removed it.
            remove(loaded, left)
    # A name that was the newest is not used again. A process that was killed before it said so has
    # left a folder of this name.
    new = f"g{_last_number(loaded) + 1}"
    with recorded(loaded.state, "new generation", by, new, {"newest": name}) as after:
        made = make_generation(loaded.state, new, loaded.contract())
        # Another process may have begun it, and discarded it, since this one has looked.
        if not loaded.state.replace_known(CURRENT, known, CurrentGeneration(generation=new)):
            remove_if_past(loaded, new)
            message = f"Generation {new} is not begun: another process has begun or discarded one."
            raise StateError(message, _LOOK, transient=True, generation=new)
        after["newest"] = made.name
    return _declared_now(loaded, made)


def remove_if_past(loaded: LoadedPipeline, generation: str) -> None:
    """Remove a generation that this process has made, if another process has passed it meanwhile.

    Nothing is removed of one that is the newest, that serves or has served, or whose number may
    still be given to another one.

    Args:
        loaded: The pipeline.
        generation: Name of the generation, whose begin was refused.

    Raises:
        StateError, UnavailableError, InputError: As of :func:`remove`.
    """
    is_past = _number(generation) <= _last_number(loaded)
    if (
        is_past
        and newest_generation(loaded) != generation
        and not read_serving(loaded).ever_served(generation)
    ):
        remove(loaded, generation)


def _declared_now(loaded: LoadedPipeline, begun: Generation) -> Generation:
    """Let a generation that has done nothing yet adopt the declaration as it is now."""
    info = begun.info.model_copy(update={"contract": digests(loaded.contract())})
    if info != begun.info:
        begun.replace(IDENTITY, info)
    return Generation(begun, info)


def _numbers(loaded: LoadedPipeline) -> list[int]:
    """Return the numbers of all generations that have a state folder, sorted."""
    return sorted(map(_number, filter(_NAME.fullmatch, loaded.state.folders())))


def newest_before(loaded: LoadedPipeline, generation: str) -> str:
    """Return the name of the newest generation before another one; it need not be the serving one.

    Args:
        loaded: The pipeline.
        generation: Name of a generation that is not the oldest one.

    Raises:
        IndexError: No generation before it is there.
        StateError: The state's folder can't be listed.
        InputError: The state's store refuses.
        UnavailableError: The state's store does not answer.
    """
    older = [f"g{number}" for number in _numbers(loaded) if number < _number(generation)]
    return [name for name in older if is_there(loaded.state, name)][-1]


def _last_number(loaded: LoadedPipeline) -> int:
    """Return the number of the generation that was begun last, whether or not it is still there."""
    current = loaded.state.read(CURRENT, CurrentGeneration)
    return 0 if current is None else _number(current.last or current.generation)


def _number(generation: str) -> int:
    return int(generation[1:])


def is_unread(generation: Generation) -> bool:
    """Return whether no run of a generation has read anything yet, so that a new plan is allowed.

    That is, its checkpoint has no planned micro-batch (Spark writes ``offsets/N`` before it reads),
    no source has an end position, and no table was adopted in place of history.

    Raises:
        StateError: The state's folder can't be listed.
        UnavailableError: The state's store does not answer.
    """
    batches = generation.names("checkpoint/offsets/[0-9]*")
    is_adopted = generation.exists(Adopted.NAME)
    return not (batches or is_adopted or generation.names("positions/*-end.json"))


def has_run(loaded: LoadedPipeline) -> bool:
    """Return whether the serving generation has read something, or has created its table.

    Only then can a new generation be begun. False before the first generation.

    Args:
        loaded: The pipeline.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    if newest_generation(loaded) is None:
        return False
    serving = read_serving(loaded).generation
    if not is_unread(read_generation(loaded.state, serving)):
        return True
    return is_kept(loaded, serving) and has_log(target_of(loaded, serving))


def _require_definition(loaded: LoadedPipeline, serving: Generation) -> None:
    """Keep the definition of the serving generation again if its copy was removed.

    A newer generation takes the pipeline's own file for itself, so the copy has to be there then.
    """
    if loaded.kept is not None or is_kept(loaded, serving.name):
        return
    if not changed_parts(serving.info.contract, loaded.contract()):
        keep_definition(loaded, serving)
        return
    missing = kept_folder(loaded, serving.name).location(loaded.path.name)
    message = (
        f"The definition that was kept for generation {serving.name}, {missing}, is missing, and "
        f"the pipeline's file has changed since {serving.name} began: its runs could not continue."
    )
    hint = (
        "Restore that folder from a backup; or undo the change in the pipeline's file, try again, "
        "which keeps the definition again, and change the file afterwards."
    )
    raise StateError(
        message, hint, pipeline=loaded.pipeline.name, generation=serving.name, file=missing
    )


def remove(loaded: LoadedPipeline, generation: str) -> None:
    """Remove a generation's state folder, and its own table if it has one.

    The target is left as it is. On this machine errors are ignored: what can't be removed stays.

    Args:
        loaded: The pipeline.
        generation: Name of the generation; its runs must have ended.

    Raises:
        StateError: The state is in a store and can't be written.
        UnavailableError: The store of the state or of the table does not answer.
        InputError: One of them refuses.
    """
    own = own_table(loaded, generation)
    # Elsewhere, files of a table that has no log any more may be listed by the target's.
    if own.is_local or has_log(own):
        own.delete_all()
    remove_generation(loaded.state, generation)


def acting_on(
    loaded: LoadedPipeline, generation: str | None = None, *, as_kept: bool = False
) -> LoadedPipeline:
    """Return the declaration by which a command works on a generation.

    Of the serving generation, unless the command names another one. ``loaded`` itself is returned
    if it is a kept copy and none is named, and before the first generation.

    Args:
        loaded: The pipeline, by its own file or by a copy that was kept for one generation.
        generation: Name of the generation; the serving one if None or empty.
        as_kept: Use the kept copy of the newest generation, too, where its checkpoint can't follow
            the pipeline's file any more: for commands that must always work, such as stopping a
            run. If False, the newest generation gets the file.

    Raises:
        InputError: There is no such generation; or its kept copy is not valid.
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    if not generation and (loaded.kept is not None or newest_generation(loaded) is None):
        return loaded
    names = [each.name for each in generations(loaded)]
    if generation and generation not in names:
        message = f"Pipeline `{loaded.pipeline.name}` has no generation `{generation}`."
        hint = (
            f"Name one of {', '.join(names)}; or leave it out for the generation that serves."
            if names
            else "Run `hybrid run P`, which begins the first one."
        )
        raise InputError(message, hint, pipeline=loaded.pipeline.name, value=generation)
    name = generation or read_serving(loaded).generation
    return (
        loaded
        if name == newest_generation(loaded) and not as_kept
        else declaration_of(loaded, name)
    )
