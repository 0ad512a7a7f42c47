"""From a PostgreSQL table to its change log without Kafka: the target equals the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.compare.compare_source import compare_with_source
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.config.loader import LoadedPipeline
from tests.e2e.case import TRANSFORMS, wrong
from tests.e2e.changes.captured import captured
from tests.e2e.changes.cdc_case import INCLUDE, is_equal, take_snapshot
from tests.e2e.in_session import run_chain, run_live
from tests.hybrid_extensions.change_log.log_case import PostgresLog
from tests.services.lake import BUCKET, lake
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
COLUMNS = {"id": "bigint", "state": "int", "note": "string"}


@pytest.fixture(params=["disk", "s3"])
def shop(
    tmp_path: Path, postgres: LocalPostgres, request: pytest.FixtureRequest
) -> Iterator[PostgresLog]:
    made = PostgresLog(
        tmp_path,
        postgres,
        [
            "CREATE TABLE orders (id bigint PRIMARY KEY, state int, note text)",
            "INSERT INTO orders SELECT n, 0, 'note ' || n FROM generate_series(1, 2000) n",
        ],
        "orders",
    )
    (tmp_path / "transforms.py").write_text(TRANSFORMS)
    with lake(request.param, tmp_path) as move:
        if request.param == "s3":
            document: dict[str, Any] = {"sink": {}}
            move(document)
            made.log.declare(path=f"s3://{BUCKET}/log", s3=document["s3"])
        yield made
        made.end()


def pipeline(shop: PostgresLog, folder: Path) -> LoadedPipeline:
    """The declaration of the table: a topic, but for the address as with Kafka."""
    database = {"dsn": shop.dsn, "slot": shop.name}
    topic: dict[str, Any] = {
        "topic": f"{shop.name}.public.orders",
        "bootstrap_servers": shop.log.servers,
        "table": "public.orders",
        "schema": COLUMNS,
        "include": INCLUDE,
    }
    return captured(folder, "orders", database, topic, ["id"], lambda _: None)


def test_the_table_is_followed_through_kills_of_writer_and_engine(
    shop: PostgresLog, spark: SparkSession, tmp_path: Path
) -> None:
    shop.log.start()
    loaded = pipeline(shop, tmp_path)
    shop.execute("UPDATE orders SET state = 1 WHERE id < 100")
    take_snapshot(loaded)
    shop.execute(
        "UPDATE orders SET state = 2 WHERE id % 2 = 0",
        "DELETE FROM orders WHERE id % 11 = 0",
        "UPDATE orders SET id = id + 10000 WHERE id % 13 = 0",
    )
    ledger = run_chain(spark, loaded, is_equal(loaded))
    assert (ledger.decided_by, ledger.rule) == ("offsets", "sequence")

    equal = is_equal(loaded)

    def meanwhile() -> None:
        shop.execute("UPDATE orders SET state = 3 WHERE id % 3 = 0")
        # A query that is still being made ends without its broker; one that runs waits.
        wait_for(lambda: equal(None), "the first change", 300)
        shop.log.kill_engine()
        shop.execute("INSERT INTO orders SELECT n, 4, NULL FROM generate_series(20000, 25000) n")
        shop.log.kill()
        shop.execute("DELETE FROM orders WHERE id > 24000")
        shop.log.start()

    run_live(spark, loaded, is_equal(loaded), meanwhile)
    report = audit(loaded)
    assert (wrong(report), report.ok) == ({}, True)
    found = compare_with_source(loaded)
    assert (found.ok, found.rows > 5000) == (True, True)
