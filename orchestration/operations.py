"""Operations on a pipeline's chain: plan it, read a bounded source, start and stop the stream.

Each may be repeated: what was decided is read, what was done is not done again. The steps that put
them in order are in :mod:`orchestration.chain`; the hand-over, which needs no Spark, is in
:mod:`sources.hand_over`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

from orchestration import step_observers
from orchestration.launch_checks import (
    Source,
    require_ready,
    require_ready_to_stream,
    require_runnable,
)
from orchestration.requested_state import (
    RequestedState,
    in_words,
    read_requested,
    request,
    require_requested,
    write_requested,
)
from sources.common.positions import EndPosition
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.rate_limit import RateLimit, put_in_force, rate_of
from sources.errors import HybridError, InputError, RunError
from sources.generations import generations
from sources.hand_over import hand_over
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from sources.planning.exports import ExportRecord, take_export
from sources.planning.plan import Plan, make_plan
from sources.planning.transform_analysis import request_by_declaration
from sources.serving import declared_generation
from sources.state.action_log import recorded
from sources.state.generation import Generation, read_generation
from spark_jobs.launch import run_control
from spark_jobs.launch.questions.table_places import find_places
from spark_jobs.launch.questions.transform_check import TransformCheck
from spark_jobs.launch.runs import find_run
from spark_jobs.launch.unread_generations import drop_unread, find_outdated
from spark_jobs.launch.waiting_driver import WaitingDriver
from spark_jobs.launch.watched_run import OnOutput
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from spark_jobs.run_state.lock import is_held, is_launched
from spark_jobs.table.ownership.belonging import require_belonging


def validate(loaded: LoadedPipeline) -> list[str]:
    """Refuse a declaration that can't run here, without reading data; return warnings.

    If a source declares its columns, the transform is analyzed against them by a short Spark
    process; otherwise the plan does that. Nothing is written.

    Returns:
        Warnings, such as that the transform can't be analyzed on this machine; usually none.

    Raises:
        InputError: Java is missing or too old, a package that the declaration needs is not
            installed, a function of the user can't be imported, a query can't be read, or the
            transform does not fit the declared columns, a stream or the sink.
    """
    require_runnable(loaded)
    if (request := request_by_declaration(loaded)) is None:
        return []
    with TransformCheck(loaded) as check:
        return check.analyze(request).warnings


def export(loaded: LoadedPipeline, source: str, report: Callable[[str], None]) -> ExportRecord:
    """Export a source of an extension's kind to files of the newest generation, before its plan.

    An export that is complete is returned as it is. If no generation exists, it is begun. A plan of
    another declaration by which nothing was read is removed with its exports.

    Args:
        loaded: The pipeline.
        source: Name of the source.
        report: Called with a line for each part that is exported.

    Raises:
        InputError: The pipeline has no exported source of this name, or the export can't be used.
        StateError: The declaration changed in a way that the checkpoint can't follow.
        UnavailableError: The state's store does not answer.
        HybridError: The export failed; repeated, it begins again, or resumes.
    """
    named = loaded.pipeline.exported_source(source)
    if (outdated := find_outdated(loaded)) is not None:
        drop_unread(loaded, outdated)
    generation = loaded.open_generation(create=True)
    assert generation is not None  # it is created
    return take_export(loaded, generation, named, report)


def plan(loaded: LoadedPipeline, waiting: WaitingDriver | None = None) -> Plan:
    """Return the plan of the newest generation (computation of the whole table); make it if absent.

    The plan says which files and offsets are read, in which order, and is kept. One that another
    declaration made, and by which nothing was read, is replaced; its approval is then void.

    A bounded topic that is the chain's first source gets its start and end offsets together with
    the plan. The transform is analyzed against the planned columns unless that was done and nothing
    changed since; the result is kept with the generation
    (:func:`sources.planning.transform_analysis.read_analysis`), and its warnings are in the plan.

    Args:
        loaded: The pipeline.
        waiting: The driver that analyzes the transform and waits for its run, if the plan is to be
            run at once; by default a process that ends with this call.

    Raises:
        InputError: :func:`validate` refuses the declaration, it does not fit the data, or the
            transform does not fit the planned columns, a stream or the sink.
        UnavailableError: A broker, store, database or schema registry does not answer.
        SeamError: Kafka's log no longer reaches back to where history ends, or the offsets of a
            first topic can't be decided.
        StateError: The declaration changed in a way that the checkpoint can't follow, or the state
            can't be written.
    """
    require_runnable(loaded)
    outdated = find_outdated(loaded)
    context = None if outdated is not None else PipelineContext.find(loaded)
    if context is not None:
        # A plan that is missing must not be made again over a checkpoint.
        require_belonging(loaded, context.generation)
    drop = None if outdated is None else partial(drop_unread, loaded, outdated)
    check = TransformCheck(loaded, waiting)
    # A driver that waits for its run outlives the plan.
    with check if waiting is None else nullcontext():
        if context is None or not context.is_planned:
            loaded.state.require_no_obstacle()
            # Spark comes up while files are listed.
            check.start()
            loaded = find_places(loaded, check.process)
        made = make_plan(loaded, drop, check.require)
        context = PipelineContext.require(loaded)
        analysis = check.settle(made, context.generation)
    if (first := planned_topic(loaded)) is not None:
        hand_over(context, first)
    return made.model_copy(update={"warnings": [*made.warnings, *analysis.warnings]})


def planned_topic(loaded: LoadedPipeline) -> KafkaSource | None:
    """Return the chain's first source if it is a bounded topic, whose offsets the plan decides.

    Returns:
        None if the first source reads files, or is unbounded: where its topic starts is then
        decided by a hand-over step after the plan, not by the plan.
    """
    first = loaded.pipeline.sources[0]
    if isinstance(first, KafkaSource) and first.boundedness is Boundedness.BOUNDED:
        return first
    return None


def run_bounded(
    context: PipelineContext,
    source: Source,
    on_beat: run_control.OnBeat = lambda _: None,
    on_output: OnOutput = lambda _: None,
    means: run_control.Means | None = None,
    *,
    rest_requested: bool = False,
) -> EndPosition:
    """Read a bounded source to its end in a Spark run, and return its end position.

    Blocks until the run has ended. A source that was read before is skipped.

    Args:
        context: The pipeline and its state.
        source: The source, whose turn it is: all earlier ones are read.
        on_beat: Called with each new heartbeat of the run.
        on_output: Called with each line that the run prints.
        means: What the Spark driver is given; None for a driver of its own, without more variables.
        rest_requested: The rest of the chain is to run, too. With ``switch: warm`` the driver then
            makes the hand-over and continues with the next source by itself; the steps that follow
            find that done.

    Returns:
        Event time in ms, and offsets where history knows them.

    Raises:
        StateError: It is not the source's turn, its start offsets were not decided, the plan is not
            approved, another generation serves in this one's place, or another run is active.
        SeamError: The hand-over to a topic does not pass its checks; only before the first commit.
        RunError: Spark failed, or ended without an end position. A repeated call resumes after the
            last committed micro-batch.
        UnavailableError: A broker, store or cluster does not answer.
        InputError: A broker or a store refuses.
    """
    state = context.switch_state
    require_belonging(context.loaded, context.generation)
    context.require_turn(source.name)
    if (end := state.end_of(source.name)) is not None:
        return end
    require_ready(context, source)
    names = run_names(context.pipeline)
    is_warm = rest_requested and context.pipeline.switch == "warm"
    to_run = names[names.index(source.name) :] if is_warm else [source.name]
    run_control.run_to_end(context.loaded, context.generation, to_run, on_beat, on_output, means)
    last = context.pipeline.sources[-1]
    has_stream = last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    if rest_requested and has_stream and find_run(context.generation, last.name) is not None:
        # The stream is requested from the switch on, not only once its own step runs.
        request(context.generation, last.name, is_requested=True)
    if (end := state.end_of(source.name)) is None:
        message = (
            f"The Spark run of `{source.name}` ended with exit status 0 but wrote no end position, "
            "so it is unknown whether all of its plan was read."
        )
        hint = (
            "Read its output with `hybrid logs P`, then repeat `hybrid run P`: what is committed "
            "is not read again."
        )
        raise RunError(message, hint, source=source.name, generation=context.generation.name)
    return end


def run_names(pipeline: Pipeline) -> list[str]:
    """Return the names of the sources that have a run of their own, in the order of the chain.

    Sources of several inputs that are read together have one, with the name of the last of them.
    """
    return list(
        dict.fromkeys(pipeline.run_of(each.name) for each in pipeline.hybrid_source().sources)
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
    it. Interrupting the call (Ctrl-C) cancels the request; an error does not.

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
    require_ready_to_stream(context, source)
    generation = context.generation
    before = read_requested(generation)
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


def change_rate(loaded: LoadedPipeline, source: str, limit: RateLimit, by: str = "") -> None:
    """Change a source's rate limit, and enter it in the log of actions.

    An active run adopts it by itself. It overrides the declared limit in the newest generation
    alone.

    Args:
        loaded: The pipeline.
        source: Name of the source.
        limit: Numbers per second. What it leaves out is unlimited from then on, whatever the
            pipeline's file declares.
        by: Who asked for it; empty if unknown.

    Raises:
        InputError: There is no such source, or the limit has no meaning for its kind, such as
            ``offsets`` for files.
        StateError: Nothing was planned yet.
        UnavailableError: The state's store does not answer.
    """
    names = [each.name for each in loaded.pipeline.sources]
    if source not in names:
        message = f"Pipeline `{loaded.pipeline.name}` has no source `{source}`."
        hint = f"Name one of its sources: {', '.join(names)}. No limit was changed."
        raise InputError(message, hint, pipeline=loaded.pipeline.name, source=source)
    declared = loaded.pipeline.source(source)
    declared.check_rate(limit)
    generation = loaded.require_generation()
    name = f"rate of {source}"
    before = {name: rate_of(generation, source, declared.rate).in_words}
    with recorded(loaded.state, "rate", by, generation.name, before) as after:
        put_in_force(generation, source, limit)
        after[name] = limit.in_words


def stop(loaded: LoadedPipeline, by: str = "", action: str = "stop", why: str = "") -> list[str]:
    """End every active Spark run of a generation, and cancel the request for its live run.

    The live run is then neither requested nor paused, so the supervision does not restart it. The
    call waits until the runs have ended. Works even if the checkpoint can't follow the declaration.

    Args:
        loaded: The pipeline, as declared by the file that the generation runs by.
        by: Who asked for it; empty if unknown.
        action: What the log of actions calls it.
        why: Is shown with the stopped live run; empty for nothing.

    Returns:
        Names of the sources whose run was ended; empty if none ran or nothing was planned.

    Raises:
        RunError: A run can't be ended from this machine, or its cluster did not end it; it may
            still be running and writing.
        UnavailableError: The cluster does not answer.
        InputError: The cluster's command line tool is not installed.
        StateError: The state is damaged.
    """
    if (name := declared_generation(loaded)) is None:
        return []
    generation = read_generation(loaded.state, name)
    wanted = read_requested(generation)
    names = [source.name for source in loaded.pipeline.sources]
    is_wanted = wanted is not None and (wanted.is_requested or wanted.is_paused)
    if not (is_wanted or is_launched(generation) or is_held(generation)):
        return [name for name in names if run_control.stop(generation, name)]
    before = {"live run": in_words(wanted)}
    with recorded(loaded.state, action, by, name, before, is_required=False) as after:
        if wanted is not None and is_wanted:
            request(generation, wanted.source, is_requested=False, by=by, why=why)
            after["live run"] = "stopped"
        beat = read_heartbeat(generation, names[-1])
        ended = [name for name in names if run_control.stop(generation, name)]
        if beat is not None and names[-1] in ended:
            step_observers.live_run_ended(loaded, names[-1], beat.launch_id)
        after["ended runs"] = ", ".join(ended) or "none"
    return ended


def others_running(loaded: LoadedPipeline) -> list[str]:
    """Return the names of the generations with an active run, without the given one.

    Asked after a stop, which ends the runs of one generation alone. Empty if no other one runs.

    Args:
        loaded: The pipeline, as declared by the file of the generation to leave out.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    others = (each for each in generations(loaded) if each.name != declared_generation(loaded))
    return [each.name for each in others if is_launched(each) or is_held(each)]


def is_live(loaded: LoadedPipeline) -> bool:
    """Return whether the Spark driver of a pipeline's last source is running; False without a plan.

    Raises:
        StateError: The declaration changed in a way that the checkpoint can't follow.
        UnavailableError: The state's store or a cluster does not answer.
    """
    context = PipelineContext.find(loaded)
    last = loaded.pipeline.sources[-1].name
    return context is not None and run_control.find_running(context.generation, last) is not None
