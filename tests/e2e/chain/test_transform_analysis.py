"""What is known of a transform at the plan: its columns and lineage, or why it can't run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.analysis.spark.analyze import analyze
from orchestration.operations import chain_plan
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, SeamError
from sources.planning.context import PipelineContext
from sources.planning.transform_analysis import (
    AnalysisRequest,
    TransformAnalysis,
    read_analysis,
)
from sources.storage.folder import Folder
from spark_jobs.launch.questions.transform_check import TransformCheck
from tests.e2e.case import moment
from tests.minimal import minimal_pipeline

pytestmark = pytest.mark.spark
COLUMNS = {"id": "bigint", "at": "timestamp", "amount": "double", "tags": "array<string>"}
HEAD = """from pyspark.sql import functions as F
from pyspark.sql.window import Window

def helper(rows, name):
    return rows.withColumn("twice", F.col(name) * 2)

def transform(rows):
"""
FIRST_LINE = len(HEAD.splitlines()) + 1
MERGE = {"path": "out", "mode": "merge", "key": ["id"]}


def declared(folder: Path, body: str, **changes: Any) -> LoadedPipeline:
    """A pipeline whose transform has this body."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    (folder / "shop.py").write_text(HEAD + lines)
    return minimal_pipeline(
        folder,
        {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"},
        **{"transform": "shop:transform", **changes},
    )


Analyze = Callable[..., TransformAnalysis]


@pytest.fixture
def analyzed(spark: SparkSession, tmp_path: Path) -> Analyze:
    def run(
        body: str,
        replayed: list[str] | None = None,
        columns: dict[str, str] | None = None,
        **changes: Any,
    ) -> TransformAnalysis:
        loaded = declared(tmp_path, body, **changes)
        request = AnalysisRequest(
            pipeline=loaded.path, columns=columns or COLUMNS, replayed=replayed or [], digest="d"
        )
        return analyze(spark, loaded, request, Folder(tmp_path / "empty"))

    return run


def lineage(found: TransformAnalysis) -> dict[str, list[str] | None]:
    assert found.columns is not None, found.warning
    return {column.name: column.inputs for column in found.columns}


def test_the_columns_of_the_table_are_known(analyzed: Analyze) -> None:
    found = analyzed('return rows.select("id", F.lit(1).alias("one"), F.struct("at").alias("s"))')
    assert found.columns is not None
    shown = [(each.name, each.type, each.nullable) for each in found.columns]
    assert shown == [
        ("id", "bigint", True),
        ("one", "int", False),
        ("s", "struct<at:timestamp>", False),
    ]
    assert (found.stateful, found.watermark_ms, found.warning) == ([], None, None)


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ('return rows.select("id", (F.col("amount") + F.size("tags")).alias("x"))',
         {"id": ["id"], "x": ["amount", "tags"]}),
        ('return rows.filter("amount > 1").select("id")', {"id": ["id"]}),
        ('return rows.select("id", F.explode("tags").alias("tag"))',
         {"id": ["id"], "tag": ["tags"]}),
        ('return rows.select("id").unionAll(rows.select(F.col("amount").cast("bigint")))',
         {"id": ["amount", "id"]}),
        ('left, right = rows.select("id", "at"), rows.select("id", "amount")\n'
         'return left.join(right, "id")',
         {"id": ["id"], "at": ["at"], "amount": ["amount"]}),
        ('other = rows.sparkSession.range(3).withColumn("label", F.lit("x"))\n'
         'return rows.select("id", "amount").join(other, "id")',
         {"id": ["id"], "amount": ["amount"], "label": []}),
        ('f = F.udf(lambda a: a, "double")\nreturn rows.select("id", f("amount").alias("x"))',
         {"id": ["id"], "x": ["amount"]}),
        ('return rows.select("id").mapInPandas(lambda batches: batches, "id bigint")',
         {"id": None}),
        ('rows.createOrReplaceTempView("r")\n'
         'return rows.sparkSession.sql("WITH c AS (SELECT id AS i, amount * 2 AS x FROM r) "'
         '"SELECT i AS id, x FROM c")',
         {"id": ["id"], "x": ["amount"]}),
    ],
)  # fmt: skip
def test_each_column_is_traced_to_the_columns_it_comes_from(
    analyzed: Analyze, body: str, inputs: dict[str, list[str] | None]
) -> None:
    assert lineage(analyzed(body)) == inputs


