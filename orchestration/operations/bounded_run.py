"""Run of a bounded source: skipped once it was read; not retried if people have stopped it."""

from __future__ import annotations

from orchestration.launch_checks import Source, require_ready
from sources.common.positions import EndPosition
from sources.config.pipeline import Pipeline
from sources.errors import RunError
from sources.planning.context import PipelineContext
from sources.state.action_log import read_actions
from spark_jobs.launch import run_control
from spark_jobs.launch.launch_record import last_launch
from spark_jobs.launch.watched_run import OnOutput
from spark_jobs.table.ownership.belonging import require_belonging

_ACTIONS = 5  # others may have acted since, such as changed a rate


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
        RunError: Spark failed, ended without an end position, or was stopped by people, which is
            not transient. A repeated call resumes after the last committed micro-batch.
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
    try:
        run_control.run_to_end(
            context.loaded, context.generation, to_run, on_beat, on_output, means
        )
    except RunError as error:
        raise _stopped_by_people(context, source.name) or error from None
    if (end := state.end_of(source.name)) is None:
        message = (
            f"The Spark run of `{source.name}` ended without a failure but wrote no end position, "
            "so it is unknown whether all of its plan was read."
        )
        hint = (
            "Read its output with `hybrid logs P`, then repeat `hybrid run P`: what is committed "
            "is not read again."
        )
        raise RunError(message, hint, source=source.name, generation=context.generation.name)
    return end


def _stopped_by_people(context: PipelineContext, source: str) -> RunError | None:
    """Return the error that people ended the last launch, by the log of actions; else None."""
    generation, launch = context.generation, last_launch(context.generation)
    for action in reversed(read_actions(context.loaded.state, last=_ACTIONS)):
        is_own = (action.action, action.generation) == ("stop", generation.name)
        if is_own and launch is not None and action.at_ms >= launch.at_ms:
            by = f" by {action.by}" if action.by else ""
            message = f"The run of `{source}` was stopped{by} before all of its plan was read."
            hint = "What is committed is not read again; to go on, run `hybrid run P`."
            return RunError(message, hint, transient=False, source=source)
    return None


def run_names(pipeline: Pipeline) -> list[str]:
    """Return the names of the sources that have a run of their own, in the order of the chain.

    Sources of several inputs that are read together have one, with the name of the last of them.
    """
    return list(
        dict.fromkeys(pipeline.run_of(each.name) for each in pipeline.hybrid_source().sources)
    )
