"""Errors of a promotion or rollback, and the ways out that they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sources.errors import HybridError, StateError
from sources.serving import Switch
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.table.ownership.foreign_changes import ForeignChanges
from spark_jobs.table.ownership.refusals import changes_in_words


@contextmanager
def naming_the_abort(switch: Switch) -> Iterator[None]:
    """Add to an error raised in ``with`` how to abort the promotion; the error is raised again.

    For the steps before the commit, after which nothing can be aborted.
    """
    try:
        yield
    except HybridError as error:
        way = f"`hybrid generation abort P` returns to generation {switch.past}."
        error.hint = f"{error.hint} Or give the switch up: {way}".strip()
        raise


def discarded(switch: Switch) -> StateError:
    """Return (do not raise) the error that ends a switch to a generation that is being removed."""
    message = (
        f"Generation {switch.to} is not promoted: it is gone, or another process discards it. "
        f"{switch.past} serves as before."
    )
    hint = (
        "To replace the rows, begin a new generation with `hybrid generation new P`, run it, and "
        "promote it. If that is refused, complete the discard first: `hybrid generation discard P`."
    )
    return StateError(message, hint, generation=switch.to)


def continued_by_another(switch: Switch) -> StateError:
    """Return (do not raise) the error that ends a process which slept while others went on."""
    message = (
        f"The {switch.kind} of {switch.to} is not continued by this process: another one has "
        "continued or ended it meanwhile."
    )
    hint = "If another generation serves than you want (`hybrid generation list P`), try again."
    return StateError(message, hint, transient=True, generation=switch.to)


def outdated(switch: Switch) -> StateError:
    """Return (do not raise) the error for a switch that was begun by an outdated look."""
    message = (
        f"The {switch.kind} of {switch.to} was begun while {switch.past} served, and another "
        "process has changed meanwhile which generation serves. Nothing was changed."
    )
    hint = "Look at `hybrid generation list P`, and try again if it is still wanted."
    return StateError(message, hint, transient=True, generation=switch.to)


def too_late(switch: Switch) -> StateError:
    """Return (do not raise) the error that refuses to abort a committed promotion or rollback."""
    message = (
        f"The {switch.kind} of generation {switch.to} can't be aborted: it is committed, and "
        "readers see its rows."
    )
    hint = (
        "Complete it with `hybrid generation finish P`; then `hybrid generation rollback P` "
        f"returns to {switch.past}."
    )
    return StateError(message, hint, generation=switch.to)


def changed_before_rollback(
    generation: Generation, table: Folder, found: ForeignChanges
) -> StateError:
    """Return the error for changes by others in rows that a rollback would serve again.

    Args:
        generation: The generation that the rollback would return to.
        table: Folder of the table.
        found: The changes.
    """
    message = (
        f"{changes_in_words(table, found)}\nThat was before another generation replaced "
        f"{generation.name}; a rollback would return to these rows. Nothing was changed."
    )
    hint = (
        "Keep the generation that serves, or compute the table again in a new one: `hybrid "
        "generation new P`, `hybrid run P`, `hybrid generation promote P`."
    )
    return StateError(message, hint, table=table.url, generation=generation.name)
