"""Run of a promotion or rollback that is recorded: its steps in order, each of which may repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TypeVar

from hybrid_extensions.generations.discards import take_back_discard
from hybrid_extensions.generations.switch import refusals, surplus
from hybrid_extensions.generations.switch import steps as switch_steps
from hybrid_extensions.generations.switch.progress import Steps
from orchestration import step_observers
from orchestration.operations import live_run
from orchestration.supervision.rules.verdict import RED
from orchestration.supervision.watch_memory import read_watch, write_watch
from orchestration.supervision.webhook import Alert, alert
from sources.common.counting import counted
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, StateError
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from sources.serving import Switch, pending_switch, read_serving
from sources.state.action_log import end_action
from sources.state.generation import is_there
from spark_jobs.launch.readable_state import require_readable
from spark_jobs.run_state.requested_state import read_requested, request
from spark_jobs.table.ownership.belonging import is_committed

T = TypeVar("T")

STEPS = 5
"""Number of the steps of a promotion or rollback."""


def give_up(loaded: LoadedPipeline, switch: Switch, by: str | None) -> None:
    """Remove the record of a switch whose steps are undone; it is logged as given up.

    Args:
        loaded: The pipeline.
        switch: The switch, which is not committed.
        by: Who asked for it; None if unknown.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    loaded.state.delete(Switch.NAME)
    if switch.action is not None:
        # Not before: until then it could still be finished.
        after = {"serving": switch.past, **({"given up by": by} if by else {})}
        end_action(loaded.state, switch.action, "given up", after)


def resume_requested(loaded: LoadedPipeline, switch: Switch) -> list[str]:
    """Start the live runs that are requested after a switch was given up; return their generations.

    Empty if none is requested.

    Raises:
        HybridError: One does not start; the others are started by then, and it stays requested.
    """
    started: list[str] = []

    def resume(context: PipelineContext) -> None:
        wanted = read_requested(context.generation)
        if wanted is not None and wanted.is_requested:
            live_run.resume(context, context.pipeline.sources[-1])
            started.append(context.generation.name)

    # One that was discarded is why the switch is given up.
    there = [each for each in (switch.to, switch.past) if is_there(loaded.state, each)]
    do_all([switch_steps.context_of(loaded, each) for each in there], resume)
    return started


def do_all(items: Iterable[T], do: Callable[[T], object]) -> None:
    """Call a function with each item, also after one has failed; then raise the first error.

    Args:
        items: The items, in order.
        do: The function.

    Raises:
        HybridError: The first that the function has raised; any other error ends the loop.
    """
    failure: HybridError | None = None
    for item in items:
        try:
            do(item)
        except HybridError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def start(to: PipelineContext, steps: Steps) -> None:
    """Start the live run of the generation that serves now, unless all of its sources have an end.

    Returns once its first micro-batch is committed. Call it when the lock is free again.

    Args:
        to: The generation that serves now.
        steps: Told that the live run has started, or that there is none.

    Raises:
        InputError, StateError, SeamError, RunError, UnavailableError: As
            :func:`orchestration.operations.live_run.go_live`.
    """
    last, name = to.pipeline.sources[-1], to.generation.name
    steps.begin(f"starting the live run of {name}")
    if last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
        live_run.go_live(to, last)
        steps.end(f"the live run of {name} has committed its first micro-batch")
    else:
        steps.end(f"{name} has no live run to start")


def run_steps(loaded: LoadedPipeline, steps: Steps) -> PipelineContext | None:
    """Do all steps of a pending change but the start of the run; return what is to be started.

    Args:
        loaded: The pipeline.
        steps: Is told each step.

    Returns:
        The generation that serves now; None if another process was first.

    Raises:
        StateError: As of :func:`hybrid_extensions.generations.switch.promotion.finish`.
        RunError, InputError, UnavailableError: The same.
    """
    switch = pending_switch(loaded)
    if switch is None:
        # Another process was first.
        return None
    is_done = is_committed(loaded, switch)
    if not is_done and (refusal := overtaken(loaded, switch)) is not None:
        switch_steps.release(loaded, switch)
        give_up(loaded, switch, None)
        raise refusal
    with nullcontext() if is_done else refusals.naming_the_abort(switch):
        switch = commit_steps(loaded, switch, steps)
    return record_steps(loaded, switch, steps)


