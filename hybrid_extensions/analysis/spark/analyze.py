"""Analysis of a transform while planning, on no rows: its output, what is refused or unknown.

The transform is applied to an empty stream with the planned columns, as each run applies it, and
passes the checks that Spark and the sink make when a query starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import (
    AnalysisException,
    ArithmeticException,
    CapturedException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    UnsupportedOperationException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import TimestampType

from hybrid_extensions.analysis.spark.column_lineage import Inputs, column_lineage
from hybrid_extensions.analysis.spark.window_lengths import NoWindowsError
from hybrid_extensions.analysis.spark.windows import event_windows
from sources.common.schema import parse_schema
from sources.common.sql.sql_names import in_backticks
from sources.config.code.user_functions import CodeLine
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.errors import HybridError, InputError
from sources.planning.transform_analysis import AnalysisRequest, OutputColumn, TransformAnalysis
from sources.storage.folder import Folder
from spark_jobs.inside.checkpoint.kept_event_times import require_no_watermark_on
from spark_jobs.inside.checkpoint.transform_shape import Shape
from spark_jobs.inside.checkpoint.watermark import judge_alignment, watermark_of
from spark_jobs.inside.query.transform.given_rows import Given, frames_of, require_declared_order
from spark_jobs.inside.query.transform.passed_columns import columns_passed_on, same_columns
from spark_jobs.inside.query.transform.result_checks import (
    require_extensible,
    require_fitting,
    require_replayable,
    require_row_by_row,
    require_stream,
)
from spark_jobs.inside.query.transform.user_transform import load_transform
from spark_jobs.inside.readers.empty_stream import empty_stream
from spark_jobs.inside.readers.row_rules import require_evaluable
from spark_jobs.inside.sink.later_columns import table_schema
from spark_jobs.inside.sink.merging.target_columns import target_rows
from spark_jobs.inside.sink.required_columns import require_columns

_HINT = "Correct the transform, then plan again: `hybrid plan P`. Nothing was read or written."
# What a transform itself may do wrong in the JVM; all other errors come from the surroundings.
_OF_TRANSFORM = (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    UnsupportedOperationException,
)
# Error conditions of things that a cluster may have, and the planning machine may not.
_OF_SURROUNDINGS = re.compile(
    r"(TABLE_OR_VIEW|SCHEMA|CATALOG|PATH|DATA_SOURCE)_NOT_FOUND|UNABLE_TO_INFER_SCHEMA|FAILED_READ"
    r"|CATALOG_PLUGIN|DELTA_(TABLE_NOT_FOUND|MISSING_DELTA_TABLE|PATH_DOES_NOT_EXIST)"
    r"|CANNOT_LOAD_(CATALOG|FUNCTION_CLASS)|CLASS_NOT"
)
_ZONE = "spark.sql.session.timeZone"
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_CONDITION = re.compile(r"^\[[\w.]+\]\s*")


def analyze(
    spark: SparkSession, loaded: LoadedPipeline, request: AnalysisRequest, folder: Folder
) -> TransformAnalysis:
    """Apply a pipeline's transform to an empty stream while planning, and describe its output.

    Nothing is read or written.

    Args:
        spark: The Spark session.
        loaded: The pipeline.
        request: The columns, and what else the analysis depends on.
        folder: Empty folder.

    Returns:
        The analysis; with a warning in place of columns if the transform needs what is not here,
        such as a table of the cluster.

    Raises:
        HybridError: The transform fails, returns something else than a stream, does what Spark
            can't do with a stream, or does not fit the sink; names file and line, or the column.
    """
    transform = load_transform(loaded)
    given = _given(spark, request, folder)
    name = loaded.pipeline.transform.name
    if isinstance(given, DataFrame):
        require_evaluable(given, loaded.pipeline.row_rules)
    try:
        rows = transform(given)
        _require_sound(spark, loaded, request, rows, given)
        if isinstance(given, DataFrame):
            require_fitting(loaded.pipeline, rows, given)
        return _described(loaded, request, rows, given)
    except HybridError as error:
        _locate(error, transform.line_of(error))
        raise
    # The transform is the user's code, which may raise anything.
    except Exception as error:
        line = transform.line_of(error)
        if _is_of_surroundings(error):
            where = "" if line is None else f"{line}: "
            warning = (
                f"{where}`transform: {name}` could not be analyzed before the run, because it "
                f"needs what is not available here: {_reason(error)}. An error in it shows only "
                "when Spark runs it."
            )
            return TransformAnalysis(digest=request.digest, columns=None, warning=warning)
        refusal = _refused(name, error)
        _locate(refusal, line)
        raise refusal from error


def _given(spark: SparkSession, request: AnalysisRequest, folder: Folder) -> Given:
    """Return empty streams with the columns that the transform gets."""
    if not request.inputs:
        return empty_stream(spark, folder, parse_schema(request.columns))
    inputs = request.inputs.items()
    return {name: empty_stream(spark, folder, parse_schema(types)) for name, types in inputs}


def _require_sound(
    spark: SparkSession,
    loaded: LoadedPipeline,
    request: AnalysisRequest,
    rows: DataFrame,
    given: Given,
) -> None:
    """Refuse what the start of a query would refuse."""
    pipeline = loaded.pipeline
    require_stream(pipeline.transform.name, rows)
    require_declared_order(pipeline.transform.name, rows, given)
    require_columns(pipeline.sink, rows)
    _require_distinct_partitions(pipeline, rows)
    require_replayable(pipeline, request.replayed, rows)
    require_extensible(pipeline, rows)
    require_row_by_row(pipeline, rows)
    if pipeline.event_time.outside == "keep":
        require_no_watermark_on(pipeline.event_time.column, rows)
    judge_alignment(pipeline, watermark_of(rows, frames_of(given), pipeline.event_time.column))
    _require_table_types(loaded, rows)
    jvm: Any = spark._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    mode = modes.Append() if pipeline.sink.mode == "append" else modes.Update()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    if spark.conf.get("spark.sql.streaming.unsupportedOperationCheck") == "true":
        checker.checkForStreaming(rows._jdf.queryExecution().analyzed(), mode)


def _require_distinct_partitions(pipeline: Pipeline, rows: DataFrame) -> None:
    """Refuse times as partitions where Spark would write those of two hours as one.

    It writes such a value as a clock in the session's time zone shows it, without an offset. In the
    hour that comes twice, at the end of summer time, rows would get times of an hour before.
    """
    zone = pipeline.spark.conf.get(_ZONE, "UTC")
    for name in pipeline.sink.partition_by:
        if zone != "UTC" and rows.schema[name].dataType == TimestampType():
            message = (
                f"`sink.partition_by` names `{name}`, a timestamp, and `spark.conf` sets `{_ZONE}` "
                f"to `{zone}`. Spark writes such partitions as local times, so those of an hour "
                "that comes twice there would all be of its first time."
            )
            hint = (
                f"Remove `{_ZONE}` from `spark.conf`, or partition by a date or a text in place of "
                f"`{name}`; then plan again."
            )
            raise InputError(message, hint, field="sink.partition_by", column=name)


def _require_table_types(loaded: LoadedPipeline, rows: DataFrame) -> None:
    """Refuse columns that a Delta table can't have."""
    seen: set[str] = set()
    for field in target_rows(rows, loaded.pipeline.sink).schema:
        if field.name.lower() in seen:
            message = (
                f"`transform: {loaded.pipeline.transform.name}` returns more than one column "
                f"`{field.name}`; a Delta table has one of each name, whatever its case."
            )
            hint = f"Rename or drop one of the columns `{field.name}`, then plan again."
            raise InputError(message, hint, column=field.name)
        seen.add(field.name.lower())
    for field in target_rows(rows, loaded.pipeline.sink).schema:
        try:
            table_schema(rows.select(in_backticks(field.name)), ())
        # Whatever delta-rs makes of a type that it does not know.
        except Exception as error:
            kind = field.dataType.simpleString()
            message = (
                f"`transform: {loaded.pipeline.transform.name}` returns column `{field.name}` as "
                f"{kind}, a type that a Delta table can't have."
            )
            hint = f"Cast `{field.name}` to a type of Delta in the transform, then plan again."
            raise InputError(message, hint, column=field.name, value=kind) from error


