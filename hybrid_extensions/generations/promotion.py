"""Promotion: one commit gives readers another generation's rows; a rollback undoes it.

All that can refuse it is asked before its first step. It is recorded before that step
(``switch.json``), each step may be repeated, and no run of the pipeline starts while it is under
way. Whichever process finds it unfinished finishes it; until its commit it can also be aborted.
"""

from __future__ import annotations

from contextlib import nullcontext

from hybrid_extensions.generations import switch_steps
from hybrid_extensions.generations.switch_lock import hold_switch_lock
from hybrid_extensions.generations.switch_progress import (
    Say,
    Steps,
    say_nothing,
    told_if_interrupted,
)
from orchestration import operations, step_observers
from orchestration.comparison.installed_audit import query_misfit
from orchestration.launch_checks import require_not_deleted
from orchestration.requested_state import read_requested, request
from orchestration.supervision.live_look import look_at_live
from orchestration.supervision.rules.verdict import Verdict
from sources.common.counting import counted
from sources.common.positions import now_ms
from sources.config.loader import LoadedPipeline
from sources.config.supervision import Supervision
from sources.errors import HybridError, StateError
from sources.generations import take_back_discard
from sources.hybrid import Boundedness
from sources.planning.approval import require_approver
from sources.planning.context import PipelineContext
from sources.planning.files.open_snapshot import require_whole
from sources.serving import Serving, Switch, pending_switch, read_serving, require_candidate
from sources.state.action_log import begin_action, end_action
from spark_jobs.launch.readable_state import require_readable
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from spark_jobs.table.ownership.belonging import is_committed, require_belonging

_STEPS = 5
_STEPS_OF_ABORT = 3


def promote(loaded: LoadedPipeline, *, by: str | None = None, say: Say = say_nothing) -> Serving:
    """Promote the newest generation: replace the target's rows by its own, in one commit.

    The runs of the previous generation are stopped before, and the live run of the new one is
    started after the commit. An interrupted promotion is finished by :func:`finish`.

    Args:
        loaded: The pipeline.
        by: Who requests it; kept with the serving generation. None if unknown.
        say: Told each step that is done, with figures; and where it stands if it is interrupted.

    Returns:
        Which generation serves now, and those that served before.

    Raises:
        StateError: There is no generation that waits, it is not ready (its history is not read to
            its end, or its live run is missing or not healthy), files of its table are missing, or
            another process is changing the table (transient).
        InputError: ``approvers`` does not name ``by``; or its table can't replace the target, such
            as for other partition columns.
        RunError: A run can't be stopped; or the live run does not start after the commit: it stays
            requested, and the supervision starts it again.
        UnavailableError: A broker or a cluster does not answer.
    """
    by = require_approver(loaded.pipeline, by, "promote a generation")
    with told_if_interrupted(loaded, say):
        _finish(loaded, say)
        name = require_candidate(
            loaded,
            "Begin a new generation: `hybrid generation new P`. Then run it: `hybrid run P`.",
        )
        switch = _switch_to(loaded, name, by)
        to, _ = switch_steps.contexts(loaded, switch)
        _require_ready(to)
        if (misfit := query_misfit(to.loaded, name)) is not None:
            # Readers may need the rows all the same: it is for people to decide.
            say(f"Warning: an audit of {name} would be refused. {misfit}")
        _begin(loaded, switch, say)
    return read_serving(loaded)


