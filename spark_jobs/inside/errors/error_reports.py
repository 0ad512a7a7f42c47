"""Error reports of any exception, also through the JVM: what is transient, traces left out.

An error that is raised in a Python worker, in ``foreachBatch`` or by SQL's ``raise_error`` reaches
the driver as an exception of Spark, with nothing of the original but text. So whatever this project
raises there carries its :class:`ErrorReport` as one line of JSON behind a marker, and
:func:`report_of` reads it back. All other errors are known by their class and error condition
(https://spark.apache.org/docs/latest/sql-error-conditions.html), never by their wording.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import (  # type: ignore[import-untyped]
    Py4JJavaError,
    Py4JNetworkError,
)
from pydantic import ValidationError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.errors import ErrorReport, HybridError
from spark_jobs.checkpoint.transform_compatibility import state_refusal
from spark_jobs.inside.arrow_map import Step
from spark_jobs.inside.errors.input_file_errors import unreadable_file
from spark_jobs.inside.errors.java_causes import none_without_jvm
from spark_jobs.inside.errors.lost_records import lost_records
from spark_jobs.inside.errors.out_of_memory import out_of_memory
from spark_jobs.inside.errors.store_answer import store_answer

_MARKER = "HYBRID_ERROR:"
_STREAM_FAILED = "STREAM_FAILED"
_READ_LOG = (
    "Read the whole error with `hybrid logs P` (`--previous` once the run was started again) and "
    "correct what it names, such as memory, disk space or the transform. The run resumes after its "
    "last commit."
)
_JVM_GONE = "The Spark process (JVM) of this run was killed, or ended without a word."
_RESTARTED = (
    "The supervision starts the run again; without it, run `hybrid resume P`. It resumes after "
    "its last commit. If it happens again, look whether the machine ran out of memory (`dmesg`), "
    "and raise `spark.driver_memory`; `hybrid logs P --previous` shows what the run printed."
)
_NOT_ANALYZED = (
    "Correct what the message names, in the transform or in the pipeline's file, then run the "
    "pipeline again: `hybrid run P`."
)


# By the names of these classes Spark recognizes a batch that was interrupted by a stop, after the
# words of the message (StreamExecution.isInterruptionException).
_INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)
_INTERRUPTED = (
    f"py4j.protocol.Py4JJavaError: An error occurred while calling a batch: {_INTERRUPTIONS[0]}"
)


# Frames of Java, and of Python with the line of code below.
_OF_TRACE = re.compile(
    r"\s+at \S+\(.*\)|\s*\.\.\. \d+ more|Traceback \(most recent|  File \"|    +\S"
    r"|Driver stacktrace:"
)
_MOST_LINES = 12


class ReportedError(Exception):
    """Exception that carries an error's report through the JVM as text: a marker and JSON.

    Raised in Spark's workers and callbacks; :func:`report_of` reads it back in the driver.
    """

    def __init__(self, report: ErrorReport) -> None:
        super().__init__(f"{_MARKER}{report.model_dump_json()}")


def reporting(step: Step) -> Step:
    """Wrap a ``mapInArrow`` function so that its errors reach the driver with all fields.

    The result raises :class:`ReportedError` for each error of this project; others pass unchanged.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from step(batches)
        except HybridError as error:
            raise ReportedError(error.report()) from None

    return run


