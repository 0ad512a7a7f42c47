"""Promotion: readers get another generation's rows, in one commit, and can get the old ones back.

It is recorded before its first step (``switch.json``), each step may be repeated, and no run of the
pipeline starts while it is under way. Whichever process finds it unfinished finishes it.
"""

from __future__ import annotations

import os
import shutil

from orchestration import operations
from orchestration.requested_state import read_requested, request
from orchestration.supervision.look import look_at_live
from orchestration.supervision.verdict import Verdict
from sources.common.positions import now_ms
from sources.common.state import Folder, Generation, read_generation
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import StateError
from sources.generations import (
    OWNER,
    Served,
    Serving,
    Switch,
    kept_file,
    newest,
    own_table,
    pending_switch,
    read_serving,
    remove,
    require_waiting,
    write_serving,
)
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint import offset_log
from spark_jobs.launch import process
from spark_jobs.run_state.lock import take_switch_lock
from spark_jobs.target.adopt_table import NO_MORE, take_over, transactions_of, version_of


def promote(loaded: LoadedPipeline) -> Serving:
    """Replace the target's rows by those of the newest generation, in one commit.

    The runs of the previous generation are stopped before, and the live run of the new one is
    started after the commit. An interrupted promotion is finished by :func:`finish`.

    Returns:
        Which generation serves now, and those that served before.

    Raises:
        StateError: There is no generation that waits, it is not ready (its history is not read to
            its end, or its live run is missing or not healthy), files of its table are missing, or
            another process is changing which one serves.
        InputError: Its table can't replace the target, such as for other partition columns.
        RunError: A run can't be stopped; or the live run does not start after the commit: it stays
            requested, and the supervision starts it again.
        UnavailableError: A broker or a cluster does not answer.
    """
    finish(loaded)
    name = require_waiting(
        loaded,
        "Begin a new generation with `hybrid generation new`, and run it with `hybrid run`.",
    )
    _require_ready(PipelineContext.require(loaded))
    _begin(loaded, name, read_serving(loaded).generation)
    finish(loaded)
    return read_serving(loaded)


def roll_back(loaded: LoadedPipeline) -> Serving:
    """Replace the target's rows by those of the generation that served before, in one commit.

    Its live run resumes where it was stopped at the promotion.

    Returns:
        Which generation serves now, and those that served before.

    Raises:
        StateError: No generation that served before is kept, files of its table are missing, or
            another process is changing which one serves.
        SeamError: Kafka has deleted records since that its live run has not read.
        RunError: A run can't be stopped; or the live run does not start after the commit: it stays
            requested, and the supervision starts it again.
        UnavailableError: A broker or a cluster does not answer.
    """
    finish(loaded)
    serving = read_serving(loaded)
    if not serving.before:
        message = (
            f"No generation of pipeline `{loaded.pipeline.name}` that served before "
            f"{serving.generation} is kept, so there is nothing to roll back to."
        )
        hint = (
            "To replace the rows, begin a new generation with `hybrid generation new`, run it, and "
            "promote it. `generations.keep` sets how many earlier generations are kept."
        )
        raise StateError(message, hint, pipeline=loaded.pipeline.name)
    name = serving.before[-1].generation
    operations.require_not_deleted(PipelineContext.require(_declaration(loaded, name)))
    _begin(loaded, name, serving.generation)
    finish(loaded)
    return read_serving(loaded)


def finish(loaded: LoadedPipeline) -> bool:
    """Finish a promotion or a rollback that was begun; do nothing if there is none.

    The live run is started last. An error of its start leaves the change done and the run
    requested; after any other error, call this again.

    Returns:
        Whether there was a promotion or a rollback to finish.

    Raises:
        StateError: Files of the new generation's table are missing, another process is finishing
            it at this moment, the checkpoint can't follow the declaration, or people stopped the
            new live run during this call.
        InputError: The new generation's table can't replace the target, or a cluster's command
            line tool is not installed.
        SeamError: The new live run has not committed anything yet, and its hand-over no longer
            passes its checks.
        RunError: A run can't be stopped; or the new live run does not start: it stays requested,
            and the supervision starts it again.
        UnavailableError: A broker or a cluster does not answer.
    """
    if pending_switch(loaded) is None:
        return False
    if (lock := take_switch_lock(loaded.state)) is None:
        message = (
            f"Another process is changing which generation of pipeline `{loaded.pipeline.name}` "
            "serves; two must not do so at the same time."
        )
        hint = "Wait until `hybrid generation list` shows the change, then repeat the command."
        raise StateError(message, hint, transient=True, pipeline=loaded.pipeline.name)
    try:
        to = _switch(loaded)
    finally:
        os.close(lock)
    if to is not None:
        last = to.pipeline.sources[-1]
        if last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
            operations.go_live(to, last)
    return True


