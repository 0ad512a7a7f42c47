"""Answers of an S3 store that made Spark fail: refused for good, transient, or none in time.

Hadoop's client of S3 wraps what the AWS SDK raises, and Spark wraps that once more. Status and code
are asked of the SDK's exception, wherever it is; only the operation is known from a text.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from sources.errors import HybridError, InputError, StateError, UnavailableError
from spark_jobs.inside.errors.java_causes import class_names, java_causes, none_without_jvm

OF_S3 = ("org.apache.hadoop.fs.s3a.", "software.amazon.")
"""Packages of the errors of Hadoop's client of S3."""
_ANSWER = "software.amazon.awssdk.awscore.exception.AwsServiceException"
_SILENCE = "software.amazon.awssdk.core.exception.SdkClientException"
_OF_SDK = "software.amazon.awssdk."
_UNKNOWN = "a request"
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
_NOT_LET_IN = {"AccessDenied", "AllAccessDisabled", "InvalidAccessKeyId", "SignatureDoesNotMatch"}
_CONFLICTS = {409, 412}
_RESUMES = (
    "The run resumes after its last commit: the supervision starts it again; without it, run the "
    "pipeline again (`hybrid run P`)."
)

_ENDED = "The table keeps what was committed; the run ended and is not started again by itself."
_THEN_RUN = "Then run the pipeline again, which resumes after its last commit: `hybrid run P`."


def is_of_store(error: BaseException) -> bool:
    """Return whether Hadoop's S3 client caused an exception of PySpark or Py4J.

    False if the JVM is gone.
    """
    try:
        kinds = [cause.getClass().getName() for cause in java_causes(error)]
    except Py4JError:
        return False
    return any(kind.startswith(OF_S3) for kind in kinds)


@none_without_jvm
def store_answer(error: BaseException, told: str) -> HybridError | None:
    """Turn a failure of Spark into the error of the S3 store that refused or did not answer.

    Args:
        error: An exception of PySpark or Py4J.
        told: Spark's words for it, which the message ends with.

    Returns:
        An error that names the status and code of the answer, and the operation and its key as far
        as they are known. It is transient unless the store refuses for good: the login, the bucket,
        or a feature that it lacks. None if no store was the cause, or the JVM is gone.
    """
    causes = list(java_causes(error))
    asked = _operation(causes)
    answer = next((each for each in reversed(causes) if _ANSWER in class_names(each)), None)
    if answer is not None:
        message = _answer(answer, asked)
        status, code = int(answer.statusCode()), _code(answer)
    elif asked is not None or any(_SILENCE in class_names(each) for each in causes):
        message, status, code = _silence(causes[-1], asked), 0, None
    else:
        return None
    lines = [line for line in told.splitlines() if _OF_SDK not in line and line not in message]
    return _with_way_out("\n".join([message, *lines]), status, code)


def _with_way_out(message: str, status: int, code: str | None) -> HybridError:
    if status == 0:
        hint = (
            "Check that the store runs and can be reached from where Spark runs (`s3.endpoint`). "
        )
        return UnavailableError(message, hint + _RESUMES)
    refused = None
    if code in _NOT_LET_IN:
        refused = (
            "Correct the credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
            "AWS_PROFILE), or grant them permission to list, read, write and delete in that bucket."
        )
    if code == "NoSuchBucket":
        refused = "Correct the bucket in the path, or `s3.endpoint`; or create the bucket."
    if status == 501:
        refused = "Use a store that has this feature of Amazon S3, or a version of it that does."
    if refused is not None:
        return InputError(message, f"{_ENDED} {refused} {_THEN_RUN}")
    if status in _CONFLICTS:
        hint = (
            "Something else wrote there first: stop it, if it is a second driver of this pipeline "
            "(`hybrid status P`). "
        )
        return StateError(message, hint + _RESUMES, transient=True)
    if status == 404:
        hint = "Restore what is missing there, if somebody or a rule of the bucket has deleted it. "
        return StateError(message, hint + _RESUMES, transient=True)
    hint = (
        "Look up the request in the log of the store, and of a proxy before it if there is one, "
        "and correct what it names, such as its load or a quota. `hybrid logs P` shows the whole "
        "error. "
    )
    return UnavailableError(message, hint + _RESUMES)


def _answer(answer: Any, asked: str | None) -> str:
    parts = [each for each in (_code(answer), _request(answer)) if each is not None]
    told = f" ({', '.join(parts)})" if parts else ""
    return f"The store answered {asked or _UNKNOWN} with status {answer.statusCode()}{told}."


def _silence(innermost: Any, asked: str | None) -> str:
    why = str(innermost.getMessage() or innermost.getClass().getName()).partition("\n")[0]
    return f"The store did not answer {asked or _UNKNOWN}: {why.rstrip('.')}."


def _code(answer: Any) -> str | None:
    details = answer.awsErrorDetails()
    code = None if details is None else details.errorCode()
    return str(code) if code else None


def _request(answer: Any) -> str | None:
    number = answer.requestId()
    return f"request {number}" if number else None


def _operation(causes: list[Any]) -> str | None:
    """Return what was asked for, such as ``PUT 0-byte object on checkpoint/offsets``.

    Hadoop's client writes it before the SDK's exception. None if the SDK was called elsewhere, as
    where state is uploaded, or no store was asked.
    """
    for cause in reversed(causes):
        before, found, _ = str(cause.getMessage()).partition(f": {_OF_SDK}")
        if found:
            # Where access is denied, the path stands before it, too; and Spark's words may.
            return f"`{' '.join(before.rpartition(': ')[2].split())}`"
    return None
