"""Start of the live run, by people or supervision; an interrupt takes its own request back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from orchestration.launch_checks import Source, require_ready_to_stream
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, RunError
from sources.planning.context import PipelineContext
from sources.state.action_log import recorded
from sources.state.generation import Generation
from spark_jobs.launch import run_control
from spark_jobs.launch.waiting_driver import WaitingDriver
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.requested_state import (
    RequestedState,
    in_words,
    read_requested,
    request,
    require_requested,
    write_requested,
)


def go_live(
    context: PipelineContext,
    source: Source,
    on_beat: run_control.OnBeat = lambda _: None,
    by: str = "",
    waiting: WaitingDriver | None = None,
) -> Heartbeat:
    """Start the unbounded run unless it runs; return once its first micro-batch is committed.

    The run is requested by this call, and until people stop or pause it the supervision restarts
    it. Interrupting the call (Ctrl-C) cancels the request; an error does not. A definition by which
    the run fails for good before that is not kept.

    Args:
        context: The pipeline and its state.
        source: The last source of the chain.
        on_beat: Called with each new heartbeat until the first micro-batch is committed.
        by: Who asked for the run; empty if unknown.
        waiting: A Spark driver started in advance that waits for its run; None to start one.

    Returns:
        The first heartbeat of a run that has committed a micro-batch, or that has nothing to read.

    Raises:
        StateError: An earlier source has not finished, the hand-over to a topic was not made, the
            plan is not approved, another generation serves in this one's place, another run is
            active, or people stopped the run during this call.
        SeamError: The hand-over does not pass its checks; only before the first commit.
        RunError: Spark failed before its first micro-batch; the run stays requested.
        UnavailableError: A broker does not answer, or a cluster does not say whether a run is
            active.
        InputError: A broker or a store refuses.
    """
    put_back = require_ready_to_stream(context, source)
    generation = context.generation
    before = read_requested(generation)
    try:
        if before is not None and before.is_requested:
            # Nothing changes, but that what failed before is forgotten.
            with _requested(generation, source.name, before, by):
                return _start(context, source, on_beat, waiting)
        what = "start" if before is None else "resume"
        live = {"live run": in_words(before)}
        with recorded(context.loaded.state, what, by, generation.name, live) as after:
            after["live run"] = "live"
            with _requested(generation, source.name, before, by):
                return _start(context, source, on_beat, waiting)
    except RunError as error:
        if not error.transient:
            # Restarts and a rollback go by the definition that has run.
            put_back()
        raise


@contextmanager
def _requested(
    generation: Generation, source: str, before: RequestedState | None, by: str
) -> Iterator[None]:
    """Request the live run around the body of ``with``; an interrupt restores what was before."""
    request(generation, source, is_requested=True, by=by)
    try:
        yield
    except Exception:
        raise
    except BaseException:
        if before is None:
            request(generation, source, is_requested=False, by=by)
        elif not before.is_requested:
            write_requested(generation, before)
        raise


@contextmanager
def own_request(loaded: LoadedPipeline, by: str) -> Iterator[None]:
    """Cancel, if the body of ``with`` is interrupted, its own request for a live run.

    It is kept if the run was requested before, or runs: a stream that has ended with the command
    that started it would else be dead, not stopped.

    Args:
        loaded: The pipeline.
        by: Who interrupts it; empty if unknown.

    Raises:
        InputError: After an interrupt: the state's store refuses.
        StateError: After an interrupt: the state can't be read or written.
        UnavailableError: After an interrupt: the state's store does not answer.
    """
    before = _find_requested(loaded)
    try:
        yield
    except KeyboardInterrupt:
        after = _find_requested(loaded)
        was_requested = before is not None and before.is_requested
        is_requested = after is not None and after.is_requested
        if after is not None and is_requested and not was_requested and not is_live(loaded):
            why = "the command that started it was interrupted"
            generation = loaded.require_generation()
            request(generation, after.source, is_requested=False, by=by, why=why)
        raise


def _find_requested(loaded: LoadedPipeline) -> RequestedState | None:
    with suppress(HybridError):
        generation = loaded.open_generation(create=False)
        return None if generation is None else read_requested(generation)
    return None


def resume(context: PipelineContext, source: Source) -> Heartbeat:
    """Start the unbounded run again for the supervision, unless people stopped or paused it.

    Unlike :func:`go_live` it does not request the run: what people requested last stays in force.

    Args:
        context: The pipeline and its state.
        source: The last source of the chain.

    Returns:
        The first heartbeat of a run that has committed a batch, or that has nothing to read.

    Raises:
        StateError: The run is not requested, an earlier source has not finished, the hand-over to
            a topic was not made, the plan is not approved, another generation serves in this one's
            place, or another run is active.
        SeamError: The hand-over does not pass its checks; only before the first commit.
        RunError: Spark failed before its first batch.
        UnavailableError: A broker does not answer, or a cluster does not say whether a run is
            active.
        InputError: A broker or a store refuses.
    """
    require_ready_to_stream(context, source)
    require_requested(context.generation)
    return _start(context, source)


def _start(
    context: PipelineContext,
    source: Source,
    on_beat: run_control.OnBeat = lambda _: None,
    waiting: WaitingDriver | None = None,
) -> Heartbeat:
    def while_requested(beat: Heartbeat) -> None:
        # Asked after the launch: a stop that came before it found no run to end.
        require_requested(context.generation)
        on_beat(beat)

    return run_control.start_detached(
        context.loaded, context.generation, source.name, while_requested, waiting
    )


def is_live(loaded: LoadedPipeline) -> bool:
    """Return whether the Spark driver of a pipeline's last source is running; False without a plan.

    Raises:
        InputError: The scheme of ``state`` is not supported, or its store refuses.
        StateError: The declaration changed in a way that the checkpoint can't follow, or the state
            is damaged.
        UnavailableError: The state's store or a cluster does not answer.
    """
    context = PipelineContext.find(loaded)
    last = loaded.pipeline.sources[-1].name
    return context is not None and run_control.find_running(context.generation, last) is not None
