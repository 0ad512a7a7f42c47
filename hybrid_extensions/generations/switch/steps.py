"""Repeatable steps of a promotion or rollback, and how to undo them.

:mod:`hybrid_extensions.generations.switch.promotion` puts them in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from deltalake import DeltaTable

from hybrid_extensions.generations.declare import GenerationsSection
from hybrid_extensions.generations.files.take_over import OutdatedError, TakeOver, prepare
from hybrid_extensions.generations.files.unlisted_files import delete_unlisted, forget_log
from orchestration.requested_state import (
    read_requested,
    request,
    restore_request,
    set_request_aside,
)
from sources.common.counting import counted
from sources.common.positions import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, InputError, StateError
from sources.generations import generations, remove
from sources.kept_definitions import declaration_of
from sources.planning.context import PipelineContext
from sources.serving import (
    GENERATIONS,
    Served,
    Serving,
    Switch,
    newest_generation,
    own_table,
    owner_properties,
    read_serving,
    write_serving,
)
from sources.state.generation import Generation, read_generation, unmark_removed
from sources.storage.folder import Folder
from sources.storage.tables.delta_log import LOG, has_log
from spark_jobs.checkpoint import offset_log
from spark_jobs.launch import run_control
from spark_jobs.table.commit_position import find_position
from spark_jobs.table.delta_table import NO_MORE, open_table, transactions_of
from spark_jobs.table.ownership.belonging import SWITCHES, epoch_id, is_committed, require_servable
from spark_jobs.table.ownership.target_records import record_moved_rows
from spark_jobs.table.table_snapshot import read_snapshot

_BEFORE_FIRST = -1
"""Transaction version of a writer whose micro-batch 0 is still to be written."""
_TRIES = 3


def contexts(loaded: LoadedPipeline, switch: Switch) -> tuple[PipelineContext, PipelineContext]:
    """Return the contexts of the generation that is to serve, and of the one that served before.

    Each has the declaration that the generation runs by, not the present file.

    Raises:
        StateError: The state of one of them can't be read.
        InputError: A kept declaration is not valid.
        UnavailableError: The state's store does not answer.
    """
    to, past = (
        PipelineContext(declaration_of(loaded, name), read_generation(loaded.state, name))
        for name in (switch.to, switch.past)
    )
    return to, past


def check(loaded: LoadedPipeline, switch: Switch) -> TakeOver:
    """Check everything that a promotion's commit needs; return the commit, and change nothing.

    A target whose table was deleted refuses nothing: its table is created by :func:`commit`.

    Raises:
        StateError: Files of the new generation's table are missing, or it may not serve.
        InputError: Its table can't replace the target, such as for other partition columns.
        UnavailableError: A store does not answer.
    """
    to, _ = contexts(loaded, switch)
    require_servable(to.loaded, to.generation)
    source, version = _source(loaded, switch)
    target = source if not has_log(loaded.target) else loaded.target
    return prepare(target, source, version)


def end_runs(to: PipelineContext, past: PipelineContext) -> list[str]:
    """Stop the runs of both generations, and cancel the request for the past one's live run.

    The cancelled request is saved: :func:`release` restores it.

    Args:
        to: The generation that is to serve.
        past: The generation that serves until then.

    Returns:
        Names of the generations of which a run was ended, each once; empty if none ran.

    Raises:
        InputError: A cluster's command line tool is not installed.
        RunError: A run can't be ended; it may still be writing.
        StateError: The state can't be read or written.
        UnavailableError: The state's store or a cluster does not answer.
    """
    wanted = read_requested(past.generation)
    if wanted is not None and (wanted.is_requested or wanted.is_paused):
        set_request_aside(past.generation, wanted)
        request(past.generation, wanted.source, is_requested=False)
    ended = [
        context.generation.name
        for context in (past, to)
        for source in context.pipeline.sources
        if run_control.stop(context.generation, source.name)
    ]
    return list(dict.fromkeys(ended))


@dataclass(frozen=True)
class Committed:
    """A committed promotion or rollback.

    Attributes:
        switch: The promotion or rollback, with the version of the target that it replaced.
        files: How many files of the new generation the commit lists; None if an earlier call made
            the commit.
    """

    switch: Switch
    files: int | None

    def in_words(self) -> str:
        """Return what was committed: ``one commit (version 41) lists 3 files of g2 …``."""
        past = self.switch.target_version
        version = "" if past is None else f" (version {past + 1:,})"
        if self.files is None:
            return f"the commit{version} was made before; readers see {self.switch.to}"
        return (
            f"one commit to the table's log{version} lists {counted(self.files, 'file')} of "
            f"{self.switch.to}; readers see {self.switch.to}"
        )


def commit(loaded: LoadedPipeline, switch: Switch) -> Committed:
    """Replace the target's rows in one commit, unless an earlier call did.

    The same commit names the new owner, and keeps drivers of the past generation that were believed
    dead from writing. If another commit came in between, it is tried three times.

    Returns:
        The commit; its ``files`` are None if an earlier call made it.

    Raises:
        StateError: Files of the new generation's table are missing, or it may not serve; or another
            process has completed the switch, or given it up (transient).
        InputError: Its table can't replace the target, such as for other partition columns.
        OutdatedError: Other commits came in between each time; nothing was changed.
        UnavailableError: A store does not answer.
    """
    if is_committed(loaded, switch):
        return Committed(switch, None)
    to, past = contexts(loaded, switch)
    target, (source, version) = loaded.target, _source(loaded, switch)
    if not has_log(target):
        # Before the table is there: afterwards nothing says that it was gone.
        switch = changed(loaded, switch, is_first=True)
        made = read_snapshot(source, version)
        schema = open_table(source, version).schema()
        DeltaTable.create(
            target.url,
            schema,
            mode="ignore",
            partition_by=made.partitions or None,
            storage_options=target.documents.delta_options,
        )
    # A driver that was taken for dead may not have begun its query: that needs an id to be fenced.
    offset_log.make_query_id(past.generation.checkpoint)
    fence = dict.fromkeys(_writers(past.generation), NO_MORE)
    # What an earlier switch forbade to this generation is allowed again.
    ids = _writers(to.generation)
    allowed = dict.fromkeys(transactions_of(target, ids), _BEFORE_FIRST)
    written = transactions_of(source, ids, version)
    position: str | None = None
    # Rows of a stateful pipeline, or of earlier releases, say none.
    with suppress(StateError):
        position = find_position(source, version).text()
    for attempt in range(_TRIES):
        ready = prepare(target, source, version)
        # After the version that is taken over was read: none of its rows is unknown.
        require_servable(to.loaded, to.generation)
        # Before the commit: afterwards nothing says which version it replaced.
        switch = changed(loaded, switch, target_version=ready.table.version)
        try:
            ready.commit(
                {**allowed, **written, **fence, SWITCHES: switch.at_ms},
                owner_properties(to.generation),
                position,
            )
        except OutdatedError:
            if attempt + 1 == _TRIES:
                raise
        else:
            break
    return Committed(switch, len(ready.other.files))


def changed(loaded: LoadedPipeline, switch: Switch, **changes: object) -> Switch:
    """Change the record of a switch, unless another process has ended it since it was read.

    Raises:
        StateError: Another process has continued or ended it (transient).
    """
    made = switch.model_copy(update=changes)
    if not loaded.state.replace_known(Switch.NAME, switch, made):
        message = (
            f"The {switch.kind} of {switch.to} is not continued by this process: another one has "
            "continued or ended it meanwhile."
        )
        hint = "Look at `hybrid generation list P` before you try again."
        raise StateError(message, hint, transient=True, generation=switch.to)
    return made


def record(loaded: LoadedPipeline, switch: Switch) -> Serving:
    """Record a committed promotion or rollback as done; return the serving generation's record.

    May be repeated. The request that :func:`end_runs` saved is dropped.

    Raises:
        InputError: The target can't be read.
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    if switch.target_version is not None:
        record_moved_rows(loaded, read_generation(loaded.state, switch.to), switch.target_version)
    serving = read_serving(loaded)
    if serving.generation != switch.to and switch.target_version is not None:
        replaced = Served(
            generation=switch.past,
            version=switch.target_version,
            until_ms=now_ms(),
            by=serving.by,
        )
        kept = [each for each in serving.before if each.generation not in (switch.to, switch.past)]
        # A generation that was rolled back is the last one to return to.
        older = [replaced, *kept] if switch.is_rollback else [*kept, replaced]
        # Versions of a table that is gone are none of the one that was made in its place.
        before = [] if switch.is_first else older
        serving = Serving(generation=switch.to, before=before, by=switch.by)
        write_serving(loaded, serving)
    # Of a discard that began meanwhile, and ended before it took it back.
    unmark_removed(loaded.state, switch.to)
    restore_request(read_generation(loaded.state, switch.past), restore=False)
    forget_log(own_table(loaded, switch.to), loaded.target)
    return serving


