"""Errors in Dagster: told without a stack trace; transient ones are retried twice (10 s, 30 s)."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg

from orchestration.defs.show.dagster_remedies import in_dagster
from orchestration.defs.show.markdown import code_block
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import ErrorReport, HybridError, InputError, leaving

# What Dagster shows of an error as it is told, without a stack: `Failure` alone always has one.
try:
    from dagster._core.errors import DagsterUserCodeProcessError
    from dagster_shared.error import SerializableErrorInfo
except ImportError as error:
    message = f"Dagster {dg.__version__} does not show failures as 1.13 does: {error}."
    raise InputError(message, "Install `dagster>=1.13,<1.14`, as this project asks for.") from error

RETRY_POLICY = dg.RetryPolicy(
    max_retries=2, delay=10, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS
)
"""For every step of a pipeline: about 10 s and 30 s between three attempts.

Applied by :func:`failures`, not by the steps' definitions: there Dagster would also try a step
again that a person has cancelled, and so launch Spark again.
"""

WHAT_TO_DO = "What to do"
"""Metadata entry, and start of the last line, of each failure."""


class ToldFailure(DagsterUserCodeProcessError, dg.Failure):  # noqa: N818
    """Failure of a step that Dagster shows without a stack trace.

    Args:
        description: What is wrong, and what to do.
        metadata: Metadata of the failure, such as the kind of error, by name.
        allow_retries: Whether a retry policy of the step applies.
    """

    def __init__(
        self, description: str, metadata: dict[str, Any], *, allow_retries: bool = True
    ) -> None:
        told = SerializableErrorInfo(message=f"{description}\n", stack=[], cls_name="Failure")
        super().__init__(  # type: ignore[no-untyped-call]
            description, metadata, allow_retries, user_code_process_error_infos=[told]
        )


class ToldRetry(DagsterUserCodeProcessError, dg.RetryRequested):  # noqa: N818
    """Request to retry a step, which Dagster shows without a stack trace.

    Args:
        failure: The failure of this attempt.
        seconds_to_wait: Seconds until the next attempt.
    """

    def __init__(self, failure: ToldFailure, seconds_to_wait: float) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            RETRY_POLICY.max_retries,
            seconds_to_wait,
            user_code_process_error_infos=failure.user_code_process_error_infos,
        )


@leaving("Nothing was changed.")
def load_again(path: Path) -> LoadedPipeline:
    """Return the pipeline of a file as a step begins with it, which is read each time.

    Args:
        path: The YAML file.

    Raises:
        InputError: The file can't be read or is invalid.
        StateError: The file is the copy of a generation, and the note of its origin is damaged.
    """
    return load_pipeline(path)


@contextmanager
def failures(loaded: LoadedPipeline | None, *, allow_retries: bool = True) -> Iterator[None]:
    """Turn an error of this project into a Dagster failure without a stack trace.

    Its description is the error's message, and ends with a line that says what to do, by the
    pipeline's jobs and assets. The stack trace goes to stderr, which the run's page keeps apart.

    A transient error makes Dagster try the step again, as :data:`RETRY_POLICY` says; a terminal
    one fails it at once.

    Used as ``with failures(loaded):`` around all that a step does.

    Args:
        loaded: The pipeline, as the definitions have it; None for a step of several pipelines,
            whose errors name the commands.
        allow_retries: False where the supervision decides when the step is tried again.

    Raises:
        dg.Failure: With the error's kind, cause, way out and fields as metadata.
        dg.RetryRequested: Caused by that failure, as long as there are attempts left.
    """
    try:
        yield
    except HybridError as error:
        told = error.report()
        if loaded is not None:
            texts = {
                "message": in_dagster(told.message, loaded),
                "hint": in_dagster(told.hint, loaded),
            }
            told = told.model_copy(update=texts)
        tried = _attempts_before() if allow_retries and told.transient else None
        is_last = tried is None or tried >= RETRY_POLICY.max_retries
        traceback.print_exc()
        what = told.model_copy(update={"hint": ""})
        failure = ToldFailure(
            f"{what}\n{WHAT_TO_DO}: {told.hint}", _metadata(told), allow_retries=not is_last
        )
        if tried is None or is_last:
            raise failure from None
        raise ToldRetry(failure, RETRY_POLICY.calculate_delay(tried + 1)) from failure


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
        "cause": dg.MetadataValue.md(code_block(report.message)),
        WHAT_TO_DO: report.hint,
        **report.fields,
    }
