"""A sample of the keys: Spark and DuckDB choose the same rows of files and topic."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.config.table.sampled_share import Sample
from sources.errors import InputError
from sources.planning.plan import draft_plan
from tests.e2e.case import Case, moment
from tests.e2e.in_session import run_chain

COLUMNS = pa.schema(
    [
        ("text", pa.string()),
        ("whole", pa.int32()),
        ("price", pa.decimal128(12, 4)),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def is_sampled(text: str, share: float) -> bool:
    """Whether a key is in a sample, computed without the project's code."""
    return int(hashlib.md5(text.encode()).hexdigest()[:8], 16) < share * 16**8


def table() -> pa.Table:
    begin = datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC)
    rows = [
        {
            "text": ["", "é|~", "2024+00", "+00", "a\nb"][n % 5] + str(n // 5),
            "whole": n - 50,
            "price": Decimal(n - 50) / 10_000,
            "flag": n % 2 == 0,
            "day": (begin + timedelta(days=100 * n)).date(),
            "at": begin + timedelta(microseconds=n * 250_000 + n % 3),
        }
        for n in range(200)
    ]
    nothing = dict.fromkeys(COLUMNS.names)
    return pa.Table.from_pylist([*rows, nothing], COLUMNS)


@pytest.mark.spark
@pytest.mark.parametrize("by", [[name] for name in COLUMNS.names] + [COLUMNS.names])
def test_spark_and_duckdb_choose_the_same_keys(spark: SparkSession, by: list[str]) -> None:
    since = datetime(1999, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)
    for sample in (Sample(share=0.3, by=by), Sample(share=1, by=by, since=since)):
        given = table()
        chosen = spark.createDataFrame(given).where(sample.condition("at")).toArrow()
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("given", given)
            query = f"SELECT * FROM given WHERE {sample.duckdb_condition('at')}"
            expected = connection.execute(query).to_arrow_table()
        rows = sorted(map(repr, expected.cast(COLUMNS).to_pylist()))
        assert 0 < len(rows) < given.num_rows
        assert sorted(map(repr, chosen.cast(COLUMNS).to_pylist())) == rows


def test_the_share_is_kept_whatever_the_keys_look_like() -> None:
    with duckdb.connect() as connection:
        condition = Sample(share=0.01, by=["id"]).duckdb_condition("at")
        query = f"SELECT count(*) FROM (SELECT unnest(range(100000)) AS id) WHERE {condition}"
        [(found,)] = connection.execute(query).fetchall()
    # Five standard deviations of a binomial distribution.
    assert abs(found - 1000) < 5 * 31.5


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.parametrize("form", ["parquet", "json"])
def test_files_and_topic_are_sampled_alike_and_the_audit_proves_it(
    tmp_path: Path, servers: str, spark: SparkSession, form: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_json_history() if form == "json" else case.write_history()
    # From the start on: the first record is none of the sample, which is no hole in the topic.
    case.produce(range(900, 2000))
    until = moment(1900)

    def edit(document: dict[str, Any]) -> None:
        document["sample"] = {"share": 0.2, "by": ["id"], "until": until.isoformat()}
        document["rules"] = {"odd": {"check": "id % 2 = 1", "on_violation": "drop"}}
        if form == "json":
            schema = {"id": "bigint", "at": "timestamp", "v": "double"}
            document["sources"][0] |= {"format": "json", "path": "in/*.json", "schema": schema}

    loaded = case.pipeline(edit)
    run_chain(spark, loaded)
    ids = DeltaTable(loaded.locate("out")).to_pyarrow_table(columns=["id"])["id"].to_pylist()
    sampled = [n for n in range(1900) if is_sampled(str(n), 0.2)]
    assert sorted(ids) == [n for n in sampled if n % 2]
    report = audit(loaded)
    assert (report.outcome, report.input_rows.distinct) == ("passed", len(ids)), report
    # Rules are about rows of the sample only.
    (history, live) = report.bad_records
    assert (history.found, live.found) == (
        sum(n % 2 == 0 and n < 1000 for n in sampled),
        sum(n % 2 == 0 and n >= 900 for n in sampled),
    )


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("by", "message"),
    [
        (["nothing"], "`sample.by` names a column `nothing`, which the sources do not have"),
        (["id", "v"], "`sample.by` names column `v` of the type double"),
    ],
)
def test_columns_that_decide_nothing_are_refused_by_the_plan(
    tmp_path: Path, servers: str, by: list[str], message: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    loaded = case.pipeline(lambda document: document.update(sample={"share": 0.5, "by": by}))
    with pytest.raises(InputError, match=message):
        draft_plan(loaded)
