"""The chain on a terminal: its steps with progress bars on stderr, and the logs of its runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from orchestration import operations
from orchestration.chain import ChainRun, LiveStep, Observer, Outcome, Step, run_chain
from orchestration.supervision import controls
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from spark_jobs.launch.runs import last_lines
from spark_jobs.run_state.heartbeat import Heartbeat, describe


class ProgressBars(Observer):
    """A progress bar for each step.

    Args:
        bars: Where they are drawn.
    """

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def started(self, step: Step[Any]) -> None:
        """Add the step's bar."""
        text = f"{step.name}: starting" if isinstance(step, LiveStep) else step.name
        self._tasks[step.name] = self._bars.add_task(text, total=None)

    def noted(self, step: Step[Any], text: str) -> None:
        """Show the text in place of the step's name."""
        self._bars.update(self._tasks[step.name], description=text)

    def beat(self, step: Step[Any], beat: Heartbeat) -> None:
        """Show how many of the splits are read; a stream has no number of splits to come to."""
        if isinstance(step, LiveStep):
            return
        text = describe(beat) if beat.batch_id is not None else f"{step.name}: {beat.state}"
        done = beat.splits_done or 0
        self._bars.update(
            self._tasks[step.name], description=text, total=beat.splits_total, completed=done
        )

    def waiting(self, step: Step[Any], count: int, unit: str) -> None:
        """Show how far the stream is behind."""
        self.noted(step, f"{step.name}: {count:,} {unit} behind")

    def finished(self, step: Step[Any], outcome: Outcome[Any]) -> None:
        """Fill the step's bar."""
        text = f"{step.name}: live" if isinstance(step, LiveStep) else step.name
        self._bars.update(self._tasks[step.name], description=text, total=1, completed=1)


class Lines(Observer):
    """A line on stderr for whatever a step reports in words."""

    def noted(self, step: Step[Any], text: str) -> None:
        """Print the line."""
        typer.echo(text, err=True)


def run(loaded: LoadedPipeline, *, stop_when_caught_up: bool) -> None:
    """Run all steps of a chain, in order.

    Args:
        loaded: The pipeline.
        stop_when_caught_up: Wait until the stream has committed all that is there, then stop it.

    Raises:
        HybridError: As the step that failed.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        run_chain(
            ChainRun(
                loaded,
                ProgressBars(bars),
                rest_requested=True,
                until_caught_up=stop_when_caught_up,
            )
        )
        if stop_when_caught_up:
            operations.stop(loaded)


def logs(loaded: LoadedPipeline, lines: int) -> tuple[str, str]:
    """Return the source that was launched last, and the last lines that its driver printed.

    Args:
        loaded: The pipeline.
        lines: How many lines at most.

    Raises:
        InputError: Nothing was launched yet.
    """
    generation = loaded.open_generation(create=False)
    found = None if generation is None else last_lines(generation, lines)
    if found is None:
        name = loaded.pipeline.name
        message = f"No run of pipeline `{name}` was launched yet, so there is no log."
        raise InputError(message, "Launch a run with `hybrid run`.", pipeline=name)
    return found


def drain(loaded: LoadedPipeline, within: timedelta) -> None:
    """Drain the live run, and show how much is left.

    Args:
        loaded: The pipeline.
        within: How long to wait.

    Raises:
        HybridError: As :func:`orchestration.supervision.controls.drain`.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    most = 0
    with Progress(*columns, console=Console(stderr=True)) as bars:
        bar = bars.add_task("drain", total=None)

        def show(left: int) -> None:
            nonlocal most
            most = max(most, left)
            text = f"drain: {left:,} left"
            bars.update(bar, description=text, total=most or 1, completed=(most or 1) - left)

        controls.drain(loaded, within, show)