def _described(
    loaded: LoadedPipeline, request: AnalysisRequest, rows: DataFrame, given: Given
) -> TransformAnalysis:
    # Of several inputs, whose columns may have the same names, nothing is followed.
    lineage: list[Inputs] = [None] * len(rows.columns)
    if isinstance(given, DataFrame):
        lineage = column_lineage(rows, given)
    columns = [
        OutputColumn(
            name=field.name,
            type=field.dataType.simpleString(),
            nullable=field.nullable,
            inputs=None if inputs is None else sorted(inputs),
        )
        for field, inputs in zip(rows.schema, lineage, strict=True)
    ]
    event_time = loaded.pipeline.event_time.column
    watermark = watermark_of(rows, frames_of(given), event_time)
    stateful = Shape(rows).stateful
    windows = no_windows = None
    if not isinstance(given, DataFrame):
        no_windows = "the transform has several inputs"
    elif stateful:
        try:
            windows = event_windows(rows, given, event_time)
        except NoWindowsError as error:
            no_windows = str(error)
    return TransformAnalysis(
        digest=request.digest,
        columns=columns,
        passed=columns_passed_on(rows, given),
        same=sorted(same_columns(rows, given)),
        stateful=stateful,
        watermark_ms=None if watermark is None else watermark.delay_ms,
        windows=windows,
        no_windows=no_windows,
    )


