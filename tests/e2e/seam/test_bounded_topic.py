"""A topic that is read to an end, then followed for ever; alone, and between files and a topic."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.servers.broker import create_topic
from hybrid_testing.chain import QUICK
from orchestration.catch_up import wait_until_caught_up
from orchestration.defs.assets.chain_assets import pipeline_assets
from orchestration.operations import stopping
from orchestration.supervision.status import status
from sources.common.positions import TopicPartition
from sources.config.loader import LoadedPipeline
from sources.errors import SeamError
from sources.hand_over import hand_over
from sources.hybrid import SwitchState
from sources.ledger import read_ledger
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from sources.planning.topics.topic_range import require_range
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.driver.bounded_run import INCOMPLETE, run_bounded
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.table.delta_table import transactions_of
from tests.e2e.case import Case, moment, steps, windows, wrong
from tests.e2e.in_session import run_and_audit, run_chain, run_history, run_live, seam_is_counted
from tests.e2e.seam.test_topics import transact
from tests.services.processes import wait_for
from tests.sources.hand_over_case import delete_below

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
COLUMNS = {"id": "bigint", "at": "timestamp", "v": "double"}


def archive_first(**fields: Any) -> Callable[[dict[str, Any]], None]:
    """The topic up to an end, then the same topic; no files."""

    def edit(document: dict[str, Any]) -> None:
        live = document["sources"][1]
        declared = {"name": "archive", "start": "earliest", "until": "latest", "schema": COLUMNS}
        document["sources"] = [{**live, **declared, **fields}, live]

    return edit


def archive_between(topic: str | list[str], **fields: Any) -> Callable[[dict[str, Any]], None]:
    """Files, then a topic up to an end, then the live one."""

    def edit(document: dict[str, Any]) -> None:
        files, live = document["sources"]
        archive = {**live, "name": "archive", "topic": topic, "until": "latest", **fields}
        document["sources"] = [files, archive, live]

    return edit


def another_topic(case: Case) -> str:
    name = f"{case.topic}-archive"
    create_topic(case.servers, name, case.partitions, {"retention.ms": "-1"})
    return name


def test_a_topic_is_read_to_its_end_and_followed_from_exactly_there(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    case.produce(range(1000))

    def no_key(document: dict[str, Any]) -> None:
        archive_first(max_offsets_per_batch=300)(document)
        # Nothing but exact offsets keeps rows from coming twice.
        del document["key"]

    loaded = case.pipeline(no_key)
    make_plan(loaded)
    case.produce(range(1000, 1500))
    report = run_and_audit(spark, loaded)
    assert (report.expected, wrong(report)) == (1500, {})
    assert report.ok
    generation = loaded.require_generation()
    assert sum(require_range(generation, "archive").ends.values()) == 1000
    ledger, _ = read_ledger(generation, "live")
    assert ledger is not None
    assert ledger.rule == "none"
    assert [entry.start for entry in ledger.entries] == [500, 500]


def test_files_then_an_archive_topic_then_a_live_topic(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    archive = another_topic(case)
    case.write_history(range(1000))
    # Out of order, and one row long after its time: files hold 3, the archive alone holds 1205.
    case.produce([*sorted(range(500, 1500), key=lambda n: n + (n * 7919) % 40), 3], archive)
    case.produce([*range(1300, 1900), 3, 700, 1205, *range(1900, 2000)])
    loaded = case.pipeline(archive_between(archive, max_offsets_per_batch=300))
    run_chain(spark, loaded, seam_is_counted(loaded))
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (2000, {})
    assert report.ok
    assert not [line for line in report.ledger if line.removed is None]
    removed = {
        name: sum(line.removed or 0 for line in report.ledger if line.source == name)
        for name in ("archive", "live")
    }
    # Of the archive: 899 (complete through) to 999, and the late one. Of the live topic: rows from
    # where the archive is complete (1499 or 1498 minus 100) up to 1499, and three late ones.
    assert removed["archive"] > 100
    assert removed["live"] > 100


def test_files_then_the_topic_in_step_then_the_same_topic(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    case.write_history(range(1000))
    case.produce(range(500, 1500))
    loaded = case.pipeline(
        archive_between(case.topic, max_offsets_per_batch=200, align={"drift": "10 min"})
    )
    run_history(spark, loaded)
    case.produce(range(1500, 2000))
    ledger = hand_over(PipelineContext.require(loaded), loaded.pipeline.topics[-1])
    # The archive has passed the seam of the files: the live topic needs no filter.
    assert (ledger.rule, ledger.decided_by) == ("none", "offsets")
    run_live(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (2000, {})
    assert report.ok


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_aborted_transactions_and_control_records_at_the_end_of_the_range(
    tmp_path: Path, servers: str, spark: SparkSession, isolation: str
) -> None:
    case = Case(tmp_path, servers)
    for first in range(0, 400, 50):
        if first == 200:
            transact(case, range(200, 250), commit=False)
        transact(case, range(first, first + 50), commit=True)
    transact(case, range(400, 450), commit=False)
    # Batches begin and end within transactions, and some hold nothing but aborted records.
    loaded = case.pipeline(archive_first(max_offsets_per_batch=23, isolation=isolation))
    run_history(spark, loaded)
    found = require_range(loaded.require_generation(), "archive")
    assert found.ends == {TopicPartition(case.topic, 0): 10 * 51}
    transact(case, range(450, 500), commit=True)
    hand_over(PipelineContext.require(loaded), loaded.pipeline.topics[-1])
    run_live(spark, loaded)
    report = audit(loaded)
    if isolation == "read_committed":
        assert (report.expected, wrong(report)) == (450, {})
    else:
        # Rows of aborted transactions are rows to the archive's reader, 50 of them sent twice.
        assert (report.expected, wrong(report)) == (500, {"duplicated": 50})


@pytest.mark.parametrize("is_aligned", [True, False])
def test_partitions_in_step_lose_no_row_behind_the_watermark(
    tmp_path: Path, servers: str, spark: SparkSession, *, is_aligned: bool
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    # One partition is even in time; the other has nearly all of its records at the beginning.
    slow = [*range(1, 361, 2), *range(361, 2000, 82)]
    case.produce(sorted([*range(0, 2000, 2), *slow]))
    align = {"align": {"drift": "30 min"}} if is_aligned else {}

    def windowed(document: dict[str, Any]) -> None:
        archive_first(max_offsets_per_batch=300, **align)(document)
        windows(document)
        if not is_aligned:
            # By default the first of them ends the run.
            document["supervision"] = {"late_rows": {"history": None}}

    report = run_and_audit(spark, case.pipeline(windowed))
    assert report.expected > 30
    assert report.input_rows.distinct == 1200
    if is_aligned:
        assert wrong(report) == {}
    else:
        # The same computation sees the rows that came too late for their windows.
        assert wrong(report).get("different", 0) > 3


def test_a_run_that_stopped_or_died_goes_on_with_the_batch_that_was_due(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    case.produce(range(1000))
    loaded = case.pipeline(archive_first(max_offsets_per_batch=40))
    make_plan(loaded)
    generation = loaded.require_generation()
    hand_over(PipelineContext.require(loaded), loaded.pipeline.topics[0])
    assert stop_after_first_batch(spark, loaded) == INCOMPLETE
    done = offset_log.last_committed(generation.checkpoint)
    assert done is not None
    assert done < 24
    enumerator = SwitchState(loaded.pipeline.hybrid_source(), generation)
    assert enumerator.end_of("archive") is None
    # What a crash between the write and the commit leaves: the batch is made again. The stop may
    # have left the next one so.
    writer = offset_log.query_id(generation.checkpoint)
    assert writer is not None
    if transactions_of(loaded.target, [writer])[writer] == done:
        (generation.checkpoint.root / "commits" / str(done)).unlink()
        (generation.checkpoint.root / "commits" / f".{done}.crc").unlink(missing_ok=True)
        # Or it may have come after Spark had planned the next one.
        (generation.checkpoint.root / "offsets" / str(done + 1)).unlink(missing_ok=True)
        (generation.checkpoint.root / "offsets" / f".{done + 1}.crc").unlink(missing_ok=True)
    case.produce(range(1000, 1200))
    run_chain(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1200, {})


def test_a_chain_whose_last_topic_has_an_end_ends(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    case.write_history(range(600))
    case.produce(range(400, 1000))

    def until_a_time(document: dict[str, Any]) -> None:
        document["sources"][1]["until"] = {"timestamp": moment(800)}

    loaded = case.pipeline(until_a_time)
    run_history(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report), report.ok) == (800, {}, True)


def test_a_place_that_is_drained_is_never_read_again(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    archive = another_topic(case)
    case.produce(range(1000), archive)
    case.produce(range(900, 1100))

    def two_topics(document: dict[str, Any]) -> None:
        archive_first(topic=archive)(document)

    loaded = case.pipeline(two_topics)
    run_chain(spark, loaded, seam_is_counted(loaded))
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([archive])[archive].result()
    case.produce(range(1100, 1200))
    run_live(spark, loaded)
    rows = spark.read.format("delta").load(str(tmp_path / "out"))
    assert (rows.count(), rows.select("id").distinct().count()) == (1200, 1200)


def test_records_that_are_deleted_before_they_are_read_stop_the_run(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.produce(range(1000))
    loaded = case.pipeline(archive_first(max_offsets_per_batch=100))
    make_plan(loaded)
    hand_over(PipelineContext.require(loaded), loaded.pipeline.topics[0])
    stop_after_first_batch(spark, loaded)
    done = offset_log.last_committed(loaded.require_generation().checkpoint)
    assert done is not None
    # What was read may go; the rest may not.
    delete_below(case, 50)
    assert stop_after_first_batch(spark, loaded) == INCOMPLETE
    delete_below(case, 990)
    with pytest.raises(SeamError, match=rf"`{case.topic}`, partition 0 is to be read from offset"):
        run_history(spark, loaded)


def test_each_bounded_topic_is_an_asset_and_has_a_start_unless_it_is_the_first(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    archive = another_topic(case)
    case.write_history(range(600))
    case.produce(range(500, 1000), archive)
    case.produce(range(900, 1200))
    loaded = case.pipeline(archive_between(archive))
    try:
        with dg.DagsterInstance.ephemeral() as instance:
            result = dg.materialize(pipeline_assets(loaded), instance=instance)
        assert steps(result) == [
            "plan",
            "history",
            "archive_handover",
            "archive",
            "live_handover",
            "live",
        ]
        checks = result.get_asset_check_evaluations()
        assert (len(checks), all(each.passed for each in checks)) == (8, True)
        wait_until_caught_up(PipelineContext.require(loaded))
        states = {each.source: each.state for each in status(loaded).sources}
        assert states == {"history": "finished", "archive": "finished", "live": "running"}
    finally:
        stopping.stop(loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1200, {})
    first = case.pipeline(lambda document: archive_first()(document) or document.update(state="s2"))
    names = [asset.key.path[-1] for asset in pipeline_assets(first)]
    assert names == ["plan", "archive", "live_handover", "live"]


def stop_after_first_batch(spark: SparkSession, loaded: LoadedPipeline) -> int:
    """Run the first source until one more batch is committed."""
    context = PipelineContext.require(loaded)
    generation, name = context.generation, loaded.pipeline.sources[0].name
    reporter = Reporter(context, name, "test", None, beats=QUICK)
    stop = threading.Event()
    before = offset_log.last_committed(generation.checkpoint)

    def watch() -> None:
        wait_for(lambda: offset_log.last_committed(generation.checkpoint) != before, "a batch", 60)
        stop.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        return run_bounded(spark, context, name, reporter, stop)
    finally:
        watcher.join()


def test_a_chain_that_ends_with_a_range_merges_it(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(100), files=2)
    case.produce(range(50, 200))

    def edit(document: dict[str, Any]) -> None:
        document["sources"][1]["until"] = "latest"
        document["sink"] |= {"mode": "merge", "sequence": "v"}

    loaded = case.pipeline(edit)
    run_history(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (200, {})
