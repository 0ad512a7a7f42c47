"""Errors as Dagster shows them, and whether Dagster tries the step again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from sources.errors import ErrorReport, HybridError

RETRY_POLICY = dg.RetryPolicy(
    max_retries=2, delay=10, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS
)
"""For every asset and op of a pipeline: about 10 s and 20 s between three attempts. A terminal
failure is not tried again, see :func:`failures`."""


@contextmanager
def failures(*, allow_retries: bool = True) -> Iterator[None]:
    """Turn an error of this project into a failure of the Dagster step, without a stack trace.

    Args:
        allow_retries: Whether a transient error may be tried again by Dagster; False where the
            supervision decides about that.

    Raises:
        dg.Failure: With the error's kind, cause, hint and fields as metadata. It allows retries
            if the error is transient.
    """
    try:
        yield
    except HybridError as error:
        report = error.report()
        raise dg.Failure(
            description=str(report),
            metadata=_metadata(report),
            allow_retries=allow_retries and report.transient,
        ) from error


def _metadata(report: ErrorReport) -> dict[str, Any]:
    hint = {"hint": report.hint} if report.hint else {}
    return {
        "kind": report.kind,
        "transient": report.transient,
        # A block of code: paths and lines of logs are no Markdown.
        "cause": dg.MetadataValue.md(f"```\n{report.message}\n```"),
        **hint,
        **report.fields,
    }