def _is_of_surroundings(error: Exception) -> bool:
    """Return whether an error may be none on the machine that runs the transform."""
    if isinstance(error, PySparkException):
        if _OF_SURROUNDINGS.match(error.getCondition() or ""):
            return True
        return isinstance(error, CapturedException) and not isinstance(error, _OF_TRANSFORM)
    return isinstance(error, OSError | Py4JError)


def _refused(name: str, error: Exception) -> InputError:
    """Return the refusal of a transform that failed."""
    condition, parameters = "", {}
    if isinstance(error, PySparkException):
        condition = error.getCondition() or ""
        parameters = error.getMessageParameters() or {}
    if condition.startswith("UNRESOLVED_COLUMN"):
        return _unknown_column(name, parameters)
    what = f"can't be analyzed: {_reason(error)} ({condition})" if condition else ""
    what = what or f"fails: {_reason(error)}"
    return InputError(f"`transform: {name}` {what}.", _HINT, field="transform", value=name)


def _unknown_column(name: str, parameters: Mapping[str, str]) -> InputError:
    column = parameters.get("objectName", "").replace("`", "")
    known = re.findall(r"`([^`]+)`", parameters.get("proposal", ""))
    close = get_close_matches(column.rpartition(".")[2], known, 1)
    advice = "."
    if known:
        listed = ", ".join(f"`{each}`" for each in known)
        advice = f"; did you mean `{close[0]}`?" if close else f"; there are {listed}."
    message = f"`transform: {name}`: column `{column}` does not exist{advice}"
    return InputError(message, _HINT, column=column, field="transform", value=name)


def _reason(error: Exception) -> str:
    """Return the first sentence of an error, without Spark's plan and codes."""
    text = _SQL_STATE.sub("", str(error)).strip()
    lines = [each for each in _CONDITION.sub("", text).splitlines() if each.strip()]
    first = lines[0].strip().rstrip(".;") if lines else ""
    if isinstance(error, PySparkException):
        return first or type(error).__name__
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _locate(error: HybridError, line: CodeLine | None) -> None:
    """Let the message of an error begin with a line of the user's code."""
    if line is not None:
        error.message = f"{line}: {error.message}"
        error.fields["file"], error.fields["line"] = line
