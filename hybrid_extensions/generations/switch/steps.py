"""Repeatable steps of a promotion or rollback, and how an aborted one is undone.

:mod:`hybrid_extensions.generations.switch.run` does them in order, and starts the live run after
them (``run.start``). A rollback takes the same steps with the earlier generation as the one that is
to serve: it begins in :func:`hybrid_extensions.generations.switch.promotion.roll_back`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from deltalake import DeltaTable

from hybrid_extensions.generations.files.table_snapshot import read_snapshot
from hybrid_extensions.generations.files.take_over import OutdatedError, TakeOver, prepare
from hybrid_extensions.generations.files.unlisted_files import forget_log
from hybrid_extensions.generations.switch import refusals
from hybrid_extensions.generations.switch.readiness import require_servable
from hybrid_extensions.generations.switch.writer_marks import writer_marks
from sources.common.counting import counted
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, StateError
from sources.kept_definitions import declaration_of
from sources.planning.context import PipelineContext
from sources.serving import (
    Served,
    Serving,
    Switch,
    own_table,
    owner_properties,
    pending_switch,
    read_serving,
    write_serving,
)
from sources.state.generation import read_generation, unmark_removed
from sources.storage.folder import Folder
from sources.storage.tables.delta_log import LOG, has_log
from spark_jobs.launch import run_control
from spark_jobs.run_state.requested_state import (
    read_requested,
    request,
    restore_request,
    set_request_aside,
)
from spark_jobs.table.delta_table import open_table, transactions_of
from spark_jobs.table.ownership.belonging import SWITCHES, is_committed
from spark_jobs.table.ownership.target_records import record_moved_rows

T = TypeVar("T")
_TRIES = 3


def context_of(loaded: LoadedPipeline, generation: str) -> PipelineContext:
    """Return a generation of a pipeline with the declaration by which it runs.

    Raises:
        InputError: The kept declaration is not valid, or needs an environment variable that is not
            set.
        StateError: There is no generation of that name, its kept declaration is missing, or the
            state is damaged.
        UnavailableError: The state's store does not answer.
    """
    state = read_generation(loaded.state, generation)
    return PipelineContext(declaration_of(loaded, generation), state)


def contexts(loaded: LoadedPipeline, switch: Switch) -> tuple[PipelineContext, PipelineContext]:
    """Return the contexts of the generation that is to serve, and of the one that served before.

    Each has the declaration that the generation runs by, not the present file.

    Raises:
        InputError, StateError, UnavailableError: As of :func:`context_of`.
    """
    return context_of(loaded, switch.to), context_of(loaded, switch.past)


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


def is_outdated(loaded: LoadedPipeline, switch: Switch) -> bool:
    """Return whether another generation serves than when a switch that is not committed was begun.

    Whoever began it was suspended before, and others changed meanwhile which one serves.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    return read_serving(loaded).generation != switch.past


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
    transactions, position = writer_marks(loaded, to, past, source, version)

    def attempt() -> int | None:
        nonlocal switch
        ready = prepare(target, source, version)
        if transactions_of(target, [SWITCHES], ready.table.version).get(SWITCHES) == switch.at_ms:
            # By another process, while this one was suspended.
            return None
        # After the version that is taken over was read: none of its rows is unknown.
        require_servable(to.loaded, to.generation)
        # Before the commit: afterwards nothing says which version it replaced.
        switch = changed(loaded, switch, target_version=ready.table.version)
        marks = {**transactions, SWITCHES: switch.at_ms}
        ready.commit(marks, owner_properties(to.generation), position)
        return len(ready.other.files)

    files = _tried_again(attempt)
    return Committed(switch, files)


def check_way_back(loaded: LoadedPipeline, switch: Switch) -> TakeOver:
    """Check that :func:`take_back` can undo a commit; return what it would commit, change nothing.

    Raises:
        StateError: Files of the rows before are missing.
        InputError: The target can't be read.
        UnavailableError: A store does not answer.
    """
    return prepare(loaded.target, loaded.target, switch.target_version)


def take_back(loaded: LoadedPipeline, switch: Switch) -> None:
    """Undo the commit of a switch that is not recorded as done yet, by another commit.

    Readers see the rows before again. Nothing is done for one that is not committed, or undone
    already; may be repeated.

    Raises:
        StateError: Files of the rows before are missing.
        InputError: The target can't be read.
        OutdatedError: Other commits came in between each time; nothing was changed.
        UnavailableError: A store does not answer.
    """
    if not is_committed(loaded, switch):
        return
    past, to = contexts(loaded, switch)
    target = loaded.target
    transactions, position = writer_marks(loaded, to, past, target, switch.target_version)

    def attempt() -> None:
        ready = check_way_back(loaded, switch)
        # Of the version that is replaced: who was suspended undoes nothing that came later.
        if transactions_of(target, [SWITCHES], ready.table.version)[SWITCHES] == switch.at_ms:
            marks = {**transactions, SWITCHES: now_ms()}
            ready.commit(marks, owner_properties(to.generation), position)

    _tried_again(attempt)