@pytest.mark.parametrize(
    ("body", "passed"),
    [
        ("return rows", [*COLUMNS]),
        ('return rows.select("at", "id", "amount")', ["at", "id", "amount"]),
        ('return rows.where("amount > 0")', None),
        ('return rows.withColumn("amount", F.abs("amount"))', None),
        ('return rows.withColumnRenamed("tags", "marks")', None),
        ('return rows.dropDuplicates(["id"])', None),
    ],
)
def test_whether_all_rows_are_passed_on_as_they_are_is_known(
    analyzed: Analyze, body: str, passed: list[str] | None
) -> None:
    assert analyzed(body, sink=MERGE).passed == passed


@pytest.mark.parametrize(
    ("body", "same"),
    [
        ('return rows.withWatermark("at", "1 hour").where("amount > 0")', ["amount", "at", "id"]),
        ('return rows.withColumn("at", F.date_trunc("day", "at"))', ["amount", "id"]),
        ('return rows.select("id", F.col("amount").cast("timestamp").alias("at"))', ["id"]),
        ('later = rows.withColumn("at", F.expr("at + INTERVAL 1 DAY"))\n'
         "return rows.unionByName(later)", []),
    ],
)  # fmt: skip
def test_the_columns_that_are_those_of_the_input_are_known(
    analyzed: Analyze, body: str, same: list[str]
) -> None:
    found = analyzed(body, sink=MERGE).same
    assert found is not None
    assert [name for name in found if name != "tags"] == same


def test_windows_are_traced_and_what_they_keep_is_named(analyzed: Analyze) -> None:
    found = analyzed(
        """
window = F.window("at", "3 hours")
counted = rows.withWatermark("at", "1 hour").groupBy(window).agg(
    F.count("*").alias("n"), F.sum("amount").alias("total"))
return counted.select(F.col("window.start").alias("id"), "n", "total")
"""
    )
    assert lineage(found) == {"id": ["at"], "n": [], "total": ["amount"]}
    assert found.watermark_ms == 3_600_000
    (kept,) = found.stateful
    assert kept.startswith("count(1), sum(amount) by window(at")


@pytest.mark.parametrize(
    ("body", "line", "told"),
    [
        ('return rows.select("id", "amout")', FIRST_LINE,
         "column `amout` does not exist; did you mean `amount`?"),
        ('return rows.select("id", "zzzzzzzz")', FIRST_LINE,
         "column `zzzzzzzz` does not exist; there are `"),
        # The innermost line of the user's own, not that of the call.
        ('return helper(rows, "amout")', 5, "did you mean `amount`?"),
        ('x = 1\nreturn rows.filter(F.col("tags") > 3)', FIRST_LINE + 1,
         "(DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES)"),
        ('return rows.filter("id >")', FIRST_LINE, "(PARSE_SYNTAX_ERROR)"),
        ('return rows.withColum("x", F.lit(1))', FIRST_LINE, "(ATTRIBUTE_NOT_SUPPORTED)"),
        ('return rows.select("id", 1 / 0)', FIRST_LINE, "ZeroDivisionError: division by zero"),
        ('return rows.limit(rows.count())', FIRST_LINE, "writeStream.start()"),
        # Found by a check of the result, so that the function as a whole is named.
        ("return 17", 7, "returned no DataFrame of Spark"),
        ("return None", 7, "returned nothing"),
        ("return rows.sparkSession.range(3)", 7, "is not made of its argument"),
        ('return rows.orderBy("at")', 7, "Sorting is not supported"),
        ('return rows.groupBy("id").count()', 7, "Invalid streaming output mode: append"),
        ('return rows.select("at")', 7, "`sink.key` names a column `id`, which"),
        ('return rows.select("id", F.expr("make_interval(1)").alias("x"))', 7,
         "column `x` as interval, a type that a Delta table can't have"),
        ('return rows.select("id", F.col("amount").alias("ID"))', 7,
         "more than one column `ID`"),
    ],
)  # fmt: skip
def test_a_transform_that_can_not_run_is_refused_at_its_line(
    analyzed: Analyze, body: str, line: int, told: str
) -> None:
    with pytest.raises(InputError) as caught:
        analyzed(body)
    assert caught.value.message.startswith(f"shop.py:{line}: `")
    assert told in caught.value.message
    assert caught.value.hint
    assert (caught.value.fields["file"], caught.value.fields["line"]) == ("shop.py", line)


