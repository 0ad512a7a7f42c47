"""Kills of drivers where a demo wants them: in a micro-batch, or after one."""

from __future__ import annotations

import time
from collections.abc import Callable

from examples.demo import console
from orchestration.operations import live_run
from sources.config.loader import LoadedPipeline
from sources.errors import RunError
from sources.state.generation import Generation
from spark_jobs.checkpoint import offset_log
from spark_jobs.launch.launch_record import last_launch
from spark_jobs.launch.places.local import kill_group

_POLL_S = 0.05
_TIMEOUT_S = 600.0


def is_in_a_batch(generation: Generation) -> bool:
    """Return whether a micro-batch is planned and not committed."""
    checkpoint = generation.checkpoint
    return offset_log.last_planned(checkpoint) != offset_log.last_committed(checkpoint)


def committed(loaded: LoadedPipeline) -> int:
    """Return the last micro-batch whose commit is in the checkpoint, -1 if there is none."""
    generation = loaded.open_generation(create=False)
    batch = None if generation is None else offset_log.last_committed(generation.checkpoint)
    return -1 if batch is None else batch


def kill_driver(loaded: LoadedPipeline, is_time: Callable[[Generation], bool]) -> None:
    """Kill a pipeline's driver and its JVM with SIGKILL once a condition holds.

    Args:
        loaded: The pipeline.
        is_time: The condition, asked again and again while a driver is launched.

    Raises:
        RunError: It does not hold in time.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        generation = loaded.open_generation(create=False)
        launch = None if generation is None else last_launch(generation)
        if generation and launch and launch.group and is_time(generation):
            kill_group(launch.group)
            console.print(f"          killed: driver of {loaded.pipeline.name}, {launch.source}")
            while live_run.is_live(loaded):
                time.sleep(_POLL_S)
            return
        time.sleep(_POLL_S)
    message = f"Nothing was killed: {loaded.pipeline.name} was not ready within {_TIMEOUT_S:.0f} s."
    raise RunError(message, "Look at the logs in the demo's folder.")
