"""Compaction of the table that readers see, while its live run continues."""

from __future__ import annotations

from collections.abc import Callable

from hybrid_extensions.generations.files.range_history import history_files
from hybrid_extensions.generations.switch.lock import hold_switch_lock_in_turn
from hybrid_extensions.generations.switch.merge_turn import between_merges
from hybrid_extensions.upkeep.files.compaction import Compacted, Compaction
from orchestration.display import size
from sources.common.counting import counted
from sources.config.loader import LoadedPipeline
from sources.errors import leaving
from sources.hybrid import Boundedness
from sources.kept_definitions import in_service
from sources.planning.context import PipelineContext
from sources.serving import require_in_service, target_of
from sources.state.action_log import recorded
from spark_jobs.table.history_files import NO_HISTORY, HistoryFiles

_WAY_OUT = "no row changes by it, and the compaction can be repeated"


@leaving("No row was changed.")
def compact(
    loaded: LoadedPipeline,
    say: Callable[[str], None] = lambda _: None,
    by: str | None = None,
) -> Compacted:
    """Compact small files of the serving generation's table, without changing a row.

    Files of history and of live rows are compacted separately. The live run continues: its appends
    can't conflict with the compaction, and a merge waits while it commits. Until it is done no
    promotion or rollback begins, and backfills of ranges wait. It is entered in the log of actions.

    Args:
        loaded: The pipeline.
        say: Called with a line of text for each commit.
        by: Who asked for it; None if unknown.

    Raises:
        InputError: The table can't be read, or uses a Delta feature with which its files can't be
            compacted here.
        StateError: Nothing was planned yet; a promotion, rollback or discard is under way; a file
            is missing; another writer has changed the table itself; or the live run merges and
            can't wait, as its state is in a store. Commits before are complete.
        UnavailableError: A store does not answer.
    """
    with hold_switch_lock_in_turn(loaded, "compaction", say, _WAY_OUT):
        context = _serving(loaded)
        compaction = _compaction(context)
        with recorded(loaded.state, "compact", by, context.generation.name) as after:
            found = compaction.run(say)
            after["files"] = in_words(found)
            return found


@leaving("Nothing was changed.")
def look(loaded: LoadedPipeline) -> Compacted:
    """Return what :func:`compact` would do, by the sizes of the files; nothing is written.

    Raises:
        InputError: The table can't be read, or uses a Delta feature with which its files can't be
            compacted here.
        StateError: Nothing was planned yet, or which files hold history is not known.
        UnavailableError: A store does not answer.
    """
    return _compaction(_serving(loaded)).look()


def in_words(found: Compacted) -> str:
    """Describe what a compaction did, or would do, as a clause without a full stop."""
    if not found.commits:
        return "no files to be compacted"
    old = found.history_files + found.live_files
    return (
        f"{counted(old, 'file')} ({size(found.bytes)}) to {found.new_files:,}: "
        f"{found.history_files:,} of history, {found.live_files:,} of live rows"
    )


def _serving(loaded: LoadedPipeline) -> PipelineContext:
    context = PipelineContext.require(in_service(loaded)[-1])
    require_in_service(context.loaded, context.generation)
    return context


def _compaction(context: PipelineContext) -> Compaction:
    target = target_of(context.loaded, context.generation.name)
    turn = between_merges(context, "compaction")
    return Compaction(context.generation, target, lambda: _history(context), turn)


def _history(context: PipelineContext) -> HistoryFiles:
    """Return the files with history, where ranges of them can be recomputed."""
    is_bounded = [each.boundedness is Boundedness.BOUNDED for each in context.pipeline.sources]
    if context.pipeline.sink.mode != "append" or not any(is_bounded):
        return NO_HISTORY
    return history_files(context, target_of(context.loaded, context.generation.name))
