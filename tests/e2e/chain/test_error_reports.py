"""Errors on their way through the JVM: what the driver makes of them, by class and condition."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.errors import ErrorReport, InputError, SeamError, UnavailableError
from spark_jobs.inside.errors.error_reports import (
    ReportedError,
    report_of,
    reporting,
    reporting_batch,
)
from spark_jobs.inside.readers.topics.record_errors import raise_at_record

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

ERROR = InputError('It says "no" \\ in\ntwo lines: {}.', "Repair it.", file="a`b.json", line=7)
REFUSED = SeamError('Topic `t`, partition 0, offset 5: is bad ({"é"}).', "Do this.")
IN_KAFKA = "SELECT 't' AS __topic, 0 AS __partition, id AS __offset FROM range(9)"


def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    raise ERROR


def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    raise RuntimeError("the disk is full")


def in_worker(rows: DataFrame) -> DataFrame:
    return rows.mapInArrow(reporting(failing), rows.schema)


def with_broken_worker(rows: DataFrame) -> DataFrame:
    return rows.mapInArrow(reporting(broken), rows.schema)


def at_record(rows: DataFrame) -> DataFrame:
    placed = rows.selectExpr("'t' AS __topic", "0 AS __partition", "value AS __offset")
    refused = raise_at_record(SeamError, F.lit('is bad ({"é"}).'), "Do this.")
    is_bad = F.col("__offset") == 5
    return placed.where(F.when(is_bad, refused.cast("boolean")).otherwise(F.lit(True)))


def failure_of(
    spark: SparkSession,
    folder: Path,
    transform: Callable[[DataFrame], DataFrame],
    write: Callable[[DataFrame, int], None] | None = None,
) -> ErrorReport:
    """Run a query that fails; return the report of its exception."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 9).load()
    rows = transform(source.select("value"))
    writer = rows.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    sink = writer.format("noop") if write is None else writer.foreachBatch(reporting_batch(write))
    with pytest.raises(StreamingQueryException) as caught:
        sink.trigger(availableNow=True).start().awaitTermination()
    return report_of(caught.value)


def collect(batch: DataFrame, _: int) -> None:
    batch.collect()


def refuse(_: DataFrame, __: int) -> None:
    raise ERROR


def test_an_error_of_the_driver_is_reported_as_it_is() -> None:
    assert report_of(ERROR) == ERROR.report()
    unavailable = UnavailableError("It does not answer.", "Start it.", server="localhost:9092")
    assert report_of(unavailable).transient


def test_text_that_only_looks_like_a_report_is_none() -> None:
    for text in ("HYBRID_ERROR:", "HYBRID_ERROR:{", 'HYBRID_ERROR:{"other": 1}'):
        report = report_of(ValueError(text))
        assert report.kind == "spark"
        assert "`hybrid logs P`" in report.hint
    assert report_of(ReportedError(ERROR.report())) == ERROR.report()


@pytest.mark.parametrize("write", [None, collect], ids=["sink of Spark's", "foreachBatch"])
def test_errors_of_workers_and_of_sql_keep_type_text_and_fields(
    tmp_path: Path, spark: SparkSession, write: Callable[[DataFrame, int], None] | None
) -> None:
    assert failure_of(spark, tmp_path / "a", in_worker, write) == ERROR.report()
    report = failure_of(spark, tmp_path / "b", at_record, write)
    assert (report.kind, report.message, report.hint) == ("seam", REFUSED.message, "Do this.")
    assert report.fields == {"topic": "t", "partition": 0, "offset": 5}
    assert not report.transient


def test_an_error_of_the_function_that_writes_a_batch_is_reported_as_it_is(
    tmp_path: Path, spark: SparkSession
) -> None:
    assert failure_of(spark, tmp_path, lambda rows: rows, refuse) == ERROR.report()


@pytest.mark.parametrize("write", [None, collect], ids=["sink of Spark's", "foreachBatch"])
def test_every_other_failure_is_sparks_and_may_pass(
    tmp_path: Path, spark: SparkSession, write: Callable[[DataFrame, int], None] | None
) -> None:
    report = failure_of(spark, tmp_path, with_broken_worker, write)
    assert (report.kind, report.transient) == ("spark", True)
    assert "RuntimeError: the disk is full" in report.message
    assert "=== Streaming Query ===" not in report.message


def test_a_query_that_cannot_be_analyzed_never_runs(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.sql(IN_KAFKA).select("nothing")
    report = report_of(caught.value)
    assert (report.kind, report.transient) == ("spark", False)
    assert "nothing" in report.message


def test_a_batch_that_fails_in_the_jvm_is_reported_too(spark: SparkSession) -> None:
    refused = raise_at_record(SeamError, F.lit("is bad."), "")
    with pytest.raises(Exception, match="offset 5: is bad") as caught:
        spark.sql(IN_KAFKA).select(F.when(F.col("__offset") == 5, refused)).collect()
    assert report_of(caught.value).fields["offset"] == 5


@pytest.mark.parametrize("plan", ["short", "of many operators " * 5_000], ids=["short", "long"])
def test_a_batch_that_is_interrupted_by_a_stop_is_no_failure(
    tmp_path: Path, spark: SparkSession, capfd: pytest.CaptureFixture[str], plan: str
) -> None:
    begun = threading.Event()

    def never_ends(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(600)
        yield from batches

    def write(batch: DataFrame, _: int) -> None:
        begun.set()
        try:
            batch.mapInArrow(never_ends, batch.schema).collect()
        except Exception as error:
            raise RuntimeError(plan) from error

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 9).load()
    writer = source.writeStream.option("checkpointLocation", str(tmp_path))
    running = writer.foreachBatch(reporting_batch(write)).start()
    assert begun.wait(60)
    running.stop()
    assert running.exception() is None
    assert not running.isActive
    assert "StackOverflowError" not in capfd.readouterr().err


@pytest.mark.kafka
def test_a_topic_that_was_deleted_is_told_as_that(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topic = f"deleted-{tmp_path.name}"
    for made in admin.create_topics([NewTopic(topic, 1)]).values():
        made.result()
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "failOnDataLoss": "true"}
    rows = spark.readStream.format("kafka").options(**options).load()
    sink = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    query = sink.start()
    query.processAllAvailable()
    for gone in admin.delete_topics([topic]).values():
        gone.result()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination()
    report = report_of(caught.value)
    assert (report.kind, report.transient) == ("run", True)
    assert report.message.startswith(
        "Spark can't go on with the topic, or a partition of it, so the run ended: "
    )
    assert "memory" not in report.hint
