"""The count of the seam's rows: made by the stream that removes them, or by reading them again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_testing.chain import QUICK
from sources.common.positions import TopicPartition
from sources.config.loader import LoadedPipeline
from sources.hand_over import hand_over
from sources.ledger import read_ledger
from sources.planning.context import PipelineContext
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.inside.driver.unbounded_run import run_unbounded
from spark_jobs.inside.readers.topics.kafka_stream import read_topics
from spark_jobs.run_state.heartbeat import read_heartbeat
from tests.e2e.case import TOPIC, Case, live_of, windows, wrong
from tests.e2e.in_session import run_and_audit, run_history, run_live
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def two_micro_batches(document: dict[str, Any]) -> None:
    document["sources"][1]["max_offsets_per_batch"] = 800


def no_key(document: dict[str, Any]) -> None:
    del document["key"]
    # Without a key the audit can't tell which rows are in files and topic both.
    document["audit"] = {"sql": "once.sql"}


def rows_used_twice(document: dict[str, Any]) -> None:
    document["transform"] = "transforms:both"


def bounded(document: dict[str, Any]) -> None:
    files, live = document["sources"]
    document["sources"] = [files, {**live, "until": "latest"}]


def require_counted(loaded: LoadedPipeline, case: Case) -> None:
    """Refuse a count that is not what topic and history, 500…1999 and 0…999, make of the seam."""
    ledger, count = read_ledger(loaded.require_generation(), live_of(loaded).name)
    assert ledger is not None
    assert count is not None
    for entry in ledger.entries:
        at = TopicPartition(case.topic, entry.partition)
        assert count.rows[at] == entry.seam_end - entry.start == entry.overlap
        own = [n for n in TOPIC if n % case.partitions == entry.partition]
        assert count.removed[at] == sum(n < 1000 for n in own[entry.start : entry.seam_end]) > 0


@pytest.mark.parametrize("edit", [two_micro_batches, no_key, windows, rows_used_twice, bounded])
def test_the_stream_counts_what_it_removes(
    tmp_path: Path,
    servers: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    edit: Callable[[dict[str, Any]], None],
) -> None:
    # The seam is not read a second time.
    monkeypatch.setattr("spark_jobs.inside.query.seam.topic_seam.read_topics", pytest.fail)
    case = Case(tmp_path, servers, partitions=2)
    case.write_history()
    case.produce()
    with (tmp_path / "transforms.py").open("a") as module:
        module.write("\ndef both(rows):\n    return rows.union(rows.where('id < 0'))\n")
    (tmp_path / "once.sql").write_text("SELECT DISTINCT * FROM input")
    loaded = case.pipeline(edit)
    if edit is bounded:
        run_history(spark, loaded)
    else:
        report = run_and_audit(spark, loaded)
        assert wrong(report) == {}
        assert {line.outcome for line in report.ledger} == {"agrees"}
    require_counted(loaded, case)


def test_a_seam_that_two_drivers_have_read_is_read_again_to_count_it(
    tmp_path: Path, servers: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = Mock(wraps=read_topics)
    monkeypatch.setattr("spark_jobs.inside.query.seam.topic_seam.read_topics", again)
    case = Case(tmp_path, servers, partitions=2)
    case.write_history()
    case.produce()

    def held(document: dict[str, Any]) -> None:
        document["sources"][1]["max_offsets_per_batch"] = 300
        document["transform"] = "transforms:held"

    loaded = case.pipeline(held)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    (tmp_path / "hold").touch()
    read_some(spark, loaded)
    (tmp_path / "hold").unlink()
    run_live(spark, loaded)
    assert wrong(audit(loaded)) == {}
    require_counted(loaded, case)
    assert again.call_count == 1


def read_some(spark: SparkSession, loaded: LoadedPipeline) -> None:
    """Follow the topic until something of it is committed, then stop."""
    context, stop = PipelineContext.require(loaded), threading.Event()
    reporter = Reporter(context, "live", "first", None, beats=QUICK)
    arguments = (spark, context, "live", reporter, stop)
    thread = threading.Thread(target=run_unbounded, args=arguments)
    thread.start()

    def has_read() -> bool:
        beat = read_heartbeat(context.generation, "live")
        return beat is not None and beat.launch_id == "first" and beat.batches > 0

    try:
        wait_for(has_read, "a micro-batch of the topic", 120)
    finally:
        stop.set()
        thread.join()
