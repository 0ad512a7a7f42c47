"""Turns of commits that remove files: they wait for the merge in progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from sources.errors import StateError
from sources.planning.context import PipelineContext
from spark_jobs.run_state.driver_lock import is_held, is_launched
from spark_jobs.run_state.table_locks import table_turn


def between_merges(
    context: PipelineContext, doing: str
) -> Callable[[], AbstractContextManager[object]]:
    """Return a function whose context keeps merges out while a commit removes files of the table.

    Delta refuses a merge if another commit removes a file that it reads; so the two take turns. A
    pipeline that appends needs no turns, and the context then does nothing.

    Args:
        context: The generation whose table is changed.
        doing: What makes the commit, such as ``compaction``; for messages.

    Returns:
        A function to be called around each commit: ``with turn(): …`` waits for the merge in
        progress. It raises StateError if the live run merges and can't wait, because its state is
        in a store.
    """
    if context.pipeline.sink.mode == "append":
        return nullcontext
    generation = context.generation

    @contextmanager
    def turn() -> Iterator[None]:
        if not generation.is_local and (is_launched(generation) or is_held(generation)):
            raise _is_merging(context, doing)
        with table_turn(generation):
            yield

    return turn


def _is_merging(context: PipelineContext, doing: str) -> StateError:
    name = context.pipeline.name
    message = (
        f"Pipeline `{name}` merges rows into its table, and its state is in a store, where its run "
        f"can't wait for the commit of a {doing}: one that removes a file which a merge reads "
        "makes it fail. It was not committed."
    )
    hint = (
        f"Pause the stream (`hybrid pause P`), repeat the {doing}, then resume the stream: `hybrid "
        "resume P`."
    )
    return StateError(message, hint, pipeline=name, field="sink.mode")
