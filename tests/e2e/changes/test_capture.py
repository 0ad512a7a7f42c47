"""A capture as `hybrid init` writes it: long values that stay, TRUNCATE, all to the log's end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.cdc.capture_starter import CaptureOptions
from hybrid_extensions.cdc.database_log import DatabaseLog
from hybrid_extensions.cdc.databases.replication_slot import watched_slot
from hybrid_extensions.compare.compare_source import compare_with_source
from hybrid_extensions.servers.broker import create_topic
from hybrid_extensions.servers.connectors import Connectors
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from hybrid_extensions.starter.capture_database import start_capture
from sources.config.loader import LoadedPipeline, load_pipeline
from spark_jobs.run_state.wrong_rows import read_wrong_rows
from tests.e2e.case import SMALL, wrong
from tests.e2e.changes.cdc_case import CdcCase, is_equal, take_snapshot
from tests.e2e.in_session import run_chain, run_live
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def case(
    tmp_path: Path, postgres: LocalPostgres, servers: str, connect: Connectors
) -> Iterator[CdcCase]:
    made = CdcCase(tmp_path, postgres, servers, connect)
    made.execute(
        "CREATE TABLE docs (id int PRIMARY KEY, state int, body text, tags text[], amount numeric)",
        # Stored apart, uncompressed, from 2 kB on.
        "ALTER TABLE docs ALTER body SET STORAGE EXTERNAL, ALTER tags SET STORAGE EXTERNAL",
        "INSERT INTO docs SELECT n, 0, repeat(n::text, 3000), ARRAY[repeat('t', 3000), n::text], "
        "n / 7.0 FROM generate_series(1, 400) n",
    )
    yield made
    made.end()


def captured(case: CdcCase) -> LoadedPipeline:
    """What `hybrid init` writes, and what people do then."""
    options = CaptureOptions(case.name, case.dsn, ["public.docs"], case.servers)
    _, written, warnings = start_capture(case.folder, options)
    assert not warnings
    connector = json.loads((case.folder / f"{case.name}_connector.json").read_text())
    config = {**connector["config"], "database.password": os.environ["PGPASSWORD"]}
    create_topic(case.servers, f"{case.name}.public.docs", 3, {"retention.ms": "-1"})
    case.connect(connector["name"], config)
    document = yaml.safe_load(written[0].read_text())
    document["sources"][1]["on_bad_record"] = "drop"
    written[0].write_text(yaml.safe_dump({**document, "spark": {"conf": dict(SMALL)}}))
    return load_pipeline(written[0])


def reaches_the_logs_end(loaded: LoadedPipeline) -> None:
    """The connector receives what the log holds now, though it may be of no captured table."""
    options = watched_slot(loaded)
    assert options is not None
    log = DatabaseLog(options)
    wait_for(lambda: log.unread() == 0, "the connector", 60)


def test_a_table_of_long_values_is_followed_through_a_truncate(
    case: CdcCase, spark: SparkSession
) -> None:
    loaded = captured(case)
    case.execute("UPDATE docs SET state = 1 WHERE id < 50")
    take_snapshot(loaded)
    case.execute(
        "UPDATE docs SET state = 2 WHERE id % 2 = 0",
        "UPDATE docs SET body = repeat('b', 4000) WHERE id % 3 = 0",
        "UPDATE docs SET state = 3 WHERE id % 3 = 0",
        "UPDATE docs SET tags = NULL, state = 4 WHERE id % 5 = 0",
        "DELETE FROM docs WHERE id % 11 = 0",
        "UPDATE docs SET state = 5 WHERE id % 7 = 0",
        "CREATE TABLE others AS SELECT repeat('x', 1000) AS x FROM generate_series(1, 100)",
    )
    reaches_the_logs_end(loaded)
    run_chain(spark, loaded, is_equal(loaded))
    assert (wrong(audit(loaded)), audit(loaded).ok) == ({}, True)
    case.execute(
        "UPDATE docs SET state = 6 WHERE id < 100",
        "TRUNCATE docs",
        "INSERT INTO docs SELECT n, 7, repeat('n', 3000), NULL, 1 FROM generate_series(1, 50) n",
        "UPDATE docs SET state = 8 WHERE id % 2 = 0",
    )
    run_live(spark, loaded, is_equal(loaded))
    assert (wrong(audit(loaded)), audit(loaded).ok) == ({}, True)
    # The row of the new key has no such value: one row is missing until a change has all.
    case.execute("UPDATE docs SET id = id + 1000 WHERE id = 13")
    run_live(spark, loaded, lambda _: wrong_rows(loaded) == 1)
    assert not compare_with_source(loaded).ok
    case.execute("UPDATE docs SET state = 9 WHERE id = 1013")
    run_live(spark, loaded, lambda _: wrong_rows(loaded) == 1)
    case.execute("UPDATE docs SET body = 'short' WHERE id = 1013")
    run_live(spark, loaded, is_equal(loaded))
    assert wrong_rows(loaded) == 0


def wrong_rows(loaded: LoadedPipeline) -> int:
    """How many rows of the target are known to be wrong."""
    return read_wrong_rows(loaded.require_generation(), "changes").count
