"""Who is told that steps of a pipeline begin and end: observers that extensions add."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from sources.config.loader import LoadedPipeline
from sources.extensions import contributions

Tell = Callable[[str], None]
PROMOTION = "promotion"
"""Name of the step of a promotion or a rollback."""


class StepObserver(Protocol):
    """Is told of the steps of one pipeline. What can't be told on stops no run."""

    def reported(self, step: str, source: str | None, tell: Tell) -> AbstractContextManager[None]:
        """Return a context around a step; it is left by an error where the step fails.

        Args:
            step: Name of the step within the pipeline, such as ``plan`` or a source's name.
            source: Name of the source that it reads; None for all of them.
            tell: Takes a line for people.

        Raises:
            InputError: The observer is not set up; nothing was done yet.
        """

    def live_run_started(self, source: str, launch_id: str, tell: Tell) -> None:
        """Take note that a live run has committed its first micro-batch.

        Args:
            source: Name of the source that it reads.
            launch_id: Identifier of its launch.
            tell: Takes a line for people.

        Raises:
            InputError: The observer is not set up.
        """

    def live_run_ended(self, source: str, launch_id: str) -> None:
        """Take note that people ended a live run.

        Args:
            source: Name of the source that it read.
            launch_id: Identifier of its launch.
        """


@contextmanager
def reported(
    loaded: LoadedPipeline, step: str, source: str | None = None, tell: Tell = lambda _: None
) -> Iterator[None]:
    """Tell all observers of a pipeline that a step begins and ends, around the body of ``with``.

    Args:
        loaded: The pipeline.
        step: Name of the step.
        source: Name of the source that it reads; None for all of them.
        tell: Takes a line for people.

    Raises:
        InputError: An observer is not set up.
    """
    with ExitStack() as stack:
        for each in _observers(loaded):
            stack.enter_context(each.reported(step, source, tell))
        yield


def live_run_started(
    loaded: LoadedPipeline, source: str, launch_id: str, tell: Tell = lambda _: None
) -> None:
    """Tell all observers that a live run has committed its first micro-batch.

    Args:
        loaded: The pipeline.
        source: Name of the source that it reads.
        launch_id: Identifier of its launch.
        tell: Takes a line for people.
    """
    for each in _observers(loaded):
        each.live_run_started(source, launch_id, tell)


def live_run_ended(loaded: LoadedPipeline, source: str, launch_id: str) -> None:
    """Tell all observers that people ended a live run."""
    for each in _observers(loaded):
        each.live_run_ended(source, launch_id)


def _observers(loaded: LoadedPipeline) -> list[StepObserver]:
    made = (make(loaded) for make in contributions("steps"))
    return [each for each in made if each is not None]
