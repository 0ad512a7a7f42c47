"""The run that reads a bounded source to its end position."""

from __future__ import annotations

from orchestration.launch_checks import (
    Source,
    require_ready,
)
from orchestration.requested_state import request
from sources.common.positions import EndPosition
from sources.config.pipeline import Pipeline
from sources.errors import RunError
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from spark_jobs.launch import run_control
from spark_jobs.launch.runs import find_run
from spark_jobs.launch.watched_run import OnOutput
from spark_jobs.table.ownership.belonging import require_belonging


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