def roll_back(loaded: LoadedPipeline, *, by: str | None = None, say: Say = say_nothing) -> Serving:
    """Undo a promotion: the rows of the generation that served before return, in one commit.

    Its live run resumes where it was stopped at the promotion.

    Args:
        loaded: The pipeline.
        by: Who requests it; kept with the serving generation. None if unknown.
        say: Told each step that is done, with figures; and where it stands if it is interrupted.

    Returns:
        Which generation serves now, and those that served before.

    Raises:
        StateError: No generation that served before is kept, files of its table are missing, or
            another process is changing the table (transient).
        InputError: ``approvers`` does not name ``by``; or the target can't be read.
        SeamError: Kafka has deleted records since that its live run has not read.
        RunError: A run can't be stopped; or the live run does not start after the commit: it stays
            requested, and the supervision starts it again.
        UnavailableError: A broker or a cluster does not answer.
    """
    by = require_approver(loaded.pipeline, by, "roll back a generation")
    with told_if_interrupted(loaded, say):
        _finish(loaded, say)
        serving = read_serving(loaded)
        if not serving.before:
            message = (
                f"Pipeline `{loaded.pipeline.name}` has no earlier generation that is kept, so "
                "there is nothing to roll back to."
            )
            hint = (
                "To replace the rows, begin a new generation with `hybrid generation new P`, run "
                "it, and promote it. `generations.keep` sets how many earlier generations are kept."
            )
            raise StateError(message, hint, pipeline=loaded.pipeline.name)
        switch = _switch_to(loaded, serving.before[-1].generation, by)
        to, _ = switch_steps.contexts(loaded, switch)
        require_not_deleted(to)
        _begin(loaded, switch, say)
    return read_serving(loaded)


def finish(loaded: LoadedPipeline, *, say: Say = say_nothing) -> bool:
    """Finish an interrupted promotion or rollback; return whether there was one.

    Called by commands, and by the supervision. The live run is started last. An error of its start
    leaves the change done and the run requested; after any other error, call this again.
    ``approvers`` are not asked again: one of them began it.

    Args:
        loaded: The pipeline.
        say: Told each step that is done, with figures; and how far the change is if it is
            interrupted.

    Returns:
        Whether there was a promotion or a rollback to finish.

    Raises:
        StateError: Files of the new generation's table are missing, another process is finishing it
            at this moment, the checkpoint can't follow the declaration, or people stopped the new
            live run during this call.
        InputError: The new generation's table can't replace the target, or a cluster's command line
            tool is not installed.
        SeamError: The new live run has not committed anything yet, and its hand-over no longer
            passes its checks.
        RunError: A run can't be stopped; or the new live run does not start: it stays requested,
            and the supervision starts it again.
        UnavailableError: A broker or a cluster does not answer.
    """
    with told_if_interrupted(loaded, say):
        return _finish(loaded, say)


def abort(
    loaded: LoadedPipeline, *, by: str | None = None, say: Say = say_nothing
) -> Switch | None:
    """Undo a promotion or rollback that is not committed; None if there is none.

    The serving generation stays as it was. Live runs that were requested are started again. Anyone
    may call it: what readers see stays as it is.

    Args:
        loaded: The pipeline.
        by: Who asked for it; None if unknown.
        say: Told each step that is done; and where it stands if it is interrupted.

    Returns:
        What was aborted; None if no promotion or rollback was under way.

    Raises:
        StateError: It is committed, so that readers see its rows; or another process is completing
            it at this moment.
        InputError: The target can't be read.
        HybridError: The promotion is aborted, but a live run does not start: it stays requested,
            and the supervision starts it again.
    """
    with told_if_interrupted(loaded, say):
        return _abort(loaded, by, say)


def _abort(loaded: LoadedPipeline, by: str | None, say: Say) -> Switch | None:
    if (switch := pending_switch(loaded)) is None:
        return None
    with hold_switch_lock(loaded, f"abort of the {switch.kind} of {switch.to}") as held:
        steps = Steps(say, _STEPS_OF_ABORT, held.note)
        if (switch := pending_switch(loaded)) is None:
            return None
        if is_committed(loaded, switch):
            raise switch_steps.too_late(switch)
        steps.begin(f"removing what was brought into the target for {switch.to}")
        switch_steps.release(loaded, switch)
        steps.end(f"nothing of {switch.to} is in the target; what was requested applies again")
        steps.begin(f"giving up the {switch.kind} of {switch.to}")
        _give_up(loaded, switch, by)
        for left in loaded.state.names(f".{Switch.NAME}.*"):
            # Of a process that was killed while it wrote the document.
            loaded.state.delete(left)
        steps.end(f"the {switch.kind} of {switch.to} is given up; {switch.past} serves as before")
    steps.begin("starting the live runs that are requested")
    started, failure = [], None
    for context in switch_steps.contexts(loaded, switch):
        last = context.pipeline.sources[-1]
        wanted = read_requested(context.generation)
        if wanted is not None and wanted.is_requested:
            try:
                operations.resume(context, last)
                started.append(context.generation.name)
            except HybridError as error:
                failure = failure or error
    if failure is not None:
        raise failure
    runs = " and ".join(started)
    steps.end(f"live runs that are started again: {runs}" if runs else "no live run was requested")
    return switch


