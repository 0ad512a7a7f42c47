"""A store that refuses a query's requests is told as one: nobody looks for memory or a disk."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.errors import ErrorReport
from spark_jobs.inside.errors.error_reports import report_of
from tests.services.s3_server import client, s3_server, tell
from tests.services.s3_session import session_on_s3

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
BUCKET = "answers"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as running:
        client(running).create_bucket(Bucket=BUCKET)
        yield running


@pytest.fixture
def session(spark: SparkSession, endpoint: str) -> Iterator[SparkSession]:
    at_once = {"attempts.maximum": "1", "retry.limit": "0"}
    made = session_on_s3(spark, endpoint, BUCKET, at_once)
    made.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    yield made
    tell(endpoint, "faults")


def failure_of(session: SparkSession, name: str) -> ErrorReport:
    """Run a query with state in the bucket, which must fail; returns the report of it."""
    place = f"s3a://{BUCKET}/{name}"
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 9).load()
    counts = rows.groupBy((F.col("value") % 3).alias("kind")).count()
    writer = counts.writeStream.format("delta").outputMode("complete").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{place}/checkpoint")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever PySpark makes of it
        writer.start(f"{place}/out").awaitTermination()
    return report_of(caught.value)


@pytest.mark.parametrize(
    ("asked", "answer", "told", "way_out"),
    [
        (
            r"(GET|HEAD) .*",
            ("403 Forbidden", "AccessDenied"),
            f"The store answered `getFileStatus on s3a://{BUCKET}/NAME/checkpoint` with status 403",
            ("input", False, "AWS_ACCESS_KEY_ID"),
        ),
        (
            r"PUT .*/checkpoint/state/0/0/",
            ("403 Forbidden", "AccessDenied"),
            "/checkpoint/state/0/0/_metadata` with status 403 (AccessDenied).",
            ("input", False, "permission to list, read, write and delete"),
        ),
        (
            r"PUT .*/out/.*\.parquet",
            ("507 Insufficient Storage", "QuotaExceeded"),
            "The store answered `Writing Object on NAME/out/part-",
            ("unavailable", True, "its load or a quota"),
        ),
        (
            r"PUT .*/out/_delta_log/",
            ("400 Bad Request", "QuotaExceeded"),
            "_delta_log/_staged_commits` with status 400 (QuotaExceeded).",
            ("unavailable", True, "its load or a quota"),
        ),
        (
            r"PUT .*/checkpoint/offsets",
            ("412 Precondition Failed", "PreconditionFailed"),
            "NAME/checkpoint/offsets` with status 412 (PreconditionFailed).",
            ("state", True, "a second driver of this pipeline"),
        ),
        (
            r"PUT .*/checkpoint/offsets",
            ("404 Not Found", "NoSuchBucket"),
            "NAME/checkpoint/offsets` with status 404 (NoSuchBucket).",
            ("input", False, "the bucket in the path"),
        ),
        (
            r"PUT .*/checkpoint/offsets",
            ("501 Not Implemented", "NotImplemented"),
            "NAME/checkpoint/offsets` with status 501 (NotImplemented).",
            ("input", False, "a store that has this feature"),
        ),
    ],
)
def test_an_answer_of_the_store_is_told_with_its_status_and_a_way_out_that_fits(
    session: SparkSession,
    endpoint: str,
    asked: str,
    answer: tuple[str, str],
    told: str,
    way_out: tuple[str, bool, str],
) -> None:
    name = uuid.uuid4().hex
    status, code = answer
    tell(endpoint, "faults", **{"answer to": {"pattern": asked, "status": status, "code": code}})
    report = failure_of(session, name)
    assert told.replace("NAME", name) in report.message
    kind, is_transient, hint = way_out
    assert (report.kind, report.transient) == (kind, is_transient)
    assert hint in report.hint
    assert "memory" not in report.hint
    assert "software.amazon" not in report.message


def test_a_store_that_says_nothing_is_told_as_one_that_does_not_answer(
    session: SparkSession, endpoint: str
) -> None:
    tell(endpoint, "faults", shares={"lose request": 1.0})
    report = failure_of(session, "silence")
    assert report.message.startswith("The store did not answer `")
    assert (report.kind, report.transient) == ("unavailable", True)
    assert "`s3.endpoint`" in report.hint


def test_what_spark_says_of_a_failed_task_is_kept_after_the_answer(
    session: SparkSession, endpoint: str
) -> None:
    answer = {"pattern": r"PUT .*/out/.*\.parquet", "status": "507 Full", "code": "Full"}
    tell(endpoint, "faults", **{"answer to": answer})
    report = failure_of(session, "kept")
    first, second = report.message.splitlines()
    assert first.endswith("with status 507 (Full).")
    assert second.startswith("[TASK_WRITE_FAILED] Task failed while writing rows")
