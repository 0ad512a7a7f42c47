"""End of all runs of a generation and of the request for its live run; others that still run."""

from __future__ import annotations

from orchestration import step_observers
from sources.config.loader import LoadedPipeline
from sources.generations import generations
from sources.serving import declared_generation
from sources.state.action_log import recorded
from sources.state.generation import read_generation
from spark_jobs.launch import run_control
from spark_jobs.run_state.driver_lock import is_held, is_launched
from spark_jobs.run_state.heartbeat import read_heartbeat
from spark_jobs.run_state.requested_state import (
    RequestedState,
    in_words,
    read_requested,
    request,
)


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

        def cancel(wanted: RequestedState | None) -> None:
            if wanted is not None and (wanted.is_requested or wanted.is_paused):
                request(generation, wanted.source, is_requested=False, by=by, why=why)
                after["live run"] = "stopped"

        cancel(wanted)
        beat = read_heartbeat(generation, names[-1])
        ended = [name for name in names if run_control.stop(generation, name)]
        # A driver that switched to the live run meanwhile has requested it.
        cancel(read_requested(generation))
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
