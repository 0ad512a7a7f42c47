"""Every kind of evidence for where history ends leads to an exact union."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.errors import SeamError
from sources.hand_over import hand_over
from sources.ledger import read_ledger
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from tests.e2e.case import TOPIC, Case, live_of, moment, wrong
from tests.e2e.in_session import run_and_audit, run_chain, run_history, seam_is_counted
from tests.hybrid_extensions.held_offsets.archive_case import archive, by_columns, in_transactions
from tests.sources.hand_over_case import delete_below

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
# Out of order by up to 40 minutes, as real feeds are.
SHUFFLED = sorted(TOPIC, key=lambda n: n + (n * 7919) % 40)


def test_the_filter_leaves_the_query_once_the_stream_has_passed_the_seam(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    case.write_history()
    case.produce()
    loaded = case.pipeline()
    ledger = run_chain(spark, loaded, is_done=seam_is_counted(loaded))
    assert ledger.rule == "key"
    _, count = read_ledger(loaded.require_generation(), "live")
    assert count is not None
    # Complete through event 899 (999 minus 100 minutes), so 899…999 were in both.
    assert sum(count.removed.values()) == 101
    report = audit(loaded)
    assert wrong(report) == {}
    assert [line.outcome for line in report.ledger] == ["agrees", "agrees"]
    assert sum(line.delivered or 0 for line in report.ledger) == 101
    assert report.ok


def test_without_a_key_rows_up_to_the_end_of_history_are_taken_for_delivered(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    case.write_history()
    case.produce(SHUFFLED)
    (tmp_path / "once.sql").write_text("SELECT DISTINCT * FROM input")

    def without_key(document: dict[str, Any]) -> None:
        del document["key"]
        document["audit"] = {"sql": "once.sql"}

    loaded = case.pipeline(without_key)
    ledger = run_chain(spark, loaded, is_done=seam_is_counted(loaded))
    assert ledger.rule == "event_time"
    (warning,) = make_plan(loaded).warnings
    assert "No `key` is declared" in warning
    assert "reached the topic but not the files is lost" in warning
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (2000, {})
    assert report.ok


def test_a_record_appended_before_the_end_with_an_older_time_and_not_in_the_files_arrives(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    # Flink's page starts at the end of the files plus 1 ms: record 995 would lie before that
    # offset, and in no file.
    case = Case(tmp_path, servers)
    case.write_history(n for n in range(1000) if n != 995)
    case.produce([*range(500, 995), *range(996, 1000), 995, *range(1000, 1500)])
    loaded = case.pipeline()
    report = run_and_audit(spark, loaded)
    assert (report.expected, wrong(report)) == (1500, {})


def test_a_fixed_start_after_what_history_surely_holds_is_refused(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    end = moment(999) + timedelta(milliseconds=1)
    loaded = case.pipeline(start({"timestamp": end.isoformat()}))
    with pytest.raises(SeamError) as caught:
        make_plan(loaded)
    assert str(caught.value) == (
        f"Topic `{case.topic}`, partition 0: history is complete through 2024-01-01T14:59:00Z, "
        "which is offset 399; the start would be offset 500. No start was decided, as rows could "
        "be missing from the table. Let the files of history cover these records (`on_gap: "
        "extend` reads files that arrived in the meantime), or declare `on_gap: accept` for "
        "source `live` to continue without these records."
    )


def test_now_minus_a_span_is_fixed_when_the_hand_over_is_made(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    ago = datetime.now(UTC) - moment(700)
    loaded = case.pipeline(start({"ago": f"{int(ago.total_seconds())} s"}))
    run_chain(spark, loaded)
    begun = hand_over(PipelineContext.require(loaded), live_of(loaded))
    assert begun.decided_by == "fixed"
    # A minute may have passed since.
    assert begun.entries[0].start in (200, 201)
    assert hand_over(PipelineContext.require(loaded), live_of(loaded)) == begun
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (2000, {})


@pytest.mark.parametrize("shape", ["time", "offsets"])
def test_a_factory_that_the_user_wrote_decides_the_start(
    tmp_path: Path, servers: str, spark: SparkSession, shape: str
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    case.write_history()
    case.produce()
    (tmp_path / f"where_{shape}.py").write_text(
        "from datetime import UTC, datetime, timedelta\n"
        "def time(context):\n"
        "    through = context.previous.complete_through_ms\n"
        "    return datetime.fromtimestamp(through / 1000, UTC) - timedelta(minutes=10)\n"
        "def offsets(context):\n"
        "    assert len(context.log.partitions) == 2\n"
        "    return {at.partition: 150 for at in context.log.partitions}\n"
    )
    loaded = case.pipeline(start({"factory": f"where_{shape}:{shape}"}))
    ledger = run_chain(spark, loaded)
    assert ledger.decided_by == "factory"
    assert [entry.start for entry in ledger.entries] == ([195, 194], [150, 150])[shape == "offsets"]
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (2000, {})


def test_a_factory_that_returns_nonsense_is_refused_while_planning(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    (tmp_path / "nonsense.py").write_text("def start(context):\n    return 'yesterday'\n")
    loaded = case.pipeline(start({"factory": "nonsense:start"}))
    with pytest.raises(SeamError, match=r"`start.factory: nonsense:start` returned 'yesterday'"):
        make_plan(loaded)
    assert not (tmp_path / "state").exists()


def test_offset_columns_tell_exactly_and_nothing_is_filtered(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    case.produce(SHUFFLED)
    (tmp_path / "in").mkdir()
    # What an archiver does: each partition up to an offset of its own, in no order of time.
    archived = [n for n in SHUFFLED if n % 2 == 0][:300], [n for n in SHUFFLED if n % 2][:255]
    for partition, numbers in enumerate(archived):
        write_with_offsets(tmp_path / "in" / f"part-{partition}.parquet", partition, numbers)

    def by_columns(document: dict[str, Any]) -> None:
        # The offset columns are no columns of the rows: the topic's values do not have them.
        columns = {"id": "bigint", "at": "timestamp", "v": "double"}
        offsets = {"partition": "_p", "offset": "_o"}
        document["sources"][0].update(path="in/part-*.parquet", schema=columns, offsets=offsets)
        document["allowed_lateness"] = "0 s"

    loaded = case.pipeline(by_columns)
    ledger = run_chain(spark, loaded)
    assert [entry.start for entry in ledger.entries] == [300, 255]
    assert ledger.rule == "none"
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1500, {})


@pytest.mark.parametrize("form", ["start", "start and end"])
def test_names_of_kafka_connect_tell_the_offsets(
    tmp_path: Path, servers: str, spark: SparkSession, form: str
) -> None:
    case = Case(tmp_path, servers)
    case.produce(range(2000))

    def name(_: int, events: list[int]) -> str:
        # Event n lies at offset n.
        end = f"+{events[-1]:010}" if form != "start" else ""
        return f"{case.topic}+0+{events[0]:010}{end}.snappy.parquet"

    case.write_history(range(1000), name=name)
    loaded = case.pipeline(lambda document: document["sources"][0].update(offsets="names"))
    ledger = run_chain(spark, loaded)
    assert ledger.decided_by == "offsets"
    # Without an end the names only suggest where the files end: time decides.
    assert [entry.start for entry in ledger.entries] == [1000 if form != "start" else 899]
    assert ledger.rule == ("none" if form != "start" else "key")
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (2000, {})


def test_a_file_that_the_archive_lacks_is_a_hole(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.produce(range(1500))
    case.write_history(
        range(1000), name=lambda _, n: f"{case.topic}+0+{n[0]:010}+{n[-1]:010}.parquet"
    )
    (tmp_path / "in" / f"{case.topic}+0+0000000500+0000000749.parquet").unlink()
    loaded = case.pipeline(lambda document: document["sources"][0].update(offsets="names"))
    with pytest.raises(SeamError, match="holds later records, but not the one at offset 500"):
        make_plan(loaded)


@pytest.mark.parametrize("state", ["transactions", "retention"])
def test_the_log_of_the_files_is_recognized_also_over_markers_and_deleted_records(
    tmp_path: Path, servers: str, spark: SparkSession, state: str
) -> None:
    case = Case(tmp_path, servers)
    if state == "transactions":
        written = in_transactions(case, 400, 30)
    else:
        case.produce(range(400))
        written = [(n, n) for n in range(400)]
    archive(case, [(0, offset, n) for offset, n in written[:210]])
    if state == "retention":
        delete_below(case, 200)
    loaded = case.pipeline(by_columns())
    ledger = run_chain(spark, loaded)
    assert (ledger.decided_by, ledger.rule) == ("offsets", "none")
    assert [entry.start for entry in ledger.entries] == [written[209][0] + 1]
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (400, {})


def test_changes_up_to_the_log_position_of_a_snapshot_are_dropped(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(1000))
    # `id` serves as the log position: the topic holds changes 500…1999, some out of order.
    case.produce(SHUFFLED)

    def snapshot(document: dict[str, Any]) -> None:
        document["sequence"] = "id"
        document["sources"][0]["sequence"] = "0/3E7"  # 999

    loaded = case.pipeline(snapshot)
    ledger = run_chain(spark, loaded)
    assert (ledger.decided_by, ledger.rule) == ("sequence", "sequence")
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (2000, {})


def test_an_end_position_costs_no_second_look_at_the_files(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = case.pipeline()
    run_history(spark, loaded)
    for file in (tmp_path / "in").iterdir():
        file.unlink()
    assert hand_over(PipelineContext.require(loaded), live_of(loaded)).entries[0].start == 399


def start(where: dict[str, Any]) -> Any:
    return lambda document: document["sources"][1].update(start=where)


def write_with_offsets(path: Path, partition: int, numbers: list[int]) -> None:
    table = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "at": pa.array([moment(n) for n in numbers], pa.timestamp("us", "UTC")),
            "v": pa.array([n / 2 for n in numbers], pa.float64()),
            "_p": pa.array([partition] * len(numbers), pa.int32()),
            "_o": pa.array(range(len(numbers)), pa.int64()),
        }
    )
    pq.write_table(table, path)
