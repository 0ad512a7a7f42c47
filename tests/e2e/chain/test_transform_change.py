"""A transform that changes under a checkpoint goes on where that is right, and is refused else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from hybrid_extensions.audit.run import audit
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint.offset_log import last_planned
from spark_jobs.checkpoint.transform_compatibility import last_change, read_transforms
from spark_jobs.inside.checkpoint.transform_shape import Shape, digest_of_code
from spark_jobs.inside.errors.error_reports import report_of
from spark_jobs.inside.query.streaming_query import RunningQuery
from spark_jobs.run_state.heartbeat import read_heartbeat
from spark_jobs.run_state.target_record import TargetRecord, read_target_record
from tests.e2e.case import Case, live_of, windows, wrong
from tests.e2e.in_session import run_history, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

FEATURES = """
from pyspark.sql import functions as F

def _counted(rows, length="3 hours", delay="1 hour", more=""):
    window = F.window("at", length, "1 hour")
    return (
        rows.withWatermark("at", delay).groupBy(window)
        .agg(F.count("*").alias("n"), F.expr("sum(v)" + more).alias("total"))
        .select(F.col("window.start").alias("start"), "n", "total")
    )

def hourly(rows):
    return _counted(rows)

def without_nulls(rows):
    return _counted(rows.where("v IS NOT NULL"))

def longer(rows):
    return _counted(rows, "6 hours")

def later(rows):
    return _counted(rows, delay="2 hours")

def with_highest(rows):
    return _counted(rows, more=" + 0 * max(v)")

def stateless(rows):
    return rows.select(F.col("at").alias("start"), F.lit(1).cast("bigint").alias("n"),
                       F.col("v").alias("total"))

def fewer(rows):
    return hourly(rows).drop("total")

def narrower(rows):
    return hourly(rows).withColumn("n", F.col("n").cast("int"))

def plain(rows):
    return rows

def doubled(rows):
    return rows.withColumn("v", F.col("v") * 2)
