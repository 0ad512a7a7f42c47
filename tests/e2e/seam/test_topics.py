"""What topics may hold: several, patterns, transactions, compaction, partitions that come later."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.servers.broker import create_topic
from sources.config.loader import LoadedPipeline
from sources.errors import SeamError, StateError
from sources.hand_over import hand_over
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.query.places import followed_topic_stream
from tests.e2e.case import Case, as_json, live_of, moment, windows, wrong
from tests.e2e.in_session import run_and_audit, run_chain, run_history, run_live
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.parametrize("how", ["list", "pattern"])
def test_several_topics_make_one_source(
    tmp_path: Path, servers: str, spark: SparkSession, how: str
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    other = f"{case.topic}-more"
    create_topic(servers, other, 2, {"retention.ms": "-1"})
    case.write_history()
    # A slow topic and a fast one.
    case.produce(n for n in range(500, 1100) if n % 3)
    case.produce((n for n in range(500, 2000) if n % 3 == 0), other)

    def several(document: dict[str, Any]) -> None:
        live = document["sources"][1]
        if how == "list":
            live["topic"] = [case.topic, other]
        else:
            del live["topic"]
            live["topic_pattern"] = f"{case.topic}.*"

    loaded = case.pipeline(several)
    ledger = run_chain(spark, loaded)
    assert len(ledger.entries) == 4
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1000 + 66 + 334, {})
    assert report.ok


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_aborted_transactions_and_control_records_take_up_offsets(
    tmp_path: Path, servers: str, spark: SparkSession, isolation: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    # One transaction for each 50 events; those of 1200…1299 are taken back at first.
    for first in range(500, 1400, 50):
        if first in (1200, 1250):
            transact(case, range(first, first + 50), commit=False)
    in_order = [range(first, first + 50) for first in range(500, 1400, 50)]
    for numbers in in_order:
        transact(case, numbers, commit=numbers.start not in (1300,))
    loaded = case.pipeline(lambda document: document["sources"][1].update(isolation=isolation))
    report = run_and_audit(spark, loaded)
    if isolation == "read_committed":
        assert (report.expected, wrong(report)) == (1350, {})
    else:
        # Rows of aborted transactions are rows to such a reader: they were sent twice.
        assert report.expected == 1400
        assert wrong(report) == {"duplicated": 100}


def test_an_open_transaction_is_waited_for(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1000))
    producer = transactional(case)
    producer.begin_transaction()
    send(producer, case, range(1000, 1100))
    loaded = case.pipeline()
    run_history(spark, loaded)
    # History was listed while the transaction was open: the seam reaches beyond it.
    assert list(make_plan(loaded).topic.seam_end.values()) == [600]  # type: ignore[union-attr]
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    case.produce(range(1100, 1200))

    def commit() -> None:
        producer.commit_transaction()
        source = live_of(loaded)
        wait_for(lambda: sum(KafkaLog(source).log_end().values()) == 701, "the commit", 30)

    run_live(spark, loaded, meanwhile=commit)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1200, {})


def test_a_compacted_topic_is_refused_below_a_sink_that_keeps_every_row(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers, config={"cleanup.policy": "compact"})
    case.write_history()
    with pytest.raises(SeamError, match=f"Topic `{case.topic}` is compacted"):
        make_plan(case.pipeline())


def test_a_compacted_topic_that_is_accepted_is_read_over_the_offsets_that_are_gone(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "600000",
        "min.cleanable.dirty.ratio": "0.01",
    }
    case = Case(tmp_path, servers, config=config)
    case.write_history()
    for first in range(900, 1500, 50):
        case.produce(range(first, first + 50), key=lambda n: str(n % 100))
    loaded = case.pipeline(lambda document: document["sources"][1].update(on_gap="accept"))
    log = KafkaLog(live_of(loaded))
    wait_for(lambda: len(log.read(log.log_start(), 1000, log.log_end())) < 300, "compaction", 60)
    report = run_and_audit(spark, loaded)
    assert report.expected < 1300
    assert wrong(report) == {}


def test_partitions_that_appear_later_are_read_from_their_beginning(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1000))
    loaded = case.pipeline()
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    # Between the decision and the first launch Spark would refuse the partition.
    case.grow(2)
    case.produce(range(1000, 1100))

    def more() -> None:
        case.grow(3)
        case.produce(range(1100, 1200))

    run_live(spark, loaded, meanwhile=more)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1200, {})


def test_a_topic_that_comes_to_fit_the_pattern_is_read_from_its_beginning(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1100))

    def by_pattern(document: dict[str, Any]) -> None:
        del document["sources"][1]["topic"]
        document["sources"][1]["topic_pattern"] = f"{case.topic}.*"

    loaded = case.pipeline(by_pattern)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))

    def one_more() -> None:
        more = f"{case.topic}-more"
        create_topic(servers, more, 1, {"retention.ms": "-1"})
        case.produce(range(1100, 1200), more)

    run_live(spark, loaded, meanwhile=one_more)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1200, {})


@pytest.mark.parametrize("other", ["{}-rejected", "old-{}", "__heartbeat.{}"])
def test_only_a_topic_whose_whole_name_fits_the_pattern_is_read(
    tmp_path: Path, servers: str, spark: SparkSession, other: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1100))
    is_tool = other.startswith("__")

    def by_pattern(document: dict[str, Any]) -> None:
        del document["sources"][1]["topic"]
        document["sources"][1]["topic_pattern"] = f"none|{'.*' if is_tool else ''}{case.topic}"

    def one_more() -> None:
        more = other.format(case.topic)
        create_topic(servers, more, 1, {"retention.ms": "-1"})
        case.produce(range(5000, 5100), more)
        case.produce(range(1100, 1200))

    loaded = case.pipeline(by_pattern)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    run_live(spark, loaded, meanwhile=one_more)
    # The next run finds both.
    case.produce(range(1200, 1300))
    run_live(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1300, {})


def test_a_start_that_differs_from_what_the_checkpoint_fixed_is_refused(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = case.pipeline()
    run_chain(spark, loaded)
    path = loaded.require_generation().path("positions/live-start.json")
    path.write_text(path.read_text().replace('"start": 399', '"start": 400'))
    # Spark would ignore it silently.
    told = "was decided to start at offset 400, but the checkpoint started it at 399"
    with pytest.raises(StateError, match=told):
        run_live(spark, loaded)


def test_an_empty_topic_and_empty_partitions_start_where_they_are(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=4)
    case.write_history()
    loaded = case.pipeline()
    run_history(spark, loaded)
    ledger = hand_over(PipelineContext.require(loaded), live_of(loaded))
    assert [entry.start for entry in ledger.entries] == [0, 0, 0, 0]
    case.produce(n for n in range(1000, 1100) if n % 4 != 3)
    run_live(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1075, {})


def transactional(case: Case) -> Producer:
    producer = Producer({"bootstrap.servers": case.servers, "transactional.id": case.topic})
    producer.init_transactions(30)
    return producer


def send(producer: Producer, case: Case, numbers: range) -> None:
    for n in numbers:
        time_ms = int(moment(n).timestamp() * 1000)
        producer.produce(case.topic, as_json(n).encode(), partition=0, timestamp=time_ms)
    producer.flush(30)


def transact(case: Case, numbers: range, *, commit: bool) -> None:
    producer = transactional(case)
    producer.begin_transaction()
    send(producer, case, numbers)
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()


def test_the_first_micro_batch_is_small_and_later_ones_are_not(
    tmp_path: Path, servers: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_topic_stream, "FIRST_OFFSETS", 40)
    case = Case(tmp_path, servers, partitions=2)
    case.write_history()
    case.produce(range(500, 1500))
    loaded = case.pipeline()
    run_chain(spark, loaded)
    sizes = sizes_of_micro_batches(loaded)
    assert sizes[0] <= 40
    assert max(sizes[1:]) > 500
    assert audit(loaded).ok


@pytest.mark.parametrize(("mode", "is_small"), [("append", False), ("merge", True)])
def test_windows_that_are_appended_once_closed_begin_with_all_that_waits(
    tmp_path: Path,
    servers: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    is_small: bool,
) -> None:
    monkeypatch.setattr(followed_topic_stream, "FIRST_OFFSETS", 40)
    case = Case(tmp_path, servers, partitions=2)
    case.write_history()
    case.produce(range(500, 1500))

    def counted(document: dict[str, Any]) -> None:
        windows(document)
        document["sink"]["mode"] = mode

    loaded = case.pipeline(counted)
    run_chain(spark, loaded)
    assert (sizes_of_micro_batches(loaded)[0] <= 40) == is_small


def sizes_of_micro_batches(loaded: LoadedPipeline) -> list[int]:
    """Number of offsets of each micro-batch that has read the topic."""
    checkpoint = loaded.require_generation().checkpoint
    last, begun = (
        offset_log.last_planned(checkpoint),
        offset_log.initial_kafka_offsets(checkpoint, 1),
    )
    assert last is not None
    assert begun is not None
    reached = [
        sum(offset_log.kafka_offsets(offset).values())
        for number in range(last + 1)
        if (offset := offset_log.offset_of(checkpoint, number, 1)) is not None
    ]
    return [after - before for before, after in pairwise([sum(begun.values()), *reached])]
