"""Observers of a pipeline's steps, which extensions add; one that is not set up stops a step."""

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
    """Observer of one pipeline's steps, added by an extension, such as for lineage.

    :func:`reported` and the functions next to it call it. Failures of the observer's own work, such
    as an unreachable server, must not be raised: they would stop the step.
    """

    def reported(self, step: str, source: str | None, tell: Tell) -> AbstractContextManager[None]:
        """Return a context manager around a step, which sees the error of a failed step.

        Args:
            step: Name of the step within the pipeline, such as ``plan`` or a source's name.
            source: Name of the source that the step reads; None for a step of the whole pipeline.
            tell: Takes a line for people.

        Raises:
            InputError: The observer is not set up; the step is then not begun.
        """

    def live_run_started(self, source: str, launch_id: str, tell: Tell) -> None:
        """Handle the first committed micro-batch of a live run.

        Args:
            source: Name of the source that the run reads.
            launch_id: Identifier of its launch.
            tell: Takes a line for people.

        Raises:
            InputError: The observer is not set up; the run continues.
        """

    def live_run_ended(self, source: str, launch_id: str) -> None:
        """Handle the end of a live run that people ended; not called for one that failed.

        Args:
            source: Name of the source that the run read.
            launch_id: Identifier of its launch.
        """


@contextmanager
def reported(
    loaded: LoadedPipeline, step: str, source: str | None = None, tell: Tell = lambda _: None
) -> Iterator[None]:
    """Notify all observers of a step's beginning and end, around the body of ``with``.

    An error of the body reaches them, and is raised again.

    Args:
        loaded: The pipeline.
        step: Name of the step.
        source: Name of the source that the step reads; None for a step of the whole pipeline.
        tell: Takes a line for people.

    Raises:
        InputError: An observer is not set up; the body is then not run.
    """
    with ExitStack() as stack:
        for each in _observers(loaded):
            stack.enter_context(each.reported(step, source, tell))
        yield


def live_run_started(
    loaded: LoadedPipeline, source: str, launch_id: str, tell: Tell = lambda _: None
) -> None:
    """Notify all observers that a live run has committed its first micro-batch.

    Args:
        loaded: The pipeline.
        source: Name of the source that the run reads.
        launch_id: Identifier of its launch.
        tell: Takes a line for people.

    Raises:
        InputError: An observer is not set up; the run continues.
    """
    for each in _observers(loaded):
        each.live_run_started(source, launch_id, tell)


def live_run_ended(loaded: LoadedPipeline, source: str, launch_id: str) -> None:
    """Notify all observers that people ended a live run.

    Args:
        loaded: The pipeline.
        source: Name of the source that the run read.
        launch_id: Identifier of its launch.

    Raises:
        InputError: An observer is not set up; the run has ended all the same.
    """
    for each in _observers(loaded):
        each.live_run_ended(source, launch_id)


def _observers(loaded: LoadedPipeline) -> list[StepObserver]:
    made = (make(loaded) for make in contributions("steps"))
    return [each for each in made if each is not None]
