"""Errors as Dagster shows them, and which steps Dagster tries again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from sources.errors import ErrorReport, HybridError

RETRY_POLICY = dg.RetryPolicy(
    max_retries=2, delay=10, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS
)
"""For every step of a pipeline: about 10 s and 30 s between three attempts.

Applied by :func:`failures`, not by the steps' definitions: there Dagster would also try a step
again that a person has cancelled, and so launch Spark again.
"""

WHAT_TO_DO = "What to do"
"""Metadata entry, and start of the last line, of each failure."""


@contextmanager
def failures(*, allow_retries: bool = True) -> Iterator[None]:
    """Turn an error of this project into a failure of the Dagster step, without a stack trace.

    Its description is the error's message, and ends with a line that says what to do.

    A transient error makes Dagster try the step again, as :data:`RETRY_POLICY` says; a terminal
    one fails it at once.

    Used as ``with failures():`` around what a step does.

    Args:
        allow_retries: False where the supervision decides when the step is tried again.

    Raises:
        dg.Failure: With the error's kind, cause, way out and fields as metadata.
        dg.RetryRequested: Caused by that failure, as long as there are attempts left.
    """
    try:
        yield
    except HybridError as error:
        report = error.report()
        tried = _attempts_before() if allow_retries and report.transient else None
        is_last = tried is None or tried >= RETRY_POLICY.max_retries
        failure = dg.Failure(
            description=f"{report.message}\n{WHAT_TO_DO}: {report.hint}",
            metadata=_metadata(report),
            allow_retries=not is_last,
        )
        if tried is None or is_last:
            raise failure from error
        raise dg.RetryRequested(
            RETRY_POLICY.max_retries, RETRY_POLICY.calculate_delay(tried + 1)
        ) from failure


def _attempts_before() -> int | None:
    """Return how often the present step was tried before; None outside a step."""
    try:
        return dg.OpExecutionContext.get().retry_number
    except dg.DagsterInvariantViolationError:
        return None


def _metadata(report: ErrorReport) -> dict[str, Any]:
    return {
        "kind": report.kind,
        "transient": report.transient,
        # A block of code: paths and lines of logs are no Markdown.
        "cause": dg.MetadataValue.md(f"```\n{report.message}\n```"),
        WHAT_TO_DO: report.hint,
        **report.fields,
    }
