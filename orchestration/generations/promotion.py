"""Promotion: readers get another generation's rows, in one commit, and can get the old ones back.

All that can refuse it is asked before its first step. It is recorded before that step
(``switch.json``), each step may be repeated, and no run of the pipeline starts while it is under
way. Whichever process finds it unfinished finishes it; until its commit it can also be aborted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from orchestration import operations
from orchestration.generations import switch_steps
from orchestration.requested_state import read_requested, request
from orchestration.supervision.look import look_at_live
from orchestration.supervision.verdict import Verdict
from sources.common.positions import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, StateError
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from sources.serving import Serving, Switch, pending_switch, read_serving, require_waiting
from spark_jobs.run_state.lock import take_switch_lock
from spark_jobs.target.belonging import is_committed, require_belonging


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
    switch = _switch_to(loaded, name)
    to, _ = switch_steps.contexts(loaded, switch)
    _require_ready(to)
    _begin(loaded, switch)
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
    switch = _switch_to(loaded, serving.before[-1].generation)
    to, _ = switch_steps.contexts(loaded, switch)
    operations.require_not_deleted(to)
    _begin(loaded, switch)
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
    with alone(loaded):
        to = _run_steps(loaded)
    if to is not None:
        last = to.pipeline.sources[-1]
        if last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
            operations.go_live(to, last)
    return True


def abort(loaded: LoadedPipeline) -> Switch | None:
    """Return to the state before a promotion or rollback that was begun and is not committed.

    The serving generation stays as it was. Live runs that were requested are started again.

    Returns:
        What was aborted; None if no promotion or rollback was under way.

    Raises:
        StateError: It is committed, so that readers see its rows; or another process is completing
            it at this moment.
        InputError: The target can't be read.
        HybridError: The promotion is aborted, but a live run does not start: it stays requested,
            and the supervision starts it again.
    """
    if pending_switch(loaded) is None:
        return None
    with alone(loaded):
        if (switch := pending_switch(loaded)) is None:
            return None
        if is_committed(loaded, switch):
            raise switch_steps.too_late(switch)
        switch_steps.release(loaded, switch)
        loaded.state.delete(Switch.NAME)
        for left in loaded.state.names(f".{Switch.NAME}.*"):
            # Of a process that was killed while it wrote the document.
            loaded.state.delete(left)
    failure: HybridError | None = None
    for context in switch_steps.contexts(loaded, switch):
        last = context.pipeline.sources[-1]
        wanted = read_requested(context.generation)
        if wanted is not None and wanted.is_requested:
            try:
                operations.resume(context, last)
            except HybridError as error:
                failure = failure or error
    if failure is not None:
        raise failure
    return switch


@contextmanager
def alone(loaded: LoadedPipeline) -> Iterator[None]:
    """Hold the lock for changing which generation serves, while the body of ``with`` runs.

    Raises:
        StateError: Another process holds it.
    """
    if (lock := take_switch_lock(loaded.state)) is None:
        message = (
            f"Another process is changing which generation of pipeline `{loaded.pipeline.name}` "
            "serves; two must not do so at the same time."
        )
        hint = "Wait until `hybrid generation list` shows the change, then repeat the command."
        raise StateError(message, hint, transient=True, pipeline=loaded.pipeline.name)
    try:
        yield
    finally:
        lock.release()


def _run_steps(loaded: LoadedPipeline) -> PipelineContext | None:
    """Do all steps of a pending change but the start of the run; return what is to be started."""
    switch = pending_switch(loaded)
    if switch is None:
        # Another process was first.
        return None
    is_done = is_committed(loaded, switch)
    with nullcontext() if is_done else switch_steps.naming_the_abort(switch):
        to, past = switch_steps.contexts(loaded, switch)
        switch_steps.end_runs(to, past)
        switch = switch_steps.commit(loaded, switch)
    switch_steps.record(loaded, switch)
    last = to.pipeline.sources[-1]
    if last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
        # From now on the supervision starts it whenever it is down.
        request(to.generation, last.name, is_requested=True)
    loaded.state.delete(Switch.NAME)
    # Last, as the steps above need the past generation, which may be among those to be removed.
    switch_steps.clean(loaded)
    return to


def _require_ready(context: PipelineContext) -> None:
    """Refuse to promote a generation that has not read its history or whose stream is not healthy.

    Raises:
        StateError: Names what is missing.
    """
    generation = context.generation
    require_belonging(context.loaded, generation)
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


def _switch_to(loaded: LoadedPipeline, to: str) -> Switch:
    """Return the switch to a generation, which is not begun yet."""
    serving = read_serving(loaded)
    is_rollback = serving.served(to) is not None
    return Switch(to=to, past=serving.generation, at_ms=now_ms(), is_rollback=is_rollback)


def _begin(loaded: LoadedPipeline, switch: Switch) -> None:
    """Check a switch, record it, and run its steps; nothing is changed if it can't be done."""
    switch_steps.check(loaded, switch)
    loaded.state.put_if_absent(Switch.NAME, switch)
    finish(loaded)