def release(loaded: LoadedPipeline, switch: Switch) -> None:
    """Undo a promotion's steps before its commit: links in the target, cancelled requests.

    A target created for it is deleted. May be repeated; must not be called after the commit.

    Raises:
        StateError: The state can't be read or written.
        UnavailableError: The state's store or that of the table does not answer.
    """
    source, version = _source(loaded, switch)
    # A table that can't be read is why the switch is given up; what is linked from it already is
    # in no version of the target, so VACUUM removes it.
    with suppress(InputError):
        TakeOver(read_snapshot(loaded.target), read_snapshot(source, version)).undo()
    if switch.is_first:
        loaded.target.folder(LOG).delete_all()
    restore_request(read_generation(loaded.state, switch.past), restore=True)


def clean(loaded: LoadedPipeline) -> tuple[list[str], int]:
    """Remove generations that no rollback needs, with their state and their files.

    Those are what served before, beyond the number to keep, and older ones that never served. Files
    that can't be deleted now are left, and raise nothing: the next promotion deletes them.

    Returns:
        Names of the removed generations, and how many files in ``_generations`` were deleted.

    Raises:
        InputError: A store refuses.
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    removed = _remove_surplus(loaded)
    versions = [each.version for each in read_serving(loaded).before]
    deleted = 0
    # The switch is done; what can't be deleted now is found again after the next one.
    with suppress(HybridError):
        deleted = delete_unlisted(loaded.target, loaded.target.folder(GENERATIONS), versions)
    return removed, deleted


def _remove_surplus(loaded: LoadedPipeline) -> list[str]:
    removed = []
    serving = read_serving(loaded)
    for name in (each.name for each in generations(loaded)):
        # Of a table that is gone: it serves no more, and can't be rolled back to.
        is_older = int(name[1:]) < int(serving.generation[1:])
        if is_older and serving.served(name) is None:
            remove(loaded, name)
            removed.append(name)
    surplus = len(serving.before) - loaded.section(GenerationsSection).generations.keep
    # The newest one belongs to the pipeline's own file, even after a rollback.
    gone = [each for each in serving.before if each.generation != newest_generation(loaded)][
        : max(surplus, 0)
    ]
    if not gone:
        return removed
    kept = [each for each in serving.before if each not in gone]
    write_serving(loaded, serving.model_copy(update={"before": kept}))
    for each in gone:
        remove(loaded, each.generation)
        removed.append(each.generation)
    return removed


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


def _source(loaded: LoadedPipeline, switch: Switch) -> tuple[Folder, int | None]:
    """Return the table with the rows to be served, and its version; None for the newest."""
    served = read_serving(loaded).served(switch.to)
    if served is None:
        return own_table(loaded, switch.to), switch.source_version
    return loaded.target, served.version


def _writers(generation: Generation) -> list[str]:
    """Return a generation's Delta transaction ids: for MERGE, of the epoch, and its query's."""
    found = offset_log.query_id(generation.checkpoint)
    own = [generation.info.transaction_id, epoch_id(generation)]
    return [*own, *([] if found is None else [found])]
