"""What to do after a plan: approve it, run it, or look at the run that reads it already."""

from __future__ import annotations

from sources.config.loader import LoadedPipeline
from sources.planning.approval import find_approval
from spark_jobs.run_state.heartbeat import read_heartbeat


def after_plan(loaded: LoadedPipeline) -> str:
    """Return the sentence that names the command to run after a plan was read.

    Args:
        loaded: The pipeline, whose newest generation has a plan.

    Raises:
        InputError: The scheme of ``state`` is not supported, or its store refuses.
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    generation = loaded.require_generation()
    if any(read_heartbeat(generation, each.name) for each in loaded.pipeline.sources):
        return (
            "A run has begun to read it, or has read it: files, offsets and times above are those "
            "of the plan. `hybrid status P` shows how far it is now."
        )
    if loaded.pipeline.approve and find_approval(generation) is None:
        return (
            "Nothing is read before a person approves it: `hybrid approve P`. Then run it: "
            "`hybrid run P`."
        )
    return "Nothing is read yet. To run it: `hybrid run P`."
