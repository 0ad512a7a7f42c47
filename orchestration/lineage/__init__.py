"""OpenLineage events of a pipeline's steps; needs the extra ``lineage``.

Only what is here is used by the rest of the project. A pipeline without ``lineage`` imports and
sends nothing. An event that can't be delivered is told, and stops no run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from sources.common.optional import needs_extra
from sources.config.loader import LoadedPipeline
from sources.errors import InputError

if TYPE_CHECKING:
    from orchestration.lineage.events import Reporter

Tell = Callable[[str], None]
PROMOTION = "promotion"
"""Name of the job of a promotion or a rollback."""


@contextmanager
def reported(
    loaded: LoadedPipeline, job: str, source: str | None = None, tell: Tell = lambda _: None
) -> Iterator[None]:
    """Report that a job starts, and that it completed or failed, around the body of ``with``.

    Args:
        loaded: The pipeline.
        job: Name of the job within the pipeline, such as ``plan`` or a source's name.
        source: Name of the source that it reads; None for all of them.
        tell: Told that an event could not be delivered.

    Raises:
        InputError: ``lineage`` is declared, and the extra is not installed, or OpenLineage's client
            is not configured.
    """
    reporter = _reporter(loaded, tell)
    with nullcontext() if reporter is None else reporter.run(job, source):
        yield


def live_run_ended(loaded: LoadedPipeline, source: str, launch_id: str) -> None:
    """Report that people ended a live run; not being able to report it is no error.

    Args:
        loaded: The pipeline.
        source: Name of the source that it read.
        launch_id: Identifier of its launch.
    """
    # A client that is not set up refuses the next start.
    with suppress(InputError):
        if (reporter := _reporter(loaded)) is not None:
            reporter.live_run_ended(source, launch_id)


def live_run_started(
    loaded: LoadedPipeline, source: str, launch_id: str, tell: Tell = lambda _: None
) -> None:
    """Report that a live run has committed its first micro-batch.

    Args:
        loaded: The pipeline.
        source: Name of the source that it reads.
        launch_id: Identifier of its launch.
        tell: Told that the event could not be delivered.

    Raises:
        InputError: As :func:`reported`.
    """
    if (reporter := _reporter(loaded, tell)) is not None:
        reporter.live_run_started(source, launch_id)


def _reporter(loaded: LoadedPipeline, tell: Tell = lambda _: None) -> Reporter | None:
    if loaded.pipeline.lineage is None:
        return None
    with needs_extra("lineage", "`lineage`"):
        from orchestration.lineage.events import Reporter  # noqa: PLC0415 - few need it
    return Reporter(loaded, tell)