def _switch(loaded: LoadedPipeline) -> PipelineContext | None:
    """Do all steps of a pending change but the start of the run; return what is to be started."""
    switch = pending_switch(loaded)
    if switch is None:
        # Another process was first.
        return None
    to, past = (
        PipelineContext.require(_declaration(loaded, name)) for name in (switch.to, switch.past)
    )
    _end_runs(to, past)
    target = loaded.locate(loaded.pipeline.sink.path)
    if (past_version := switch.target_version) is None:
        past_version = version_of(target)
        switch = switch.model_copy(update={"target_version": past_version})
        Folder(loaded.state).replace(Switch.NAME, switch)
    _commit(loaded, switch, target)
    serving = read_serving(loaded)
    if serving.generation != switch.to:
        replaced = Served(generation=switch.past, version=past_version, until_ms=now_ms())
        kept = [each for each in serving.before if each.generation not in (switch.to, switch.past)]
        # A generation that was rolled back is the last one to return to.
        older = [replaced, *kept] if switch.is_rollback else [*kept, replaced]
        write_serving(loaded, Serving(generation=switch.to, before=older))
    # The target has links to its files by now.
    shutil.rmtree(own_table(loaded, switch.to), ignore_errors=True)
    _clean(loaded)
    last = to.pipeline.sources[-1]
    if last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
        # From now on the supervision starts it whenever it is down.
        request(to.generation, last.name, is_requested=True)
    Folder(loaded.state).path(Switch.NAME).unlink()
    return to


def _require_ready(context: PipelineContext) -> None:
    """Refuse to promote a generation that has not read its history or whose stream is not healthy.

    Raises:
        StateError: Names what is missing.
    """
    generation = context.generation
    for source in context.pipeline.sources:
        is_bounded = source.boundedness is Boundedness.BOUNDED
        if is_bounded and context.switch_state.end_of(source.name) is None:
            message = (
                f"Generation {generation.name} can't be promoted: it has not read `{source.name}` "
                "to its end."
            )
            hint = f"Run {generation.name} to its end first: `hybrid run`."
            raise StateError(message, hint, generation=generation.name, source=source.name)
        if is_bounded:
            continue
        look = look_at_live(context.loaded, generation)
        verdict: Verdict | None = None if look is None else look.verdict
        if verdict is None or verdict.health != "healthy":
            state = "was never started" if verdict is None else f"is {verdict.health}"
            reason = "" if verdict is None else f" ({verdict.reason})"
            message = (
                f"Generation {generation.name} can't be promoted: its live run {state}{reason}. "
                "Readers would get fewer rows than they have."
            )
            hint = (
                "Start the live run with `hybrid run`, wait until `hybrid status` shows it as "
                "healthy, then run `hybrid generation promote` again."
            )
            raise StateError(message, hint, generation=generation.name, source=source.name)


def _begin(loaded: LoadedPipeline, to: str, past: str) -> None:
    is_rollback = read_serving(loaded).served(to) is not None
    made = Switch(to=to, past=past, at_ms=now_ms(), is_rollback=is_rollback)
    Folder(loaded.state).put_if_absent(Switch.NAME, made)


def _end_runs(to: PipelineContext, past: PipelineContext) -> None:
    """Stop the runs of both; the new one is requested again once its rows are in the target."""
    last = past.pipeline.sources[-1].name
    wanted = read_requested(past.generation)
    if wanted is not None and (wanted.is_requested or wanted.is_paused):
        request(past.generation, last, is_requested=False)
    for context in (to, past):
        for source in context.pipeline.sources:
            process.stop(context.generation, source.name)


def _commit(loaded: LoadedPipeline, switch: Switch, target: str) -> None:
    to, past = (read_generation(loaded.state, name) for name in (switch.to, switch.past))
    fence = dict.fromkeys(_writers(past), NO_MORE)
    served = read_serving(loaded).served(switch.to)
    source = own_table(loaded, switch.to) if served is None else target
    version = None if served is None else served.version
    if transactions_of(target, list(fence)) == fence:
        return
    written = transactions_of(source, _writers(to), version)
    # A driver that was believed dead and wakes up can't commit a batch any more.
    properties = {OWNER: to.info.transaction_id}
    take_over(target, source, version, {**written, **fence}, properties)


def _writers(generation: Generation) -> list[str]:
    """Return a generation's Delta transaction ids: its own for MERGE, its query's for append."""
    found = offset_log.query_id(generation.checkpoint)
    return [generation.info.transaction_id, *([] if found is None else [found])]


def _declaration(loaded: LoadedPipeline, generation: str) -> LoadedPipeline:
    """Return the declaration of a generation: the pipeline's own file if it is the newest one."""
    own = newest(loaded) == generation and loaded.kept is None
    return loaded if own else load_pipeline(kept_file(loaded, generation))


def _clean(loaded: LoadedPipeline) -> None:
    """Remove previously serving generations beyond the number to be kept."""
    serving = read_serving(loaded)
    surplus = len(serving.before) - loaded.pipeline.generations.keep
    # The newest one belongs to the pipeline's own file, even after a rollback.
    gone = [each for each in serving.before if each.generation != newest(loaded)][: max(surplus, 0)]
    if not gone:
        return
    kept = [each for each in serving.before if each not in gone]
    write_serving(loaded, serving.model_copy(update={"before": kept}))
    for each in gone:
        remove(loaded, each.generation)