SQL_HEAD = "-- Orders.\nSELECT\n"


@pytest.fixture
def queried(analyzed: Analyze, tmp_path: Path) -> Analyze:
    def run(text: str, watermark: dict[str, str] | None = None, **more: Any) -> TransformAnalysis:
        (tmp_path / "sql").mkdir(exist_ok=True)
        (tmp_path / "sql" / "orders.sql").write_text(text)
        transform = {"sql": "sql/orders.sql", "watermark": watermark}
        return analyzed("pass", transform=transform, **more)

    return run


def test_a_query_is_analyzed_like_a_function(queried: Analyze) -> None:
    found = queried(f"{SQL_HEAD}  id, amount + size(tags) AS x FROM input;\n")
    assert lineage(found) == {"id": ["id"], "x": ["amount", "tags"]}
    assert (found.stateful, found.watermark_ms) == ([], None)
    found = queried(
        "WITH hours AS (SELECT window(at, '1 hour') AS hour, amount FROM input)\n"
        "SELECT hour.start AS id, sum(amount) AS total FROM hours GROUP BY hour",
        {"column": "at", "delay": "10 min"},
    )
    assert lineage(found) == {"id": ["at"], "total": ["amount"]}
    assert found.watermark_ms == 600_000
    # Also where a WITH clause makes the window: its length is part of what is kept.
    assert found.stateful == ["sum(amount) by window(at, 3,600 s)"]


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (SQL_HEAD + "  id,\n  amout\nFROM input", 4,
         "column `amout` does not exist; did you mean `amount`?"),
        (SQL_HEAD + "  id\nFORM input", 4, "(PARSE_SYNTAX_ERROR)"),
        (SQL_HEAD + "  id,\n  upper(amount, 1) AS x\nFROM input", 4, "(WRONG_NUM_ARGS"),
        (SQL_HEAD + "  id,\n  tags > 3 AS x\nFROM input", 4,
         "(DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES)"),
        (SQL_HEAD + "  id FROM inputs", 1,
         "does not read the view `input`, which has the rows of all sources; did you mean"),
        (SQL_HEAD + "  1 AS id", 1, "it reads no table"),
        ("CREATE TABLE made AS SELECT * FROM input", 1, "(PARSE_SYNTAX_ERROR)"),
        ("FROM input INSERT INTO made SELECT *", 1, "(PARSE_SYNTAX_ERROR)"),
        ("SELECT * FROM input; DROP TABLE input", 1, "(PARSE_SYNTAX_ERROR)"),
        ("SELECT * FROM input ORDER BY at", 1, "Sorting is not supported"),
        ("SELECT at FROM input", 1, "`sink.key` names a column `id`, which"),
    ],
)  # fmt: skip
def test_a_query_that_can_not_run_is_refused_at_its_line(
    queried: Analyze, spark: SparkSession, text: str, line: int, told: str
) -> None:
    with pytest.raises(InputError) as caught:
        queried(text)
    assert caught.value.message.startswith(f"sql/orders.sql:{line}: `")
    assert told in caught.value.message
    assert caught.value.hint
    assert caught.value.fields["line"] == line
    assert not spark.catalog.tableExists("made")
    assert not spark.catalog.tableExists("input")


