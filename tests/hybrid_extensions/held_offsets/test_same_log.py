"""Offsets in files count in one log: another one is refused by its records, the right one never."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from hybrid_extensions.held_offsets.last_rows import SAMPLE, sampled
from hybrid_extensions.held_offsets.same_log import compare_log, judge
from sources.common.database_snapshot import BinlogSnapshot
from sources.common.positions import EndPosition, HeldOffsets, HeldRow, TopicPartition
from sources.common.topic_log import LogRecord
from sources.errors import SeamError
from sources.hand_over import hand_over
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.context import PipelineContext
from sources.planning.plan import draft_plan
from tests.captured_table import NO_SERVER, captured_table
from tests.e2e.case import Case, as_json, live_of, moment
from tests.e2e.seam.test_changed_logs import created_again
from tests.hybrid_extensions.held_offsets.archive_case import (
    Edit,
    archive,
    by_columns,
    in_order,
    in_transactions,
)
from tests.services.processes import wait_for
from tests.sources.hand_over_case import decided, delete_below, up_to_hand_over
from tests.sources.kafka.model_log import ModelLog

TAKEN = BinlogSnapshot(file=3, offset=484, domain=0, sequence=42, taken_ms=1_700_000_000_000)
NOON_MS, MINUTE_MS, HOUR_MS = 1_704_110_400_123, 60_000, 3_600_000
ANOTHER = "are of another log"
SAME, OTHER = {"id": "a"}, {"id": "b"}


def verdict(
    file_ms: int, log_ms: int, found: Mapping[str, str] = SAME, *, by_key: bool = True
) -> str:
    row = HeldRow(
        topic="t",
        partition=0,
        offset=7,
        file="f",
        event_time_ms=file_ms,
        digests=dict.fromkeys(found, "a"),
    )
    return judge(row, log_ms, found, by_key=by_key)


class TestOneRow:
    def test_the_same_time_and_the_same_values_are_the_same_row(self) -> None:
        assert verdict(NOON_MS, NOON_MS) == "same"
        assert verdict(NOON_MS, NOON_MS, {}) == "same"

    @pytest.mark.parametrize("gap_ms", [MINUTE_MS, -MINUTE_MS, 20 * HOUR_MS, 17])
    def test_another_time_and_another_key_are_another_row(self, gap_ms: int) -> None:
        assert verdict(NOON_MS, NOON_MS + gap_ms, OTHER) == "other"
        assert verdict(NOON_MS, NOON_MS + gap_ms, OTHER, by_key=False) == "other"
        assert verdict(NOON_MS, NOON_MS + gap_ms, {}, by_key=False) == "other"

    def test_a_row_whose_time_was_written_otherwise_is_not_refused(self) -> None:
        assert verdict(NOON_MS, NOON_MS + 40 * MINUTE_MS, SAME) == "unsure"
        assert verdict(NOON_MS, NOON_MS, OTHER) == "unsure"

    def test_columns_that_the_files_enrich_are_no_contradiction(self) -> None:
        assert verdict(NOON_MS, NOON_MS, OTHER, by_key=False) == "same"

    @pytest.mark.parametrize("unit_ms", [1000, MINUTE_MS, HOUR_MS, 24 * HOUR_MS])
    def test_a_time_that_was_cut_is_the_same(self, unit_ms: int) -> None:
        cut_ms = NOON_MS - NOON_MS % unit_ms
        for pair in ((cut_ms, NOON_MS), (NOON_MS, cut_ms)):
            assert verdict(*pair) == "same"
            assert verdict(*pair, OTHER, by_key=False) == "unsure"

    def test_a_local_time_without_a_zone_is_not_refused_where_no_key_shows_more(self) -> None:
        assert verdict(NOON_MS, NOON_MS + 2 * HOUR_MS, OTHER, by_key=False) == "unsure"
        assert verdict(NOON_MS, NOON_MS + 2 * HOUR_MS, {}, by_key=False) == "unsure"
        assert verdict(NOON_MS, NOON_MS + 15 * HOUR_MS, {}, by_key=False) == "other"


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 64, 2000])
def test_of_many_partitions_some_dozens_are_looked_at_all_over(count: int) -> None:
    found = sampled(range(count))
    assert len(found) <= SAMPLE
    assert len(found) == count or len(found) > SAMPLE / 2
    assert found == sampled(list(range(count))[::-1]), "the same ones each time"


def without_key(document: dict[str, Any]) -> None:
    del document["key"]


def accepting(document: dict[str, Any]) -> None:
    document["sources"][1]["on_gap"] = "accept"


def warnings_of(case: Case, *edits: Edit) -> list[str]:
    """Warnings of the plan about the log; raises what it refuses."""
    plan, _ = draft_plan(case.pipeline(by_columns(*edits)))
    return [text for text in plan.warnings if "log" in text]


@pytest.mark.kafka
class TestColumns:
    @pytest.mark.parametrize("edits", [[], [without_key]])
    @pytest.mark.parametrize("partitions", [1, 3])
    def test_the_log_that_the_files_were_written_from_is_not_refused(
        self, tmp_path: Path, servers: str, partitions: int, edits: list[Edit]
    ) -> None:
        case = Case(tmp_path, servers, partitions)
        case.produce(range(500))
        archive(case, in_order(300, partitions))
        plan, _ = draft_plan(case.pipeline(by_columns(*edits)))
        assert plan.topic is not None
        assert sum(plan.topic.expected_start.offsets().values()) == 300
        held = plan.files[0].end.offsets
        assert held is not None
        assert len(held.rows) == 32 // partitions * partitions
        assert not [text for text in plan.warnings if "log" in text]

    @pytest.mark.parametrize("edits", [[], [without_key]])
    @pytest.mark.parametrize(
        "numbers",
        [range(2000, 2500), range(3, 500), [*range(900, 907), *range(500)]],
        ids=["created again", "mirror that begins later", "mirror that begins earlier"],
    )
    def test_another_log_is_refused_with_file_offset_and_both_times(
        self, tmp_path: Path, servers: str, numbers: Sequence[int], edits: list[Edit]
    ) -> None:
        case = Case(tmp_path, servers)
        case.produce(numbers)
        archive(case, in_order(300))
        with pytest.raises(SeamError, match=ANOTHER) as caught:
            warnings_of(case, *edits)
        file = str(tmp_path / "in" / "part.parquet")
        where = {"topic": case.topic, "partition": 0, "offset": 299, "file": file}
        assert caught.value.fields == {"source": "live", **where}
        place = (
            f"at offset 299 of topic `{case.topic}`, partition 0, file {file} has the event time"
        )
        for text in (place, "2024-01-01T04:59:00Z", shown(numbers[299]), "`id`"):
            assert text in caught.value.message
        assert "`start: {offsets: …}`" in caught.value.hint
        assert "remove `offsets` from source `history`" in caught.value.hint
        assert not (tmp_path / "state").exists()

    def test_both_ways_out_are_ways_out(self, tmp_path: Path, servers: str) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(3, 500))
        archive(case, in_order(300))

        def by_offsets(document: dict[str, Any]) -> None:
            document["sources"][1]["start"] = {"offsets": {0: 300}}

        def by_time(document: dict[str, Any]) -> None:
            del document["sources"][0]["offsets"]

        for edit, start in ((by_offsets, 300), (by_time, 296)):
            plan, _ = draft_plan(case.pipeline(by_columns(edit)))
            assert plan.topic is not None
            assert [*plan.topic.expected_start.offsets().values()] == [start]

    def test_one_partition_that_is_shifted_is_enough(self, tmp_path: Path, servers: str) -> None:
        case = Case(tmp_path, servers, partitions=4)
        case.produce(n for n in range(500) if n != 2)
        archive(case, in_order(300, 4))
        with pytest.raises(SeamError, match=ANOTHER) as caught:
            warnings_of(case)
        assert (caught.value.fields["partition"], caught.value.fields["offset"]) == (2, 74)
        assert "other partition" not in caught.value.message

    def test_files_with_several_partitions_and_any_order_of_rows_show_the_last_ones(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers, partitions=3)
        case.produce(range(500))
        archive(case, sorted(in_order(300, 3), key=lambda row: row[1] * 7919 % 100))
        assert warnings_of(case) == []

    def test_a_topic_that_is_replaced_after_the_plan_is_refused_by_the_hand_over(
        self, tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(500))
        archive(case, in_order(300))
        loaded = up_to_hand_over(case.pipeline(by_columns()))
        # As of a broker whose disk was restored, or of a cluster that gives no ids.
        ids = KafkaLog(live_of(loaded)).identities()
        created_again(case, range(2000, 2500))
        monkeypatch.setattr(KafkaLog, "identities", lambda _: ids)
        with pytest.raises(SeamError, match=ANOTHER):
            hand_over(PipelineContext.require(loaded), live_of(loaded))
        assert decided(loaded) is None

    def test_the_hand_over_to_the_right_log_is_made(self, tmp_path: Path, servers: str) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(500))
        archive(case, in_order(300))
        loaded = up_to_hand_over(case.pipeline(by_columns()))
        # The comparison is with what the plan has read, not with the files.
        (tmp_path / "in" / "part.parquet").unlink()
        ledger = hand_over(PipelineContext.require(loaded), live_of(loaded))
        assert [entry.start for entry in ledger.entries] == [300]


@pytest.mark.kafka
class TestNoEvidence:
    """The right log in unusual states, and records that show nothing: never refused."""

    @pytest.mark.parametrize("delete_to", [280, 300])
    def test_retention_that_has_passed_the_last_offsets(
        self, tmp_path: Path, servers: str, delete_to: int
    ) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(500))
        archive(case, in_order(300))
        delete_below(case, delete_to)
        assert warnings_of(case) == []

    def test_another_log_of_which_retention_has_left_no_such_record(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(2000, 2500))
        archive(case, in_order(300))
        delete_below(case, 300)
        assert warnings_of(case) == []

    @pytest.mark.parametrize("size", [1, 7, 40])
    def test_markers_and_aborted_records_of_transactions(
        self, tmp_path: Path, servers: str, size: int
    ) -> None:
        case = Case(tmp_path, servers)
        written = in_transactions(case, 30 * size, size)
        held = len(written) * 2 // 3
        archive(case, [(0, offset, n) for offset, n in written[:held]])
        plan, _ = draft_plan(case.pipeline(by_columns()))
        assert not [text for text in plan.warnings if "log" in text]
        # Written from a log without transactions: where this one has records, they are others.
        archive(case, [(0, n, n) for n in range(held)])
        with pytest.raises(SeamError, match=ANOTHER):
            warnings_of(case)

    def test_compaction_that_has_removed_most_of_the_records(
        self, tmp_path: Path, servers: str
    ) -> None:
        compaction = {
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "min.compaction.lag.ms": "0",
            "delete.retention.ms": "0",
        }
        case = Case(tmp_path, servers, config=compaction)
        case.produce(range(300), key=lambda n: str(n % 10))
        log = KafkaLog(live_of(case.pipeline()))
        time.sleep(0.2)
        case.produce([300], key=lambda _: "last")
        wait_for(
            lambda: len(log.read(log.log_start(), 1000, log.log_end())) < 300, "compaction", 60
        )
        archive(case, in_order(280))
        assert warnings_of(case, accepting) == []

    @pytest.mark.parametrize("value", [b"no JSON", None, b'{"id": 1, "v": 2.0}'])
    def test_records_that_have_no_event_time(
        self, tmp_path: Path, servers: str, value: bytes | None
    ) -> None:
        case = Case(tmp_path, servers)
        producer = Producer({"bootstrap.servers": servers})
        for _ in range(300):
            producer.produce(case.topic, value)
        assert producer.flush(30) == 0
        case.produce(range(300, 500))
        archive(case, in_order(300))

        def dropping(document: dict[str, Any]) -> None:
            document["sources"][1]["on_bad_record"] = "drop"

        assert warnings_of(case, dropping) == []

    @pytest.mark.parametrize("shift", [timedelta(minutes=7), timedelta(days=-40)])
    def test_event_times_that_the_files_have_rewritten_are_warned_of(
        self, tmp_path: Path, servers: str, shift: timedelta
    ) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(500))
        at = pa.array([moment(n) + shift for n in range(300)], pa.timestamp("us", "UTC"))
        archive(case, in_order(300), at=at)
        (warning,) = warnings_of(case)
        assert f"At offset 299 of topic `{case.topic}`, partition 0, file {tmp_path}" in warning
        assert "2024-01-01T04:59:00Z" in warning

    def test_event_times_that_the_files_have_cut_to_days(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(500))
        days = [datetime.combine(moment(n).date(), datetime.min.time()) for n in range(300)]
        archive(case, in_order(300), at=pa.array(days, pa.timestamp("us", "UTC")))
        assert warnings_of(case) == []

    def test_a_key_that_the_files_have_rewritten_is_warned_of(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(500))
        archive(case, in_order(300), id=pa.array(range(1000, 1300), pa.int64()))
        assert len(warnings_of(case)) == 1

    def test_a_select_that_only_spark_evaluates(self, tmp_path: Path, servers: str) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(2000, 2500))
        archive(case, in_order(300))

        def selecting(document: dict[str, Any]) -> None:
            kept = {"id": "id", "v": "v"}
            at = "CAST(from_utc_timestamp(at, 'Europe/Berlin') AS timestamp)"
            document["sources"][1]["select"] = {**kept, "at": at}
            document["sources"][1]["schema"] = {"id": "bigint", "at": "timestamp", "v": "double"}

        assert warnings_of(case, selecting) == []


@pytest.mark.kafka
class TestNames:
    def names(self, case: Case, count: int = 300) -> None:
        case.write_history(
            range(count), name=lambda _, n: f"{case.topic}+0+{n[0]:010}+{n[-1]:010}.parquet"
        )

    def plan(self, case: Case, form: str = "parquet") -> list[str]:
        def edit(document: dict[str, Any]) -> None:
            document["allowed_lateness"] = "0 s"
            document["sources"][0]["offsets"] = "names"
            if form == "json":
                columns = {"id": "bigint", "at": "timestamp", "v": "double"}
                document["sources"][0].update(format=form, path="in/*.json", schema=columns)

        plan, _ = draft_plan(case.pipeline(edit))
        return [text for text in plan.warnings if "another log" in text]

    def test_the_right_log_is_not_refused(self, tmp_path: Path, servers: str) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(500))
        self.names(case)
        assert self.plan(case) == []

    def test_a_record_that_is_later_than_all_history_is_refused(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(2000, 2500))
        self.names(case)
        with pytest.raises(SeamError, match=ANOTHER) as caught:
            self.plan(case)
        assert caught.value.fields["offset"] == 299
        for text in ("offset 299", shown(2299), "its highest event time is 2024-01-01T04:59:00Z"):
            assert text in caught.value.message

    def test_a_record_that_is_hardly_later_is_none(self, tmp_path: Path, servers: str) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(40, 500))
        self.names(case)
        assert self.plan(case) == []

    def test_a_record_that_is_gone_shows_nothing(self, tmp_path: Path, servers: str) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(2000, 2500))
        self.names(case)
        delete_below(case, 300)
        assert self.plan(case) == []

    def test_where_event_times_are_sampled_the_plan_warns(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(2000, 2500))
        (tmp_path / "in").mkdir()
        lines = [as_json(n) for n in range(300)]
        (tmp_path / "in" / f"{case.topic}+0+0+299.json").write_text("\n".join(lines) + "\n")
        (warning,) = self.plan(case, "json")
        assert "may be of another log" in warning


@pytest.mark.kafka
def test_of_many_partitions_some_dozens_are_compared(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers, partitions=200)
    case.produce(range(600))
    archive(case, in_order(400, 200))
    assert warnings_of(case) == []
    archive(case, [(p, o, n + 2000) for p, o, n in in_order(400, 200)])
    with pytest.raises(SeamError, match=r"\(and so in 28 other partitions\)"):
        warnings_of(case)


class TestSnapshots:
    """The offsets of a snapshot are the log ends right before it was taken."""

    def compare(self, folder: Path, after_ms: int, **more: Any) -> list[str]:
        """With a topic whose last record before these offsets came so much after the snapshot."""
        loaded = captured_table(folder, NO_SERVER)
        topic = loaded.pipeline.topics[0]
        at = TopicPartition(topic.topics[0], 0)
        log = ModelLog({at: [LogRecord(at, 6, TAKEN.taken_ms + after_ms, b"no change")]})
        end = EndPosition(
            source="snapshot",
            event_time_ms=0,
            complete_through_ms=0,
            event_times="exact",
            offsets=HeldOffsets(next={at: 7}, exact=True, holes={}),
            snapshot=TAKEN,
            splits=1,
            rows=1,
        )
        ends = [end.model_copy(update=more)]
        return compare_log(loaded.pipeline, topic, {"id": "bigint"}, log, ends)

    def test_records_up_to_the_snapshot_are_those_of_its_log(self, tmp_path: Path) -> None:
        # Clocks of a database and of a broker differ.
        assert self.compare(tmp_path, -1) == self.compare(tmp_path, HOUR_MS) == []

    def test_a_record_of_long_after_the_snapshot_is_of_another_log(self, tmp_path: Path) -> None:
        with pytest.raises(SeamError, match=f"{ANOTHER}: the record at offset 6 of") as caught:
            self.compare(tmp_path, HOUR_MS + 1)
        assert "created again after `snapshot` was taken" in caught.value.hint

    def test_a_bounded_topic_after_the_snapshot_is_not_compared_with_it(
        self, tmp_path: Path
    ) -> None:
        topic = captured_table(tmp_path, NO_SERVER).pipeline.topics[0].name
        assert self.compare(tmp_path, 9 * HOUR_MS, source=topic, event_times="sampled") == []


def shown(number: int) -> str:
    return moment(number).strftime("%Y-%m-%dT%H:%M:%SZ")