def reporting_batch(function: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """Wrap a ``foreachBatch`` function so that its errors reach the driver with all fields.

    The result raises :class:`ReportedError` for any exception. For a batch that stopping the query
    has interrupted it raises InterruptedError, which Spark does not take for a failure.
    """

    def run(batch: DataFrame, batch_id: int) -> None:
        try:
            function(batch, batch_id)
        except Exception as error:
            told = "".join(traceback.format_exception(error))
            if any(name in told for name in _INTERRUPTIONS):
                raise InterruptedError(_INTERRUPTED) from None
            # Without the original, whose text may be long: when the query is stopped, Spark
            # searches the text by a regular expression that overflows the thread's stack.
            raise ReportedError(report_of(error)) from None

    return run


def raise_reported(
    kind: type[HybridError], message: Column, hint: str, fields: Mapping[str, Column] | None = None
) -> Column:
    """Return a column that fails the query with an error of this project where it is evaluated.

    Use it inside ``F.when``; the driver gets the error back by :func:`report_of`.

    Args:
        kind: The error's type.
        message: What is wrong with the row at hand: a sentence, never null.
        hint: What to do now: a sentence.
        fields: What the error is about, by field of :class:`~sources.errors.ErrorFields`; or None.
    """
    about = [column.alias(name) for name, column in (fields or {}).items()]
    report = F.struct(
        F.lit(kind.kind).alias("kind"),
        message.alias("message"),
        F.lit(hint).alias("hint"),
        F.lit(kind.transient).alias("transient"),
        *([F.struct(*about).alias("fields")] if about else []),
    )
    return F.raise_error(F.concat(F.lit(_MARKER), F.to_json(report)))


def report_of(error: BaseException) -> ErrorReport:
    """Turn any exception of a run into an error report, for messages and for the heartbeat.

    An error of this project is reported as it is, wherever it was raised; a file that can't be read
    with its path; a state that Spark refuses as a changed transform; what a store answered as its
    answer; a topic that is gone, and a lack of memory, as that. Everything else has the kind
    ``spark`` and counts as transient, as nothing is known of it; only a query that Spark cannot
    analyze never runs, however often it is tried.
    """
    if isinstance(error, HybridError):
        return error.report()
    if has_lost_jvm(error):
        return ErrorReport(kind="spark", message=_JVM_GONE, hint=_RESTARTED, transient=True)
    raised, unreadable = error, unreadable_file(error)
    if isinstance(error, Py4JJavaError):
        error = convert_exception(error.java_exception)
    causes = list(_causes(error))
    for cause in causes:
        if (report := _carried(cause)) is not None:
            return report
    if unreadable is not None:
        return unreadable.report()
    for cause in causes:
        if (refusal := state_refusal(_condition(cause), str(cause))) is not None:
            return refusal.report()
    text = _text(causes)
    known = store_answer(raised, text) or lost_records(raised)
    if known is not None:
        return known.report()
    if (lack := out_of_memory(text)) is not None:
        return lack
    is_transient = not any(isinstance(cause, AnalysisException) for cause in causes)
    hint = _READ_LOG if is_transient else _NOT_ANALYZED
    return ErrorReport(kind="spark", message=text, hint=hint, transient=is_transient)


def has_lost_jvm(error: BaseException) -> bool:
    """Return whether Py4J can't reach the JVM any more; other connections refuse, too."""
    if isinstance(error, Py4JNetworkError):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    is_of_py4j = any(Path(frame.filename).parent.name == "py4j" for frame in frames)
    return isinstance(error, ConnectionError) and is_of_py4j


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes in the JVM, outermost first."""
    below: BaseException | None = error
    while below is not None:
        yield below
        below = getattr(below, "_cause", None)


@none_without_jvm
def _condition(error: BaseException) -> str | None:
    """Return Spark's error condition without its sub-condition; None without one."""
    if not isinstance(error, PySparkException):
        return None
    condition = error.getCondition()
    return None if condition is None else condition.partition(".")[0]


@none_without_jvm
def _parameters(error: BaseException) -> Mapping[str, str] | None:
    return error.getMessageParameters() if isinstance(error, PySparkException) else None


def _carried(error: BaseException) -> ErrorReport | None:
    """Return the report that an exception carries; None if it carries none."""
    for text in [*(_parameters(error) or {}).values(), str(error)]:
        _, marker, payload = text.partition(_MARKER)
        if marker and (report := _parsed(payload)) is not None:
            return report
    return None


def _parsed(payload: str) -> ErrorReport | None:
    try:
        document: Any
        document, _ = json.JSONDecoder().raw_decode(payload)
        return ErrorReport.model_validate(document)
    except (json.JSONDecodeError, ValidationError):
        return None


def _text(causes: list[BaseException]) -> str:
    """Return a failed query's message without its plans, followed by the innermost cause."""
    outer, inner = causes[0], causes[-1]
    text = str(outer)
    if _condition(outer) == _STREAM_FAILED:
        text = (_parameters(outer) or {}).get("message", text)
    text = text.strip() or type(outer).__name__
    # Spark reports that a task failed while it wrote, without the reason.
    whole = text if str(inner) in text or inner is outer else f"{text}\n{inner}"
    return without_traces(whole)


def without_traces(text: str) -> str:
    """Return an error's text without stack traces, cut to its first and last 6 lines.

    A line `…` stands for those between. A text that is nothing but a trace is
    returned as it is. The driver's log has all of it.
    """
    lines = [line.rstrip() for line in text.splitlines()]
    kept = [line for line in lines if line and not _OF_TRACE.match(line)]
    if len(kept) > _MOST_LINES:
        half = _MOST_LINES // 2
        kept = [*kept[:half], "…", *kept[-half:]]
    return "\n".join(kept) or text