def _give_up(loaded: LoadedPipeline, switch: Switch, by: str | None) -> None:
    loaded.state.delete(Switch.NAME)
    if switch.action is not None:
        # Not before: until then it could still be finished.
        after = {"serving": switch.past, **({"given up by": by} if by else {})}
        end_action(loaded.state, switch.action, "given up", after)


def _finish(loaded: LoadedPipeline, say: Say) -> bool:
    """Finish a pending change, as :func:`finish`."""
    if (switch := pending_switch(loaded)) is None:
        return False
    with hold_switch_lock(loaded, f"{switch.kind} of {switch.to}", switch.by) as held:
        steps = Steps(say, _STEPS, held.note)
        to = _run_steps(loaded, steps)
    if to is not None:
        _start(to, steps)
    return True


def _start(to: PipelineContext, steps: Steps) -> None:
    """Start the live run of the generation that serves now; the lock is free again by then."""
    last, name = to.pipeline.sources[-1], to.generation.name
    steps.begin(f"starting the live run of {name}")
    if last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
        operations.go_live(to, last)
        steps.end(f"the live run of {name} has committed its first micro-batch")
    else:
        steps.end(f"{name} has no live run to start")


def _run_steps(loaded: LoadedPipeline, steps: Steps) -> PipelineContext | None:
    """Do all steps of a pending change but the start of the run; return what is to be started."""
    switch = pending_switch(loaded)
    if switch is None:
        # Another process was first.
        return None
    is_done = is_committed(loaded, switch)
    if not is_done and not take_back_discard(loaded, switch.to):
        switch_steps.release(loaded, switch)
        _give_up(loaded, switch, None)
        raise switch_steps.discarded(switch)
    reported = step_observers.reported(loaded, step_observers.PROMOTION, tell=steps.say)
    with nullcontext() if is_done else switch_steps.naming_the_abort(switch), reported:
        to, past = switch_steps.contexts(loaded, switch)
        require_readable(to)
        steps.begin(f"stopping the runs of {switch.past} and {switch.to}")
        ended = switch_steps.end_runs(to, past)
        steps.end(_stopped(ended, switch))
        steps.begin(f"listing the files of {switch.to} in the table's log, in one commit")
        committed = switch_steps.commit(loaded, switch)
        steps.end(committed.in_words())
        switch = committed.switch
    steps.begin(f"recording that {switch.to} serves")
    switch_steps.record(loaded, switch)
    steps.end(f"{switch.to} is recorded as serving")
    last = to.pipeline.sources[-1]
    if last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
        # From now on the supervision starts it whenever it is down.
        request(to.generation, last.name, is_requested=True)
    if switch.action is not None:
        end_action(loaded.state, switch.action, "done", {"serving": switch.to})
    loaded.state.delete(Switch.NAME)
    # Last, as the steps above need the past generation, which may be among those to be removed.
    steps.begin("removing what no rollback needs")
    removed, deleted = switch_steps.clean(loaded)
    before = read_serving(loaded).before
    kept = [f"{each.generation} (version {each.version:,})" for each in before]
    steps.end(
        f"removed, as no rollback needs them: generations: {', '.join(removed) or 'none'}; "
        f"{counted(deleted, 'file')}; kept for a rollback: {', '.join(kept) or 'none'}"
    )
    return to


