"""A captured table gets another primary key: the run stops before rows are taken for one."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.compare.compare_source import compare_with_source
from sources.config.loader import LoadedPipeline
from sources.planning.topics.key_of_changes import known_key
from tests.e2e.case import live_of
from tests.e2e.changes.binlog_case import BinlogCase
from tests.e2e.changes.cdc_case import CdcCase, is_equal, take_snapshot
from tests.e2e.in_session import fails_with, run_chain, run_live

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
]
LINES = {"id": "bigint", "line": "int", "pieces": "int"}
TABLE = (
    "CREATE TABLE parts (id bigint NOT NULL PRIMARY KEY, line int NOT NULL, pieces int)",
    "INSERT INTO parts VALUES (1, 1, 1), (2, 1, 2), (3, 1, 3)",
)
OTHER_KEY = (
    "ALTER TABLE parts {drop}, ADD PRIMARY KEY (id, line)",
    # Two rows that the target would take for one.
    "INSERT INTO parts VALUES (1, 2, 7)",
)


def check(
    spark: SparkSession, case: CdcCase | BinlogCase, loaded: LoadedPipeline, drop: str
) -> None:
    case.execute("UPDATE parts SET pieces = pieces + 1")
    run_chain(spark, loaded, is_equal(loaded))
    assert known_key(loaded.require_generation(), live_of(loaded)) == ["id"]
    case.execute("UPDATE parts SET pieces = 9 WHERE id = 2")
    case.execute(*(each.format(drop=drop) for each in OTHER_KEY))
    with fails_with("changes are identified by `id`, `line` now, and were by `id`"):
        run_live(spark, loaded, lambda _: False)
    found = compare_with_source(loaded)
    assert (found.found, found.only_in_target) in ((3, 0), (3, 1))


def test_of_postgres(case: CdcCase, spark: SparkSession) -> None:
    case.execute(*TABLE)
    case.capture(["public.parts"], snapshot_mode="no_data")
    loaded = case.pipeline("parts", LINES, ("id",))
    take_snapshot(loaded)
    check(spark, case, loaded, "DROP CONSTRAINT parts_pkey")


def test_of_mariadb(mariadb_case: BinlogCase, spark: SparkSession) -> None:
    mariadb_case.execute(*TABLE)
    mariadb_case.capture(["parts"])
    loaded = mariadb_case.pipeline("parts", LINES)
    take_snapshot(loaded)
    check(spark, mariadb_case, loaded, "DROP PRIMARY KEY")