@pytest.mark.parametrize(
    ("watermark", "told"),
    [
        ({"column": "att", "delay": "1 h"},
         "`transform.watermark.column` names `att`, which the rows do not have; "
         "they have `id`, `at`"),
        ({"column": "amount", "delay": "1 h"}, 'invalid type "DOUBLE"'),
    ],
)  # fmt: skip
def test_a_watermark_on_another_column_is_refused(
    queried: Analyze, watermark: dict[str, str], told: str
) -> None:
    with pytest.raises(InputError) as caught:
        queried("SELECT * FROM input", watermark)
    assert told in caught.value.message


def test_a_query_whose_table_is_not_here_is_a_warning(queried: Analyze) -> None:
    found = queried("SELECT input.* FROM input JOIN shops USING (id)")
    assert found.columns is None
    assert "sql/orders.sql:1: `transform: sql/orders.sql` could not" in str(found.warning)


def test_what_may_be_appended_depends_on_the_sink(analyzed: Analyze) -> None:
    found = analyzed('return rows.groupBy("id").count()', sink=MERGE)
    assert found.stateful == ["count(1) by id"]


def test_partitions_by_local_times_of_which_an_hour_comes_twice_are_refused(
    analyzed: Analyze,
) -> None:
    zone = {"conf": {"spark.sql.session.timeZone": "America/New_York"}}
    sink = {"path": "out", "mode": "append", "key": ["id"], "partition_by": ["hour"]}
    body = """return rows.selectExpr("*", "date_trunc('hour', at) AS hour")"""
    with pytest.raises(InputError, match=r"`sink\.partition_by` names `hour`, a timestamp") as no:
        analyzed(body, sink=sink, spark=zone)
    assert no.value.fields["column"] == "hour"
    assert analyzed(body, sink=sink).columns is not None
    assert analyzed(body, sink={**sink, "partition_by": ["id"]}, spark=zone).columns is not None


def test_a_watermark_on_unchecked_event_times_is_refused(analyzed: Analyze) -> None:
    with pytest.raises(InputError, match=r"event_time\.outside: keep"):
        analyzed(
            'return rows.withWatermark("at", "1 hour").dropDuplicates(["id", "at"])',
            event_time={"column": "at", "outside": "keep"},
        )


def test_replayed_rows_are_not_counted(analyzed: Analyze) -> None:
    sink = {**MERGE, "sequence": "count"}
    with pytest.raises(SeamError, match="would count them twice"):
        analyzed('return rows.groupBy("id").count()', ["live"], sink=sink)


LONG: dict[str, Any] = {
    "sources": [
        {
            "name": "changes",
            "type": "kafka",
            "topic": "t",
            "format": "debezium",
            "table": "public.orders",
            "schema": {name: kind for name, kind in COLUMNS.items() if name != "at"},
            "include": {
                "at": "committed_at",
                "seq": "position",
                "gone": "deleted",
                "kept": "unchanged",
            },
            "start": "earliest",
        }
    ],
    "sink": {**MERGE, "sequence": "seq", "deleted": "gone", "unchanged": "kept"},
}
CHANGED = {**COLUMNS, "seq": "string", "gone": "boolean", "kept": "map<string,string>"}


