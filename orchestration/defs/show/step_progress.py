"""How often a running step tells its progress in the log of its Dagster run, and in which words."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import dagster as dg

from orchestration.chain import BoundedStep, LiveStep, Observer, Step
from orchestration.defs.keys import role_of, step_key
from orchestration.progress.forecast import eta_s
from orchestration.progress.in_words import STARTING, awaited, progress_parts, share_of
from sources.common.durations import duration
from sources.config.loader import LoadedPipeline
from sources.hybrid import SwitchState
from sources.state.generation import Generation
from spark_jobs.launch import run_control
from spark_jobs.launch.launch_record import log_path
from spark_jobs.launch.runs import find_run
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.progress_log import read_progress_log

_FIRST_S = 3.0
_SHORTEST_S = 3.0
_USUAL_S = 15.0
_OF_ELAPSED = 1 / 20


class StepProgress(Observer):
    """Observer that shows the progress of a step in the log of its Dagster run.

    While a source is read, there is a line for each tenth of it and at least one every 15 s, later
    more rarely: a run of hours must not fill Dagster's event log. Until something is read, a line
    says what the step waits for, and for how long it has.

    Args:
        context: The asset's run.
        loaded: The pipeline.
        clock: Returns seconds since a fixed moment; to be replaced in tests.
    """

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        loaded: LoadedPipeline,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._loaded = loaded
        self._clock = clock
        self._began = clock()
        self._since: float | None = None
        self._last: tuple[float, int] | None = None
        self._is_linked = False

    def started(self, step: Step[Any]) -> None:
        """Log that Spark starts, unless the source was read before or is being read.

        Raises:
            InputError: The scheme of ``state`` is not supported, or its store refuses.
            StateError: The state is damaged, or the declaration changed in a way that the
                checkpoint can't follow.
            UnavailableError: The state's store does not answer.
        """
        self._began, self._since, self._last = self._clock(), None, None
        if not isinstance(step, BoundedStep | LiveStep):
            return
        generation = self._loaded.open_generation(create=False)
        if generation is None:
            return
        if _is_there(generation, step.name):
            if isinstance(step, LiveStep):
                self._context.log.info(f"`{step.name}`: Spark is up; its first batch follows.")
            return
        done = SwitchState(self._loaded.pipeline.hybrid_source(), generation).end_of(step.name)
        if done is None:
            self._context.log.info(f"`{step.name}`: {STARTING}.")

    def noted(self, step: Step[Any], text: str) -> None:
        """Write the text to the Dagster run's log."""
        self._context.log.info(text)

    def printed(self, step: Step[Any], line: str) -> None:
        """Print the line to stderr, which Dagster captures as the output of the run."""
        print(line, file=sys.stderr, flush=True)  # noqa: T201

    def beat(self, step: Step[Any], beat: Heartbeat) -> None:
        """Log a link to Spark's UI once it exists, and the progress from time to time.

        Raises:
            InputError: The scheme of ``state`` is not supported, or its store refuses.
            StateError: The state is damaged, or the declaration changed in a way that the
                checkpoint can't follow.
            UnavailableError: The state's store does not answer.
        """
        generation = self._loaded.require_generation()
        if beat.ui_url is not None and not self._is_linked:
            self._is_linked = True
            self._link(step, beat.ui_url, generation)
        # What a live run reads has no end, and its step ends with the first micro-batch.
        known = None if isinstance(step, LiveStep) else share_of(beat)
        if known is None and beat.advanced_at_ms is not None:
            return
        done, total, _ = known or (0, 1, "")
        now, tenth = self._clock(), done * 10 // total
        self._since = now if self._since is None else self._since
        if not self._is_due(now, tenth, self._since):
            return
        self._last = (now, tenth)
        if done:
            left_s = eta_s(read_progress_log(generation, step.name))
            told = ", ".join(progress_parts(beat, left_s))
        else:
            told = f"{awaited(beat.state)}; {duration(now - self._began)} so far"
        self._context.log.info(f"`{step.name}`: {told}.")

    def _is_due(self, now: float, tenth: int, since: float) -> bool:
        if self._last is None:
            return now - since >= _FIRST_S
        then, before = self._last
        usual = max(_USUAL_S, (now - since) * _OF_ELAPSED)
        return now - then >= (_SHORTEST_S if tenth > before else usual)

    def _link(self, step: Step[Any], url: str, generation: Generation) -> None:
        observed = dg.AssetObservation(
            step_key(self._loaded, step.name),
            description=f"Spark is up for `{step.name}`.",
            metadata={
                "generation": role_of(self._loaded, generation.name),
                "Spark UI": dg.MetadataValue.url(url),
                "log": dg.MetadataValue.path(str(log_path(generation, step.name))),
            },
        )
        self._context.log_event(observed)


def _is_there(generation: Generation, source: str) -> bool:
    """Return whether a run of a source is up or coming up."""
    running = run_control.find_running(generation, source)
    return running is not None or find_run(generation, source) is not None
