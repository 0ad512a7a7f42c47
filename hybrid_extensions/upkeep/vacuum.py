"""VACUUM of the table that readers see, which keeps what a rollback needs."""

from __future__ import annotations

from collections.abc import Callable

from hybrid_extensions.generations.switch.lock import hold_switch_lock_in_turn
from hybrid_extensions.upkeep.files.vacuum import Unneeded, find_unneeded
from orchestration.display import size
from sources.common.counting import counted
from sources.config.loader import LoadedPipeline
from sources.errors import StateError, leaving
from sources.serving import pending_switch, read_serving
from sources.state.action_log import recorded

_WAY_OUT = "no row changes by it, and the VACUUM can be repeated"


@leaving("No row was changed.")
def vacuum(
    loaded: LoadedPipeline, say: Callable[[str], None] = lambda _: None, by: str | None = None
) -> Unneeded:
    """Delete unneeded files of the target, and return them.

    Kept are those of the newest version, of the versions that a rollback returns to, and those that
    were removed within ``delta.deletedFileRetentionDuration``, which open readers and published
    cuts may read. No promotion, rollback or backfill of a range runs meanwhile. It is entered in
    the log of actions.

    Args:
        loaded: The pipeline.
        say: Called with a line of text if a backfill is waited for.
        by: Who asked for it; None if unknown.

    Raises:
        InputError: As :func:`find_unneeded`; nothing was deleted.
        StateError: A promotion, rollback or discard is under way or was interrupted; or a file
            can't be deleted.
        UnavailableError: A store does not answer.
    """
    with hold_switch_lock_in_turn(loaded, "VACUUM", say, _WAY_OUT):
        _require_no_switch(loaded)
        with recorded(loaded.state, "vacuum", by) as after:
            found = look(loaded)
            found.delete()
            after["files"] = in_words(found)
            return found


@leaving("Nothing was changed.")
def look(loaded: LoadedPipeline) -> Unneeded:
    """Return the files that :func:`vacuum` would delete; nothing is changed.

    Raises:
        InputError: As :func:`find_unneeded`.
        StateError: The state is damaged.
        UnavailableError: A store does not answer.
    """
    return find_unneeded(loaded.target, [each.version for each in read_serving(loaded).before])


def in_words(found: Unneeded) -> str:
    """Return the number of unneeded files and their size as a clause without a full stop."""
    return f"{counted(len(found.files), 'file')}, {size(found.bytes)}"


def _require_no_switch(loaded: LoadedPipeline) -> None:
    """Refuse while files of a promotion may wait in the target for their commit."""
    if (switch := pending_switch(loaded)) is None:
        return
    message = (
        f"The {switch.kind} of generation {switch.to} was interrupted, and its files may be in the "
        "target's folder already. Nothing was deleted."
    )
    hint = (
        "Complete it with `hybrid generation finish P`, or give it up with `hybrid generation "
        "abort P`; then try again."
    )
    raise StateError(message, hint, pipeline=loaded.pipeline.name, generation=switch.to)
