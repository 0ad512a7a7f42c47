"""A captured table whose topic Debezium makes with the first change: it equals the database."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.servers.connect import debezium_config
from hybrid_extensions.servers.connectors import Connectors
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.hand_over import hand_over
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.context import PipelineContext
from tests.e2e.case import live_of, wrong
from tests.e2e.changes.cdc_case import CdcCase, is_equal, take_snapshot
from tests.e2e.in_session import run_history, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def test_changes_from_before_and_after_the_snapshot_come_by_a_topic_that_did_not_exist(
    case: CdcCase, spark: SparkSession, postgres: LocalPostgres, connect: Connectors
) -> None:
    tables = ["public.orders"]
    case.connect(
        case.name,
        debezium_config(
            postgres, case.name, tables, database_dbname=case.name, snapshot_mode="no_data"
        ),
    )
    loaded = case.pipeline(
        edit=lambda declared: declared["sources"][1].update(missing_topic="wait")
    )
    # The snapshot sees these changes, and the connector has not read them.
    config = connect.delete(case.name)
    case.execute(
        "UPDATE orders SET amount = 1 WHERE id <= 100", "DELETE FROM orders WHERE id > 800"
    )
    assert take_snapshot(loaded).offsets == {}
    assert KafkaLog(live_of(loaded)).missing == live_of(loaded).topics
    run_history(spark, loaded)
    assert hand_over(PipelineContext.require(loaded), live_of(loaded)).entries == []

    def changes() -> None:
        connect.create(case.name, config)
        case.execute(
            "UPDATE orders SET amount = 2 WHERE id <= 50",
            "DELETE FROM orders WHERE id BETWEEN 60 AND 70",
            "UPDATE orders SET id = 9000 WHERE id = 80",
        )

    run_live(spark, loaded, is_equal(loaded), meanwhile=changes)
    assert KafkaLog(live_of(loaded)).missing == []
    report = audit(loaded)
    assert (wrong(report), report.ok) == ({}, True)