def _tried_again(attempt: Callable[[], T]) -> T:
    """Return the result of an attempt to commit, repeated if another commit came in between.

    Args:
        attempt: Reads the newest version of the table, and commits to it; called three times at
            most.

    Raises:
        OutdatedError: Other commits came in between each time.
    """
    for _ in range(_TRIES - 1):
        with suppress(OutdatedError):
            return attempt()
    return attempt()


def changed(loaded: LoadedPipeline, switch: Switch, **changes: object) -> Switch:
    """Change the record of a switch, unless another process has ended it since it was read.

    Raises:
        StateError: Another process has continued or ended it (transient).
        UnavailableError: The state's store does not answer.
    """
    made = switch.model_copy(update=changes)
    if not loaded.state.replace_known(Switch.NAME, switch, made):
        raise refusals.continued_by_another(switch)
    return made


def require_pending(loaded: LoadedPipeline, switch: Switch) -> None:
    """Refuse to go on with a switch that another process has continued or ended meanwhile.

    Raises:
        StateError: Another process has (transient); or the state can't be read.
        UnavailableError: The state's store does not answer.
    """
    if pending_switch(loaded) != switch:
        raise refusals.continued_by_another(switch)


def record(loaded: LoadedPipeline, switch: Switch, together: Sequence[str] = ()) -> Serving:
    """Record a committed promotion or rollback as done; return the serving generation's record.

    May be repeated. The request that :func:`end_runs` saved is dropped.

    Args:
        loaded: The pipeline.
        switch: The promotion or rollback.
        together: Files of the pipelines that are changed together with this one.

    Raises:
        InputError: The target can't be read.
        StateError: Another process has continued or ended it (transient); or the state can't be
            read or written.
        UnavailableError: The state's store does not answer.
    """
    serving = read_serving(loaded)
    # After what serves was read: who has ended it has written that, too.
    require_pending(loaded, switch)
    if switch.target_version is not None:
        record_moved_rows(loaded, read_generation(loaded.state, switch.to), switch.target_version)
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
        made = Serving(generation=switch.to, before=before, by=switch.by, together=list(together))
        if not write_serving(loaded, serving, made):
            raise refusals.continued_by_another(switch)
        serving = made
    # Of a discard that began meanwhile, and ended before it took it back.
    unmark_removed(loaded.state, switch.to)
    restore_request(read_generation(loaded.state, switch.past), restore=False)
    forget_log(own_table(loaded, switch.to), loaded.target)
    return serving


def release(loaded: LoadedPipeline, switch: Switch) -> None:
    """Undo a promotion's steps before its commit: links in the target, cancelled requests.

    A target created for it is deleted. May be repeated; must not be called after the commit, unless
    that was undone by :func:`take_back`. A process that was suspended right before the commit does
    not make it any more. Of an outdated one nothing was done.

    Raises:
        StateError: Such a process has just made it, so readers see its rows; another one has
            continued or ended the switch (transient); or the state can't be read or written.
        UnavailableError: The state's store or that of the table does not answer.
    """
    if is_outdated(loaded, switch):
        return
    source, version = _source(loaded, switch)
    # What such a process knows of the switch is outdated: it prepares no further commit.
    switch = changed(loaded, switch, aborts=switch.aborts + 1)
    is_committed_now = False
    # A table that can't be read, or written, is why the switch is given up; what is linked from it
    # already is in no version of the target, so VACUUM removes it.
    with suppress(InputError, StateError):
        target = read_snapshot(loaded.target)
        if target.version == switch.target_version and not switch.is_first:
            # Nor does it make the one that it has prepared: its version is taken.
            with suppress(OutdatedError):
                TakeOver(target, target).commit({SWITCHES: now_ms()}, {})
        is_committed_now = is_committed(loaded, switch)
        # Of a commit that was undone, readers may still read the files: they are left to VACUUM.
        is_last = switch.is_first or switch.target_version in (None, target.version)
        if is_last and not is_committed_now:
            TakeOver(target, read_snapshot(source, version)).undo()
    if is_committed_now:
        raise refusals.too_late(switch)
    if switch.is_first:
        loaded.target.folder(LOG).delete_all()
    restore_request(read_generation(loaded.state, switch.past), restore=True)


def _source(loaded: LoadedPipeline, switch: Switch) -> tuple[Folder, int | None]:
    """Return the table with the rows to be served, and its version; None for the newest."""
    served = read_serving(loaded).served(switch.to)
    if served is None:
        return own_table(loaded, switch.to), switch.source_version
    return loaded.target, served.version