"""


def named(case: Case, function: str, shape: Any = windows) -> LoadedPipeline:
    """The same pipeline with another function for its transform."""

    def edit(document: dict[str, Any]) -> None:
        shape(document)
        document["transform"] = f"features:{function}"

    return case.pipeline(edit)


@pytest.mark.kafka
def test_state_that_would_mean_something_else_is_refused_and_the_rest_goes_on_exactly(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "features.py").write_text(FEATURES)
    case.write_history()
    case.produce()
    loaded = named(case, "hourly")
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    generation = loaded.require_generation()
    # Each start of a query is a commit without rows.
    before = sorted(DeltaTable(str(tmp_path / "out")).file_uris())
    begun = last_planned(generation.checkpoint)
    assert last_change(generation) is None

    refused = {
        "longer": r"it was: .* by window\(at, 3,600 s, .*10,800 s\)\n  it is:  .*21,600 s",
        "later": r"it was: a watermark of 1 hours on at\n  it is:  a watermark of 2 hours on at",
        "stateless": r"it was: count\(1\), sum\(v\) by .*\n  it is:  nothing",
        "fewer": r"total: double in the table, not returned",
        "narrower": r"n: bigint in the table, int returned",
    }
    for function, told in refused.items():
        with pytest.raises(StateError, match=told) as caught:
            run_live(spark, named(case, function))
        assert "begin a new generation" in str(caught.value), function
    shutil.rmtree(generation.path("transforms"))
    with pytest.raises(StateError, match=r"transforms/0\.json is missing"):
        run_live(spark, named(case, "with_highest"))
    # Where nothing was written down Spark is asked, and it knows less.
    record = read_target_record(generation)
    assert record is not None
    written_down = [name for name in record.documents if not name.startswith("transforms/")]
    generation.replace(TargetRecord.NAME, record.model_copy(update={"documents": written_down}))
    with pytest.raises(StreamingQueryException) as asked:
        run_live(spark, named(case, "with_highest"))
    refusal = report_of(asked.value)
    assert (refusal.kind, refusal.transient) == ("state", False)
    assert "does not fit the state that earlier micro-batches left in the" in refusal.message
    assert "nothing was written." in refusal.message
    assert "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE]" in refusal.message
    assert "=== Streaming Query ===" not in refusal.message
    assert refusal.hint.startswith("Undo the change of the transform")
    assert sorted(DeltaTable(str(tmp_path / "out")).file_uris()) == before

    # The batch that Spark had begun and refused is made anew.
    assert begun is not None
    assert read_transforms(generation)[-1].first_batch == begun + 1
    loaded = named(case, "without_nulls")
    run_live(spark, loaded)
    report = audit(loaded)
    assert (report.expected > 30, wrong(report)) == (True, {})


@pytest.mark.kafka
def test_a_stateless_change_goes_on_and_says_which_rows_the_old_one_made(
    tmp_path: Path, servers: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "features.py").write_text(FEATURES)
    case.write_history()
    case.produce(range(1000, 1100))
    loaded = named(case, "plain", lambda _: None)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    run_live(spark, loaded)
    generation = loaded.require_generation()
    assert [each.first_batch for each in read_transforms(generation)] == [0]
    assert "WARNING" not in capsys.readouterr().err

    case.produce(range(1100, 1200))
    loaded = named(case, "doubled", lambda _: None)
    run_live(spark, loaded)
    was, now = read_transforms(generation)
    assert (was.name, now.name) == ("features:plain", "features:doubled")
    told = last_change(generation)
    assert told is not None
    assert f"micro-batches before {now.first_batch} (topic `{case.topic}`, partition 0" in told
    assert "up to offset 100) were computed by the old one" in told
    assert capsys.readouterr().err.count(f"WARNING: {told}") == 1
    written = DeltaTable(str(tmp_path / "out")).to_pyarrow_table(columns=["id", "v"]).to_pylist()
    values = {row["id"]: row["v"] for row in written}
    assert len(written) == 1200
    assert values == {n: n / 2 if n < 1100 else float(n) for n in range(1200)}
    beat = read_heartbeat(generation, "live")
    assert beat is not None
    assert beat.state == "stopped"


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.sum("a"), F.sum("b"))


def state_of_pandas(key: str, kept: str) -> Any:
    def function(*_: Any) -> Any:
        raise NotImplementedError

    def transform(rows: DataFrame) -> DataFrame:
        grouped = rows.groupBy(key)
        return grouped.applyInPandasWithState(function, "c long", kept, "update", "NoTimeout")

    return transform


class Processor(StatefulProcessor):
    """Never run: only its place in the plan is looked at."""

    def init(self, handle: Any) -> None:
        raise NotImplementedError

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:  # noqa: N802
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def state_of_processor(key: str) -> Any:
    def transform(rows: DataFrame) -> DataFrame:
        grouped = rows.groupBy(key)
        return grouped.transformWithStateInPandas(Processor(), "c long", "Update", "None")

    return transform


def salted(rows: DataFrame) -> DataFrame:
    keys = {"salt": F.floor(F.rand() * 8), "more": F.randn(), "id": F.expr("uuid()")}
    return rows.withColumns(keys).groupBy("salt", "more", "id").count()


def joined(rows: DataFrame, key: str = "k", kind: str = "inner") -> DataFrame:
    left, right = rows.alias("l"), rows.alias("r")
    return left.join(right, F.expr(f"l.{key} = r.{key} AND l.at = r.at"), kind).select("l.id")


def distinct(column: str) -> Callable[[DataFrame], DataFrame]:
    """Rows that SQL makes distinct: Spark keeps them all in its state."""
    query = f"SELECT DISTINCT {column} AS n, at FROM {{rows}}"
    return lambda rows: rows.sparkSession.sql(query, rows=rows)


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        # Spark 4.2.1 goes on silently with each of these that is not the same.
        (counted, lambda rows: rows.groupBy("j").agg(F.sum("a"), F.sum("b")), False),
        (counted, lambda rows: rows.groupBy("k").agg(F.sum("b"), F.sum("a")), False),
        (counted, lambda rows: rows.groupBy("k").agg(F.max("a"), F.sum("b")), False),
        (counted, lambda rows: counted(rows.withColumn("a", F.col("b") * 2)), False),
        (
            counted,
            lambda rows: counted(rows.withColumnRenamed("a", "x").withColumn("a", F.col("x"))),
            True,
        ),
        (counted, lambda rows: counted(rows.where("a > 3")), True),
        (counted, lambda rows: counted(rows).withColumn("more", F.lit(1)), True),
        (lambda rows: rows.dropDuplicates(["k"]), lambda rows: rows.dropDuplicates(["j"]), False),
        (joined, lambda rows: joined(rows, "j"), False),
        (joined, lambda rows: joined(rows, kind="left_outer"), False),
        (state_of_pandas("k", "c long"), state_of_pandas("j", "c long"), False),
        (state_of_pandas("k", "c long"), state_of_pandas("k", "c long, d long"), False),
        (state_of_processor("k"), state_of_processor("j"), False),
        (
            lambda rows: rows.groupBy(F.session_window("at", "5 minutes")).count(),
            lambda rows: rows.groupBy(F.session_window("at", "9 minutes")).count(),
            False,
        ),
        (
            lambda rows: rows.groupBy(F.window("at", "1 hour", "20 minutes")).count(),
            lambda rows: rows.groupBy(F.window("at", "1 hour", "30 minutes")).count(),
            False,
        ),
        (
            lambda rows: rows.groupBy(F.window("at", "1 hour")).count(),
            lambda rows: rows.groupBy(F.window("at", "1 hour", startTime="5 minutes")).count(),
            False,
        ),
        (lambda rows: rows, lambda rows: rows.limit(5), False),
        (lambda rows: rows, distinct("k"), False),
        (distinct("k"), distinct("j"), False),
        (distinct("k"), distinct("k"), True),
        # Salted keys: the seed is another one each time.
        (salted, salted, True),
        # What Spark keeps for a static side of a join is nothing.
        (
            counted,
            lambda rows: counted(rows.join(rows.sparkSession.range(3), "id")),
            True,
        ),
    ],
)
def test_what_operators_keep_is_told_by_what_it_is_made_of(
    tmp_path: Path, spark: SparkSession, before: Any, after: Any, is_same: bool
) -> None:
    columns = "id long, at timestamp, k string, j string, a double, b double"
    marked = [
        transform(
            spark.readStream.schema(columns).parquet(f"{tmp_path}/*").withWatermark("at", "1 hour")
        )
        for transform in (before, after, before)
    ]
    first, second, again = map(Shape, marked)
    assert (first.operators == second.operators) == is_same
    assert (first.operators, first.lines) == (again.operators, again.lines)


def test_comments_and_layout_are_no_change_of_code(tmp_path: Path) -> None:
    assert digest_of_code(counted) == digest_of_code(joined)
    assert digest_of_code(counted) != digest_of_code(RunningQuery)
    assert digest_of_code(len) == digest_of_code(print)
