"""Discard of the candidate: not of one that serves or served, or that another process promotes."""

from __future__ import annotations

from hybrid_extensions.generations.candidate import require_candidate
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.generations import newest_before, remove
from sources.serving import pending_switch, read_serving
from sources.state.generation import (
    CURRENT,
    IDENTITY,
    CurrentGeneration,
    is_there,
    mark_removed,
    unmark_removed,
)

_LOOK = "If `hybrid generation list P` still has it, and not as the serving one, try again."


def discard(loaded: LoadedPipeline, generation: str | None = None) -> str:
    """Remove the newest generation, which was never promoted, with its table; return its name.

    Its runs have to be stopped before: this function does not check that.

    Args:
        loaded: The pipeline.
        generation: Name of the generation that is to be removed, and no other one; the newest if
            None.

    Raises:
        InputError: The store of the state or of the table refuses.
        StateError: The newest generation serves or has served, or there is none; or, while this
            process was suspended, another one has promoted or discarded it (transient).
        UnavailableError: The store of the state or of the table does not answer.
    """
    hint = (
        "There is nothing to discard: a generation that serves, or has served, is kept; `hybrid "
        "generation list P` shows all generations."
    )
    known = loaded.state.read(CURRENT, CurrentGeneration)
    name = require_candidate(loaded, hint)
    if generation not in (None, name):
        raise _discarded_by_another(loaded, str(generation))
    if known is None or known.generation != name:
        # It was begun between the two looks: the mark would stay, and it could be removed by that.
        raise _discarded_by_another(loaded, name)
    newest = newest_before(loaded, name)
    # If this process is killed, the next one finds by the mark what is left to be removed.
    mark_removed(loaded.state, name)
    # Its lock may have expired. A promotion is recorded before it looks for the mark, and the mark
    # is written before this looks for the promotion: one of the two sees the other.
    switch = pending_switch(loaded)
    if (switch is not None and switch.to == name) or read_serving(loaded).ever_served(name):
        unmark_removed(loaded.state, name)
        message = f"Generation {name} is not discarded: another process has begun to promote it."
        raise StateError(message, _LOOK, transient=True, generation=name)
    # Before anything is removed, so that no process continues with what is left.
    made = CurrentGeneration(generation=newest, last=name)
    if not loaded.state.replace_known(CURRENT, known, made):
        raise _discarded_by_another(loaded, name)
    remove(loaded, name)
    return name


def take_back_discard(loaded: LoadedPipeline, generation: str) -> bool:
    """Let a generation stay whose discard was begun and not completed; called by its promotion.

    The process that began it was killed, or is suspended: when it wakes up, it is refused.

    Returns:
        Whether the generation is there; False if it is discarded.

    Raises:
        StateError: The state is damaged, or can't be written.
        UnavailableError: The state's store does not answer.
    """
    home = loaded.state
    if is_there(home, generation):
        return True
    known = home.read(CURRENT, CurrentGeneration)
    # Means the same, and is another document than the one that the discard has read. Once only, as
    # it must never be again what a discard has read.
    made = CurrentGeneration(generation=generation, last=generation)
    is_current = known is not None and known.generation == generation and known != made
    if not (is_current and home.exists(f"{generation}/{IDENTITY}")):
        return False
    if not home.replace_known(CURRENT, known, made):
        return False
    unmark_removed(home, generation)
    return True


def _discarded_by_another(loaded: LoadedPipeline, generation: str) -> StateError:
    message = (
        f"Generation {generation} of pipeline `{loaded.pipeline.name}` is not discarded by this "
        "process: another one has discarded or promoted it meanwhile."
    )
    return StateError(message, _LOOK, transient=True, generation=generation)