def test_values_that_a_change_may_lack_are_passed_on(analyzed: Analyze) -> None:
    body = 'return rows.select("*", (F.col("amount") * 2).alias("twice")).drop("at")'
    found = analyzed(body, columns=CHANGED, **LONG)
    assert lineage(found)["tags"] == ["tags"]
    # One that is left out is no one's concern.
    analyzed('return rows.drop("tags")', columns=CHANGED, **LONG)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('return rows.withColumnRenamed("tags", "labels")', "renames or uses column `tags`"),
        ('return rows.withColumn("n", F.size("tags"))', "renames or uses column `tags`"),
        ('return rows.withColumn("tags", F.array(F.lit("x")))', "another column `tags`"),
        ('return rows.where("amount > 1")', r"does more than add or leave out columns \(`Filter`"),
        ('return rows.withColumn("kept", F.col("kept"))', "renames or uses column `kept`"),
    ],
)
def test_a_transform_that_needs_them_is_refused(analyzed: Analyze, body: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        analyzed(body, columns=CHANGED, **LONG)
    assert "REPLICA IDENTITY FULL" in caught.value.hint


def test_columns_are_not_followed_into_a_stateful_transform(analyzed: Analyze) -> None:
    followed = {
        **LONG["sources"][0],
        "include": {
            "at": "committed_at",
            "seq": "position",
            "gone": "deleted",
            "lsn": "lsn",
            "by": "transaction",
        },
        "on_schema_change": "follow",
        "start": "previous",
    }
    snapshot = {
        "name": "snapshot",
        "type": "files",
        "path": "in/*.parquet",
        "format": "parquet",
        "snapshot": {"dsn": "host=db dbname=shop", "slot": "shop"},
    }
    declared = {
        "sources": [snapshot, followed],
        "sink": {**MERGE, "sequence": "seq", "deleted": "gone"},
        "columns": {**COLUMNS, "seq": "string", "gone": "boolean"},
    }
    with pytest.raises(InputError, match=r"is stateful, and `on_schema_change: follow` would"):
        analyzed('return rows.dropDuplicates(["id", "seq"])', **declared)


@pytest.mark.parametrize(
    "body",
    [
        'return rows.join(rows.sparkSession.table("shop.customers"), "id")',
        'return rows.join(rows.sparkSession.read.parquet("/nowhere/customers"), "id")',
        'return rows.join(rows.sparkSession.read.format("delta").load("/nowhere"), "id")',
        'return rows.join(rows.sparkSession.read.format("bigquery").load("t"), "id")',
        'raise ConnectionRefusedError(111, "Connection refused")',
    ],
)
def test_what_only_the_cluster_has_blocks_no_plan(analyzed: Analyze, body: str) -> None:
    found = analyzed(body)
    assert found.columns is None
    assert found.warning is not None
    assert found.warning.startswith(
        f"shop.py:{FIRST_LINE}: `transform: shop:transform` could not be analyzed before the run"
    )


def write(folder: Path) -> None:
    times = pa.array([moment(1), moment(2)], pa.timestamp("us", "UTC"))
    (folder / "in").mkdir()
    pq.write_table(
        pa.table({"id": [1, 2], "at": times, "amount": [1.0, 2.0]}), folder / "in/a.parquet"
    )


@pytest.mark.e2e
@pytest.mark.analysis
def test_a_plan_refuses_a_misspelt_column_and_keeps_what_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    with pytest.raises(InputError, match=r"^shop\.py:8: .*did you mean `amount`\?"):
        chain_plan.plan(declared(tmp_path, 'return rows.select("id", "amout")'))
    assert not (tmp_path / "state").exists()
    # What the transform prints is no part of the answer.
    loaded = declared(tmp_path, 'print("hello")\nreturn rows.select("id", "amount")')
    assert chain_plan.plan(loaded).warnings == []
    found = read_analysis(PipelineContext.require(loaded).generation)
    assert found is not None
    assert lineage(found) == {"id": ["id"], "amount": ["amount"]}
    # A JVM is started once.
    monkeypatch.setattr(TransformCheck, "start", lambda _: pytest.fail("started again"))
    chain_plan.plan(loaded)


@pytest.mark.e2e
@pytest.mark.analysis
def test_declared_columns_are_checked_without_data(tmp_path: Path) -> None:
    files = {"name": "history", "type": "files", "path": "in/*.json", "format": "json"}
    source = {**files, "schema": {"id": "bigint", "at": "timestamp"}}
    loaded = declared(tmp_path, 'return rows.select("idd")', sources=[source])
    with pytest.raises(InputError, match="did you mean `id`"):
        chain_plan.validate(loaded)


@pytest.mark.analysis
def test_an_error_at_import_names_its_line(tmp_path: Path) -> None:
    loaded = declared(tmp_path, "return rows")
    (tmp_path / "shop.py").write_text("import os\nLIMIT = os.limit\n")
    with pytest.raises(InputError, match=r"^shop\.py:2: `transform: shop:transform` can't be imp"):
        chain_plan.validate(loaded)
    (tmp_path / "shop.py").write_text("def transform(rows)\n    return rows\n")
    with pytest.raises(InputError, match=r"^shop\.py:1: .*SyntaxError"):
        chain_plan.validate(loaded)
