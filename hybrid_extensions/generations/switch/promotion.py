"""Promotion: one commit gives readers another generation's rows; a rollback undoes it.

All that can refuse it is asked before its first step. It is recorded before that step
(``switch.json``), each step may be repeated, and no run of the pipeline starts while it is under
way. Whichever process finds it unfinished finishes it; until its commit it can also be aborted.
"""

from __future__ import annotations

from hybrid_extensions.generations.candidate import require_candidate
from hybrid_extensions.generations.switch import refusals
from hybrid_extensions.generations.switch import steps as switch_steps
from hybrid_extensions.generations.switch.group_members import tell_of_others
from hybrid_extensions.generations.switch.group_switch import abort_group, finish_group
from hybrid_extensions.generations.switch.lock import hold_switch_lock
from hybrid_extensions.generations.switch.older_ranges import find_older_ranges
from hybrid_extensions.generations.switch.progress import (
    Say,
    Steps,
    say_nothing,
    told_if_interrupted,
)
from hybrid_extensions.generations.switch.readiness import (
    require_earlier,
    require_input,
    require_not_deleted,
    require_own,
    require_ready,
)
from hybrid_extensions.generations.switch.run import (
    STEPS,
    give_up,
    resume_requested,
    run_steps,
    start,
)
from orchestration.comparison.installed_audit import query_misfit
from sources.common.counting import counted
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import leaving
from sources.planning.approval import require_approver
from sources.serving import Serving, Switch, pending_switch, read_serving
from sources.state.action_log import begin_action
from spark_jobs.table.ownership.belonging import is_committed

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
        SeamError: An interrupted promotion is finished first, and the hand-over of its live run no
            longer passes its checks.
        RunError: A run can't be stopped; or the live run does not start after the commit: it stays
            requested, and the supervision starts it again.
        UnavailableError: A broker or a cluster does not answer.
    """
    by = require_approver(loaded.pipeline, by, "promote a generation")
    with told_if_interrupted(loaded, say):
        _finish(loaded, say)
        with leaving("The promotion was not begun, so it changed nothing."):
            name = require_candidate(
                loaded,
                "Begin a new generation: `hybrid generation new P`. Then run it: `hybrid run P`.",
            )
            switch = _switch_to(loaded, name, by)
            to, _ = switch_steps.contexts(loaded, switch)
            require_own(to)
            require_ready(to)
            if (older := find_older_ranges(to)) is not None:
                # What was corrected may be worth less than the rest: it is for people to decide.
                say(f"Warning: {older.message} {older.hint}")
        if (misfit := query_misfit(to.loaded, name)) is not None:
            # Readers may need the rows all the same: it is for people to decide.
            say(f"Warning: an audit of {name} would be refused. {misfit}")
        _begin(loaded, switch, say)
    return read_serving(loaded)


def roll_back(loaded: LoadedPipeline, *, by: str | None = None, say: Say = say_nothing) -> Serving:
    """Undo a promotion: the rows of the generation that served before return, in one commit.

    An interrupted promotion or rollback is finished first. The live run of the earlier generation
    resumes where it was stopped at the promotion. If it was promoted together with
    others, these stay as they are, and the person is told.

    Args:
        loaded: The pipeline.
        by: Who requests it; kept with the serving generation. None if unknown.
        say: Told each step that is done, with figures; and where it stands if it is interrupted.

    Returns:
        Which generation serves now, and those that served before.

    Raises:
        StateError: No generation that served before is kept, files of its table are missing, it
            follows a table that was replaced since, or another process is changing the table
            (transient).
        InputError: ``approvers`` does not name ``by``; or the target can't be read.
        SeamError: Kafka has deleted records since that its live run has not read.
        RunError: A run can't be stopped; or the live run does not start after the commit: it stays
            requested, and the supervision starts it again.
        UnavailableError: A broker or a cluster does not answer.
    """
    by = require_approver(loaded.pipeline, by, "roll back a generation")
    with told_if_interrupted(loaded, say):
        _finish(loaded, say)
        with leaving("The rollback was not begun, so it changed nothing."):
            switch = _switch_to(loaded, require_earlier(loaded), by)
            to, _ = switch_steps.contexts(loaded, switch)
            require_not_deleted(to)
            require_input(to)
        tell_of_others([loaded], say)
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

    The serving generation stays as it was. Live runs that were requested are started again. Of a
    group all is undone: tables of it that were changed already are changed back, as long as one is
    left. Anyone may call it, without being an approver.

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
    if switch.group is not None:
        abort_group(loaded, switch, by, say)
        return switch
    with hold_switch_lock(loaded, f"abort of the {switch.kind} of {switch.to}") as held:
        steps = Steps(say, _STEPS_OF_ABORT, held.note)
        if (switch := pending_switch(loaded)) is None:
            return None
        if is_committed(loaded, switch):
            raise refusals.too_late(switch)
        steps.begin(f"removing what was brought into the target for {switch.to}")
        switch_steps.release(loaded, switch)
        steps.end(f"nothing of {switch.to} is in the target; what was requested applies again")
        steps.begin(f"giving up the {switch.kind} of {switch.to}")
        give_up(loaded, switch, by)
        for left in loaded.state.names(f".{Switch.NAME}.*"):
            # Of a process that was killed while it wrote the document.
            loaded.state.delete(left)
        steps.end(f"the {switch.kind} of {switch.to} is given up; {switch.past} serves as before")
    steps.begin("starting the live runs that are requested")
    started = resume_requested(loaded, switch)
    runs = " and ".join(started)
    steps.end(f"live runs that are started again: {runs}" if runs else "no live run was requested")
    return switch


def _finish(loaded: LoadedPipeline, say: Say) -> bool:
    """Finish a pending change, as :func:`finish`."""
    if (switch := pending_switch(loaded)) is None:
        return False
    if switch.group is not None:
        finish_group(loaded, switch, say)
        return True
    with hold_switch_lock(loaded, f"{switch.kind} of {switch.to}", switch.by) as held:
        steps = Steps(say, STEPS, held.note)
        to = run_steps(loaded, steps)
    if to is not None:
        start(to, steps)
    return True


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
        steps = Steps(say, STEPS, held.note)
        to = run_steps(loaded, steps)
    if to is not None:
        start(to, steps)
