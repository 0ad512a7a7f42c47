"""Errors of input files that Spark can't read: transient ones, formats that it does not have.

Spark names the file in the condition FAILED_READ_FILE
(https://spark.apache.org/docs/latest/sql-error-conditions.html), below the failure of the task that
writes the target. PySpark keeps conditions of the outermost exception only, so the JVM is asked.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from sources.errors import InputError
from spark_jobs.inside.errors.java_causes import first_line, java_causes, none_without_jvm
from spark_jobs.inside.errors.store_answer import OF_S3

_CONDITION = "FAILED_READ_FILE"
# Packages of errors of a network or of a store, which may pass.
_PASSING = (
    "com.google.cloud.",
    "java.net.",
    "javax.net.",
    "java.io.InterruptedIOException",
    "org.apache.hadoop.fs.azurebfs.",
    "org.apache.hadoop.fs.gs.",
    "org.apache.hadoop.hdfs.",
    "org.apache.hadoop.ipc.",
    "org.apache.hadoop.net.",
    "org.apache.http.",
    *OF_S3,
)

# What Spark's readers raise for encodings, codecs and types that they do not have, and for times
# beyond those of microseconds.
_UNKNOWN = (
    "java.lang.ArithmeticException",
    "java.lang.ClassNotFoundException",
    "java.lang.UnsupportedOperationException",
    "org.apache.spark.SparkUnsupportedOperationException",
    "org.apache.spark.sql.execution.datasources.SchemaColumnConvertNotSupportedException",
)


@none_without_jvm
def unreadable_file(error: BaseException) -> InputError | None:
    """Turn a failed query's exception into an error about the input file that caused it.

    Args:
        error: An exception of PySpark or Py4J.

    Returns:
        The error, with the path as the pipeline declares it as ``file``: decoded, ``s3://`` for
        ``s3a://``, no ``file://``. It is transient if a network or store failed. None if no file
        was the cause, or the JVM is gone.
    """
    causes = list(java_causes(error))
    paths = [path for cause in causes if (path := _path_of(cause)) is not None]
    if not paths:
        return None
    kinds = [cause.getClass().getName() for cause in causes]
    reason = first_line(causes[-1])
    local = paths[-1].removeprefix("file://").removeprefix("file:")
    path = unquote(local.replace("s3a://", "s3://", 1))
    if any(kind.startswith(_PASSING) for kind in kinds):
        hint = "Run the pipeline again (`hybrid run P`) once the store answers."
        message = (
            f"File {path} could not be read: {reason}. No row of this micro-batch was written."
        )
        return InputError(message, hint, transient=True, file=path)
    if any(kind in _UNKNOWN for kind in kinds):
        message = (
            f"File {path} is written in a way that Spark does not read: {reason}. No row of this "
            "micro-batch was written."
        )
        hint = (
            "Write the file again in a way that Spark reads, such as Parquet compressed by snappy "
            "or zstd, with plain or dictionary encoding and times of microseconds, then begin a "
            "new generation, which plans it: `hybrid generation new P`."
        )
        return InputError(message, hint, file=path)
    message = f"File {path} can't be read: {reason}. No row of this micro-batch was written."
    hint = (
        "Restore the file as it was, or let Spark's user read it, and run the pipeline again: "
        "`hybrid run P`. If a file of history is lost for good, remove it and begin a new "
        "generation, whose table lacks its rows: `hybrid generation new P`."
    )
    folder = path.rpartition("/")[0]
    if "/plan-log/" in folder:
        hint = f"Delete {folder}: the next run (`hybrid run P`) writes it again from the plan."
    return InputError(message, hint, file=path)


def _path_of(cause: Any) -> str | None:
    """Return the path that an exception of the condition names."""
    names = {name.getName() for name in cause.getClass().getInterfaces()}
    if "org.apache.spark.SparkThrowable" not in names:
        return None
    condition = str(cause.getCondition() or "")
    if condition.partition(".")[0] != _CONDITION:
        return None
    path = cause.getMessageParameters().get("path")
    return None if path is None else str(path)
