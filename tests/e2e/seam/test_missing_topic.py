"""A topic that does not exist when a pipeline starts: waited for, or created, and read whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.servers.broker import create_topic
from orchestration.supervision.source_status import source_status
from sources.hand_over import hand_over
from sources.hand_over_checks import check_hand_over, require_sound
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from tests.e2e.case import Case, live_of, wrong
from tests.e2e.in_session import run_history, run_live
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def without_topic(case: Case) -> None:
    admin = AdminClient({"bootstrap.servers": case.servers})
    admin.delete_topics([case.topic])[case.topic].result()
    wait_for(lambda: case.topic not in admin.list_topics().topics, "the end of the topic", 30)


def test_a_topic_that_is_waited_for_is_read_from_its_first_record(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    without_topic(case)
    # Not all of what is older than the end of history.
    case.write_history([*range(900), *range(950, 1000)])
    loaded = case.pipeline(lambda declared: declared["sources"][1].update(missing_topic="wait"))
    (warning,) = [each for each in make_plan(loaded).warnings if "waits" in each]
    assert f"there is no topic `{case.topic}` yet" in warning
    run_history(spark, loaded)
    context, live = PipelineContext.require(loaded), live_of(loaded)
    assert hand_over(context, live).entries == []
    require_sound(context, live)
    assert "waits: there is no topic" in check_hand_over(context, live)[0].text

    def appears() -> None:
        status = source_status(loaded, loaded.require_generation(), "live")
        assert status.note is not None
        assert f"there is no topic `{case.topic}` yet" in status.note
        create_topic(servers, case.topic, 2, {"retention.ms": "-1"})
        case.partitions = 2
        case.produce([*range(900, 950), *range(1000, 1100)])

    run_live(spark, loaded, meanwhile=appears)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1100, {})
    # At another start it is there.
    case.produce(range(1100, 1150))
    run_live(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1150, {})