def overtaken(loaded: LoadedPipeline, switch: Switch) -> StateError | None:
    """Return the error of a switch that another process has made impossible; None if it can go on.

    Others serve another generation since it was begun, or discard the one that it is to serve. A
    discard that is not complete is taken back.

    Args:
        loaded: The pipeline.
        switch: The switch, which is recorded and not committed.

    Raises:
        StateError: The state is damaged, or can't be written.
        UnavailableError: The state's store does not answer.
    """
    if switch_steps.is_outdated(loaded, switch):
        return refusals.outdated(switch)
    return None if take_back_discard(loaded, switch.to) else refusals.discarded(switch)


def commit_steps(loaded: LoadedPipeline, switch: Switch, steps: Steps) -> Switch:
    """Do the steps of a change up to its commit; return it with the version that it replaced.

    Raises:
        StateError, RunError, InputError, UnavailableError: As of :func:`run_steps`.
    """
    with step_observers.reported(loaded, step_observers.PROMOTION, tell=steps.say):
        to, past = switch_steps.contexts(loaded, switch)
        require_readable(to)
        steps.begin(f"stopping the runs of {switch.past} and {switch.to}")
        ended = switch_steps.end_runs(to, past)
        steps.end(_stopped(ended, switch))
        steps.begin(f"listing the files of {switch.to} in the table's log, in one commit")
        done = switch_steps.commit(loaded, switch)
        steps.end(done.in_words())
    return done.switch


def record_steps(
    loaded: LoadedPipeline, switch: Switch, steps: Steps, together: Sequence[str] = ()
) -> PipelineContext:
    """Do the steps of a change after its commit; return the generation whose run is to be started.

    Args:
        loaded: The pipeline.
        switch: The change, with the version that it replaced.
        steps: Is told each step.
        together: Files of the pipelines that are changed together with this one.

    Raises:
        StateError, InputError, UnavailableError: As of :func:`run_steps`.
    """
    to, past = switch_steps.contexts(loaded, switch)
    steps.begin(f"recording that {switch.to} serves")
    switch_steps.record(loaded, switch, together)
    steps.end(f"{switch.to} is recorded as serving")
    last = to.pipeline.sources[-1]
    if last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
        # From now on the supervision starts it whenever it is down.
        request(to.generation, last.name, is_requested=True)
    if switch.action is not None:
        end_action(loaded.state, switch.action, "done", {"serving": switch.to})
    _alert_of_end(past, switch, steps)
    # It may be another one by now, which is not to be removed.
    switch_steps.require_pending(loaded, switch)
    loaded.state.delete(Switch.NAME)
    # Last, as the steps above need the past generation, which may be among those to be removed.
    steps.begin("removing what no rollback needs")
    removed, deleted = surplus.clean(loaded)
    before = read_serving(loaded).before
    kept = [f"{each.generation} (version {each.version:,})" for each in before]
    gone = ""
    if removed or deleted:
        names = f"generations: {', '.join(removed) or 'none'}"
        gone = f"removed, as no rollback needs them: {names}; {counted(deleted, 'file')}; "
    steps.end(f"{gone}kept for a rollback: {', '.join(kept) or 'none'}")
    return to


def _stopped(ended: list[str], switch: Switch) -> str:
    if not ended:
        return f"no run of {switch.past} or {switch.to} was active"
    runs = "run" if len(ended) == 1 else "runs"
    return f"the {runs} of {' and '.join(ended)} {'is' if len(ended) == 1 else 'are'} stopped"


def _alert_of_end(past: PipelineContext, switch: Switch, steps: Steps) -> None:
    """Post that a live run which the webhook knows to be red is stopped, as its generation is past.

    The supervision does not look at it any more, so nobody else would.
    """
    requested = read_requested(past.generation)
    if requested is None:
        return
    watch = read_watch(past.generation, requested.at_ms)
    if watch.alerted not in RED:
        return
    reason = f"{switch.to} serves in place of {switch.past}, whose live run was {watch.alerted}."
    text = f"The live run is stopped. {reason}"
    problem = alert(past.loaded, Alert(text, "stopped", watch.alerted, reason, now_ms()))
    if problem is None:
        write_watch(past.generation, watch.model_copy(update={"alerted": "stopped"}))
    else:
        steps.say(f"The alert did not reach `supervision.webhook_url`: {problem}.")
