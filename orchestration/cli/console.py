"""Console output of a chain: progress bars on stderr, lines without a terminal; logs of runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from orchestration.chain import BoundedStep, ChainRun, LiveStep, Observer, Outcome, Step, run_chain
from orchestration.cli.output import person, tell
from orchestration.operations import live_run, stopping
from orchestration.progress.in_words import progress_parts, share_of
from orchestration.supervision import controls
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from spark_jobs.launch.runs import last_lines
from spark_jobs.run_state.heartbeat import Heartbeat, describe

INTERRUPTED_RUN = (
    "Interrupted. What is committed stays: `hybrid run P` goes on from there; `hybrid status P` "
    "says whether something runs."
)


class ProgressBars(Observer):
    """Observer that draws a progress bar on the terminal for each step of a chain.

    Args:
        bars: Rich's display in which they are drawn; it is running.
    """

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def started(self, step: Step[Any]) -> None:
        """Add a bar with the step's name."""
        text = f"{step.name}: starting" if isinstance(step, LiveStep) else step.name
        self._tasks[step.name] = self._bars.add_task(text, total=None)

    def noted(self, step: Step[Any], text: str) -> None:
        """Show the text next to the step's bar, in place of its name."""
        self._bars.update(self._tasks[step.name], description=text)

    def beat(self, step: Step[Any], beat: Heartbeat) -> None:
        """Show how many of a bounded source's splits are read; a stream has no last split."""
        if isinstance(step, LiveStep):
            return
        text = describe(beat) if beat.batch_id is not None else f"{step.name}: {beat.state}"
        done = beat.splits_done or 0
        self._bars.update(
            self._tasks[step.name], description=text, total=beat.splits_total, completed=done
        )

    def waiting(self, step: Step[Any], count: int, unit: str) -> None:
        """Show next to the bar how much input the stream has not committed yet."""
        self.noted(step, f"{step.name}: waits for {count:,} {unit}")

    def finished(self, step: Step[Any], outcome: Outcome[Any]) -> None:
        """Fill the bar of a step that is done."""
        text = f"{step.name}: live" if isinstance(step, LiveStep) else step.name
        self._bars.update(self._tasks[step.name], description=text, total=1, completed=1)


class Lines(Observer):
    """Observer that prints a line on stderr for each text that a step reports, and at its end."""

    def noted(self, step: Step[Any], text: str) -> None:
        """Print the text as a line on stderr."""
        tell(text)

    def finished(self, step: Step[Any], outcome: Outcome[Any]) -> None:
        """Print a line on stderr for a step that is done."""
        self.noted(step, f"{step.name}: {'live' if isinstance(step, LiveStep) else 'done'}")


class Log(Lines):
    """Observer that also prints when a step begins, and how much of a source is read.

    For a log of ``cron`` or of another orchestrator: a terminal has bars.
    """

    def __init__(self) -> None:
        self._quarters = 0

    def started(self, step: Step[Any]) -> None:
        """Print a line on stderr for a step that begins."""
        self._quarters = 0
        self.noted(step, f"{step.name}: begins")

    def beat(self, step: Step[Any], beat: Heartbeat) -> None:
        """Print a line on stderr for each quarter of a bounded source that is read."""
        known = share_of(beat) if isinstance(step, BoundedStep) else None
        quarters = 0 if known is None else known[0] * 4 // known[1]
        if quarters > self._quarters:
            self._quarters = quarters
            self.noted(step, f"{step.name}: {', '.join(progress_parts(beat, None))}")


def run(loaded: LoadedPipeline, *, stop_when_caught_up: bool) -> None:
    """Run all steps of a chain, in order, with progress bars on stderr.

    Interrupted (Ctrl-C), it also cancels its own request for a stream that has ended with it.

    Args:
        loaded: The pipeline.
        stop_when_caught_up: Wait until the stream has committed all input that its topics, or its
            folder, hold, then stop it. Otherwise the stream runs on after this call.

    Raises:
        HybridError: As :func:`orchestration.chain.run_chain`; or the stream can't be stopped.
    """
    try:
        with live_run.own_request(loaded, person(None)), progress(loaded) as observer:
            run_chain(
                ChainRun(loaded, observer, rest_requested=True, until_caught_up=stop_when_caught_up)
            )
            if stop_when_caught_up:
                stopping.stop(loaded)
    except KeyboardInterrupt:
        tell(INTERRUPTED_RUN)
        raise


@contextmanager
def progress(loaded: LoadedPipeline) -> Iterator[Observer]:
    """Yield an observer that draws progress bars on stderr within the ``with`` block.

    Where stderr is no terminal it prints lines in place of bars, and outside the main thread, where
    it is one of several runs, the most important ones.

    Args:
        loaded: The pipeline.

    Yields:
        The observer.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    if threading.current_thread() is not threading.main_thread():
        yield Lines()
        return
    if not sys.stderr.isatty():
        yield Log()
        return
    with Progress(*columns, console=Console(stderr=True)) as bars:
        yield ProgressBars(bars)


def busy(text: str) -> AbstractContextManager[object]:
    """Return a context manager that shows on a terminal, within ``with``, what is being done."""
    return Console(stderr=True).status(text) if sys.stderr.isatty() else nullcontext()


def logs(loaded: LoadedPipeline, lines: int, *, previous: bool = False) -> tuple[str, str]:
    """Return the name of the source that was launched last, and the end of its driver's output.

    Args:
        loaded: The pipeline.
        lines: How many lines of the output at most.
        previous: Return the output of the launch before, such as of a driver that was killed.

    Returns:
        The name; and the lines, empty if this machine has none of them.

    Raises:
        InputError: No run was launched yet; or ``previous`` was asked for, and this machine has no
            log of an earlier launch.
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    generation = loaded.open_generation(create=False)
    found = None if generation is None else last_lines(generation, lines, previous=previous)
    if found is None:
        name = loaded.pipeline.name
        whose = f"generation {generation.name} of pipeline" if generation else "pipeline"
        message = f"No run of {whose} `{name}` was launched yet, so there is no log."
        raise InputError(message, "Launch a run with `hybrid run P`.", pipeline=name)
    if previous and not found[1]:
        message = (
            f"This machine has no log of a run of source `{found[0]}` before the latest run: there "
            "was none, or another machine launched it."
        )
        hint = (
            "For the log of the latest run: `hybrid logs P`. If another machine launched the run "
            "before, repeat this command there."
        )
        raise InputError(message, hint, source=found[0])
    return found


def drain(loaded: LoadedPipeline, within: timedelta, by: str = "") -> None:
    """Drain the live run, and show on stderr how much is left.

    Raises as :func:`orchestration.supervision.controls.drain`.

    Args:
        loaded: The pipeline.
        within: How long to wait. After that the run continues as if it had not been drained.
        by: Who asked for it; empty if unknown.
    """
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    highest = 0
    with Progress(*columns, console=Console(stderr=True)) as bars:
        bar = bars.add_task("drain", total=None)

        def show(left: int) -> None:
            nonlocal highest
            highest = max(highest, left)
            text = f"drain: {left:,} left"
            bars.update(bar, description=text, total=highest or 1, completed=(highest or 1) - left)

        controls.drain(loaded, within, show, by)