def _stopped(ended: list[str], switch: Switch) -> str:
    if not ended:
        return f"no run of {switch.past} or {switch.to} was active"
    runs = "run" if len(ended) == 1 else "runs"
    return f"the {runs} of {' and '.join(ended)} {'is' if len(ended) == 1 else 'are'} stopped"


def _require_ready(context: PipelineContext) -> None:
    """Refuse to promote a generation with history unread or a stream that is not healthy."""
    generation = context.generation
    require_belonging(context.loaded, generation)
    require_whole(context, "promoted")
    for source in context.pipeline.sources:
        is_bounded = source.boundedness is Boundedness.BOUNDED
        if is_bounded and context.switch_state.end_of(source.name) is None:
            message = (
                f"Generation {generation.name} can't be promoted: it has not read `{source.name}` "
                "to its end. Nothing was changed."
            )
            hint = f"Run {generation.name} to its end first: `hybrid run P`."
            raise StateError(message, hint, generation=generation.name, source=source.name)
        if is_bounded:
            continue
        look = look_at_live(context.loaded, generation)
        verdict: Verdict | None = None if look is None else look.verdict
        beat = read_heartbeat(generation, context.pipeline.run_of(source.name))
        if not is_ready(verdict, beat, context.pipeline.supervision):
            state = "was never started" if verdict is None else f"is {verdict.health}"
            reason = "" if verdict is None else f" ({verdict.reason})"
            message = (
                f"Generation {generation.name} can't be promoted: its live run {state}{reason}. "
                "Readers would get a table that is behind its input. Nothing was changed."
            )
            hint = (
                "Start the live run with `hybrid run P`, wait until `hybrid status P` shows it as "
                "healthy, then run `hybrid generation promote P` again. One that was stopped may "
                "be promoted while it can catch up with what waits within "
                "`supervision.caught_up_within`."
            )
            raise StateError(message, hint, generation=generation.name, source=source.name)


def is_ready(verdict: Verdict | None, beat: Heartbeat | None, expected: Supervision) -> bool:
    """Return whether a promotion to a live run would keep readers up to date. A pure function.

    True if the run is healthy; or if people stopped it, as ``hybrid run --until caught-up`` does,
    and at its last rate it reads what waits within ``caught_up_within``.

    Args:
        verdict: The verdict on the live run; None if it was never requested.
        beat: The run's last heartbeat, with its rate; None if there is none.
        expected: The thresholds that the pipeline declares.
    """
    if verdict is None or verdict.health == "healthy":
        return verdict is not None
    lag = verdict.numbers.get("lag")
    if verdict.health != "stopped" or beat is None or lag is None:
        return False
    rate = beat.rows_per_s or 0.0
    return lag <= rate * expected.caught_up_within.total_seconds()


def _switch_to(loaded: LoadedPipeline, to: str, by: str | None) -> Switch:
    """Return the switch to a generation, which is not begun yet."""
    serving = read_serving(loaded)
    is_rollback = serving.served(to) is not None
    return Switch(to=to, past=serving.generation, at_ms=now_ms(), is_rollback=is_rollback, by=by)


def _begin(loaded: LoadedPipeline, switch: Switch, say: Say) -> None:
    """Check a switch, record it, and run its steps; nothing is changed if it can't be done."""
    # Before it is recorded: what another process does to the table must not end in the middle.
    with hold_switch_lock(loaded, f"{switch.kind} of {switch.to}", switch.by) as held:
        ready = switch_steps.check(loaded, switch)
        files = counted(len(ready.other.files), "file")
        say(f"checked: {switch.to} can replace {switch.past} and lacks none of its {files}")
        # The process that completes the switch ends it; after a crash that may be another one.
        before = {"serving": switch.past}
        action = begin_action(loaded.state, switch.kind, switch.by, switch.to, before)
        loaded.state.put_if_absent(Switch.NAME, switch.model_copy(update={"action": action}))
        steps = Steps(say, _STEPS, held.note)
        to = _run_steps(loaded, steps)
    if to is not None:
        _start(to, steps)
