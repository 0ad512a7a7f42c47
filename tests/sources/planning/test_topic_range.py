"""Bounded topics without Spark: what is decided when, what is refused, and how tasks read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.common.positions import EndPosition, TopicPartition
from sources.common.topic_log import LogRecord
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_options import EndAtOffsets, EndAtTimestamp
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, SeamError, StateError, UnavailableError
from sources.hand_over import hand_over
from sources.hybrid import Boundedness, SwitchState
from sources.kafka.client.consumer import consumer_settings
from sources.kafka.client.record_times import RecordTimes
from sources.kafka.ranges.batching import cut_range
from sources.kafka.ranges.cut_ranges import Split
from sources.kafka.ranges.end_offsets import end_position, newest_read, resolve_ends
from sources.kafka.ranges.range_reader import RangeReader
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from sources.planning.topics.topic_range import TopicRange, find_range, require_range
from tests.e2e.case import BEGIN, Case, moment
from tests.e2e.seam.test_bounded_topic import another_topic, archive_between, archive_first
from tests.e2e.seam.test_topics import transact
from tests.sources.hand_over_case import delete_below, documents, finish
from tests.sources.kafka.model_log import ModelLog

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = 10_000
FUTURE_MS = 4_102_444_799_000


def declared(**fields: Any) -> KafkaSource:
    given = {"type": "kafka", "name": "archive", "topic": "t", "until": "latest", **fields}
    return KafkaSource.model_validate(given)


def log_of(*times: list[int], **fields: Any) -> ModelLog:
    parts = [
        [LogRecord(TopicPartition("t", number), at, ms, b"{}") for at, ms in enumerate(part)]
        for number, part in enumerate(times)
    ]
    return ModelLog({TopicPartition("t", n): part for n, part in enumerate(parts)}, **fields)


class TestItsEnd:
    def test_with_an_end_a_topic_is_bounded(self) -> None:
        assert declared().boundedness is Boundedness.BOUNDED
        assert declared(until=None).boundedness is Boundedness.CONTINUOUS_UNBOUNDED

    def test_latest_is_the_end_that_a_reader_gets_to_see(self) -> None:
        log = log_of([1, 2, 3], [4], open_from={A: 1})
        assert resolve_ends(declared(), log, {A: 0, B: 0}, NOW_MS) == {A: 1, B: 1}

    def test_a_time_ends_each_partition_before_its_first_record_at_or_after_it(self) -> None:
        log = log_of([10, 30, 20, 40], [5, 6], [])
        until = declared(until={"timestamp": BEGIN.replace(year=1970) + timedelta(milliseconds=30)})
        ends = resolve_ends(until, log, {}, NOW_MS)
        assert list(ends.values()) == [1, 2, 0]

    def test_a_time_in_the_future_is_refused(self) -> None:
        until = declared(until={"timestamp": "2100-01-01T00:00:00Z"})
        with pytest.raises(SeamError, match="would end at 2100-01-01T00:00:00Z, in the future"):
            resolve_ends(until, log_of([1]), {}, NOW_MS)

    @pytest.mark.parametrize(
        ("offsets", "message"),
        [
            ({0: 3, 1: 9}, "would end at offset 9 of topic `t`, partition 1.* the log ends at 2"),
            ({0: 1, 1: 2}, "would end at offset 1 of topic `t`, partition 0, where it starts at"),
            ({0: 3}, "The end offsets of source `archive`: topic `t`, partition 1 has no offset"),
        ],
    )
    def test_offsets_have_to_be_in_the_log_and_after_the_start(
        self, offsets: dict[int, int], message: str
    ) -> None:
        with pytest.raises(SeamError, match=message):
            resolve_ends(
                declared(until={"offsets": offsets}), log_of([1] * 3, [2, 3]), {A: 2}, NOW_MS
            )

    def test_offsets_are_taken_as_they_are(self) -> None:
        until = declared(until={"offsets": {0: 2, 1: 0}})
        assert resolve_ends(until, log_of([1, 2, 3], [4]), {}, NOW_MS) == {A: 2, B: 0}

    def test_what_is_declared_is_told_apart(self) -> None:
        assert isinstance(declared(until={"offsets": {0: 1}}).until, EndAtOffsets)
        assert isinstance(declared(until={"timestamp": moment(0)}).until, EndAtTimestamp)


class TestWhatItTellsOfItsEnd:
    def position(self, newest: dict[TopicPartition, int], **changes: Any) -> EndPosition:
        given: dict[str, Any] = {"lateness_ms": 10, "is_continued": False, "previous": None}
        return end_position(declared(), newest, {A: 5, B: 6}, **{**given, **changes})

    def test_the_same_topic_goes_on_at_exactly_these_offsets(self) -> None:
        end = self.position({A: 100, B: 50}, is_continued=True)
        assert end.offsets is not None
        assert (end.offsets.next, end.offsets.exact) == ({A: 5, B: 6}, True)

    def test_records_without_a_time_end_at_these_offsets_and_at_no_time(self) -> None:
        for newest in ({A: -1, B: 50}, {}):
            end = self.position(newest, is_continued=True)
            assert end.offsets is not None
            assert (end.event_time_ms, end.complete_through_ms) == (0, 0)

    def test_history_is_complete_through_no_time_before_1970(self) -> None:
        end = self.position({A: 100, B: 7})
        assert (end.event_time_ms, end.complete_through_ms) == (100, 0)

    def test_for_another_topic_the_partition_that_lags_decides(self) -> None:
        end = self.position({A: 100, B: 50})
        assert (end.event_time_ms, end.complete_through_ms, end.offsets) == (100, 40, None)

    def test_what_came_before_stays_complete(self) -> None:
        before = self.position({A: 2000}).model_copy(update={"sequence": 7})
        end = self.position({A: 100}, previous=before)
        assert (end.event_time_ms, end.complete_through_ms, end.sequence) == (2000, 1990, 7)

    @pytest.mark.parametrize(
        ("newest", "message"), [({}, "has no records up to its end"), ({A: -1}, "no timestamp")]
    )
    def test_without_times_another_topic_can_not_follow(
        self, newest: dict[TopicPartition, int], message: str
    ) -> None:
        with pytest.raises(SeamError, match=message):
            self.position(newest)
        assert self.position(newest, is_continued=True).offsets is not None

    def test_the_newest_record_is_one_that_is_read(self) -> None:
        # Kafka's own answer would be the marker's time, or that of a record beyond the end.
        log = log_of([*range(500), 9000], [])
        log.markers = {A: [(501, 8000)]}
        assert log.newest_ms()[A] == 9000
        assert newest_read(log, {A: 0, B: 0}, {A: 500, B: 0}, NOW_MS) == {A: 499}

    def test_behind_a_long_hole_the_newest_record_is_found(self) -> None:
        log = log_of([5, 7], ends={A: 10_000})
        assert newest_read(log, {A: 0}, {A: 10_000}, NOW_MS) == {A: 7}
        assert newest_read(log, {A: 2}, {A: 10_000}, NOW_MS) == {}


class TestInStep:
    def test_records_without_a_time_can_not_be_aligned(self) -> None:
        source = declared(align={"drift": "1 min"})
        with pytest.raises(SeamError, match="carry no timestamp: they can't be aligned"):
            cut_range(source, log_of([-1, -1]), {A: 0}, {A: 2}, NOW_MS)

    @pytest.mark.parametrize("begin_ms", [0, 7, 1007])
    def test_time_is_divided_from_the_first_record_on(self, begin_ms: int) -> None:
        log = log_of([begin_ms + ms for ms in (0, 5, 10, 15, 20, 25)])
        source = declared(align={"drift": "10 ms"}, max_offsets_per_batch=2)
        batches = cut_range(source, log, {A: 0}, {A: 6}, NOW_MS)
        assert batches == [{A: (0, 2)}, {A: (2, 4)}, {A: (4, 6)}]

    def test_commits_that_are_newer_than_records_behind_them_are_refused(self) -> None:
        hour = 3_600_000
        log = log_of([0, hour])
        log.records[A] += [LogRecord(A, n, n * hour, b"{}") for n in range(3, 20)]
        log.markers = {A: [(2, 1000 * hour)]}
        source = declared(align={"drift": "10 min"}, max_offsets_per_batch=3)
        with pytest.raises(
            SeamError, match=r"partition 0 was written in a transaction .* offset 3"
        ):
            cut_range(source, log, {A: 0}, {A: 20}, NOW_MS)
        # A commit as old as its records does no harm.
        log.markers = {
            A: [(2, 2 * hour)],
        }
        assert len(cut_range(source, log, {A: 0}, {A: 20}, NOW_MS)) >= 7


class TestRecordsFromTheFuture:
    """Record timestamps are a producer's clock, and may be wrong as event times are."""

    def test_one_of_them_does_not_end_a_partition_before_its_time(self) -> None:
        log = log_of([10, FUTURE_MS, 20, 5, 30, FUTURE_MS, 40], [10, 20, FUTURE_MS])
        until = declared(until={"timestamp": BEGIN.replace(year=1970) + timedelta(milliseconds=30)})
        assert resolve_ends(until, log, {}, NOW_MS) == {A: 4, B: 3}

    @given(
        times=st.lists(
            st.lists(st.sampled_from([1, 5, 9, 20, 21, FUTURE_MS]), max_size=12),
            min_size=1,
            max_size=3,
        ),
        time_ms=st.integers(0, 25),
    )
    def test_a_look_up_is_that_over_all_other_records(
        self, times: list[list[int]], time_ms: int
    ) -> None:
        log = log_of(*times)
        found = RecordTimes(log, log.log_end(), NOW_MS).offsets_for_time(time_ms)
        assert list(found.values()) == [
            next((at for at, ms in enumerate(part) if time_ms <= ms < FUTURE_MS), None)
            for part in times
        ]

    def test_the_end_time_is_that_of_the_newest_record_that_can_be_right(self) -> None:
        log = log_of([*range(500), FUTURE_MS], [3, *[FUTURE_MS] * 400], [FUTURE_MS])
        newest = newest_read(log, dict.fromkeys(log.records, 0), log.log_end(), NOW_MS)
        assert newest == {A: 499, B: 3}

    def test_partitions_stay_in_step_behind_one(self) -> None:
        minute = 60_000
        slow = [n * minute for n in range(20)]
        log = log_of([*slow[:5], FUTURE_MS, *slow[5:]], slow)
        source = declared(align={"drift": "2 min"}, max_offsets_per_batch=5)
        batches = cut_range(source, log, {A: 0, B: 0}, {A: 21, B: 20}, NOW_MS)
        assert len(batches) >= 8
        for batch in batches:
            ends = [log.records[at][end - 1].timestamp_ms for at, (_, end) in batch.items()]
            right = [ms for ms in ends if ms < FUTURE_MS]
            assert max(right) - min(right) <= 2 * minute


class TestDeclarations:
    def refusal(self, tmp_path: Path, edit: Callable[[dict[str, Any]], None]) -> str:
        case = object.__new__(Case)
        case.folder, case.topic, case.servers = tmp_path, "t", "localhost:1"
        with pytest.raises(InputError) as caught:
            case.pipeline(edit)
        return str(caught.value)

    def test_no_partition_of_a_range_is_idle(self, tmp_path: Path) -> None:
        def edit(document: dict[str, Any]) -> None:
            align = {"drift": "10 min", "idle": "1 min"}
            document["sources"][1] |= {"until": "latest", "align": align}

        assert "`align.idle` has no meaning with `until`" in self.refusal(tmp_path, edit)

    def test_a_live_topic_may_be_aligned_at_any_time(self) -> None:
        document = {"type": "kafka", "name": "live", "topic": "t"}
        plain = KafkaSource.model_validate(document)
        aligned = KafkaSource.model_validate({**document, "align": {"drift": "10 min"}})
        assert aligned.contract() == plain.contract()

    def test_files_can_not_follow_a_topic(self, tmp_path: Path) -> None:
        def edit(document: dict[str, Any]) -> None:
            archive_between("other")(document)
            document["sources"][1]["start"] = "earliest"
            document["sources"][1]["schema"] = {"id": "bigint", "at": "timestamp", "v": "double"}
            document["sources"] = document["sources"][1::-1]

        assert "source `history`: files can't come after the topic" in self.refusal(tmp_path, edit)

    def test_a_gap_after_a_topic_can_not_be_closed_by_files(self, tmp_path: Path) -> None:
        def edit(document: dict[str, Any]) -> None:
            archive_between("other")(document)
            document["sources"][2]["on_gap"] = "extend"

        text = self.refusal(tmp_path, edit)
        assert "`on_gap: extend` reads files" in text
        assert "but source `archive` before it reads topics" in text


@pytest.mark.slow
@pytest.mark.kafka
class TestDecided:
    def test_the_plan_decides_what_comes_first(self, tmp_path: Path, servers: str) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(100))
        loaded = case.pipeline(archive_first())
        archive, live = make_plan(loaded).topics
        case.produce(range(100, 200))
        found = ranged(loaded)
        assert list(found.ends.values()) == [100]
        assert archive.range is not None
        assert archive.range.ends == found.ends
        # The next source was expected where it will start.
        assert live.expected_start.offsets() == found.ends

    def test_a_later_one_is_decided_when_its_turn_comes_and_once(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        archive = another_topic(case)
        case.write_history(range(600))
        case.produce(range(500, 800), archive)
        case.produce(range(700, 900))
        loaded = case.pipeline(archive_between(archive))
        make_plan(loaded)
        source = loaded.pipeline.topics[0]
        with pytest.raises(StateError, match="`history`, which comes before it, has not finished"):
            hand_over(PipelineContext.require(loaded), source)
        finish(loaded)
        case.produce(range(800, 850), archive)
        case.produce(range(900, 1000))
        found = ranged(loaded)
        assert list(found.ends.values()) == [350]
        # Nothing that is appended to the live topic from here on can be in the archive.
        assert list(found.seam_end.values()) == [300]
        assert (found.end.complete_through_ms, found.end.offsets) == (ms(849 - 100), None)
        case.produce(range(850, 900), archive)
        kept = documents(tmp_path / "state")
        assert ranged(loaded) == found
        assert documents(tmp_path / "state") == kept

    def test_a_crash_after_the_ledger_is_repaired(self, tmp_path: Path, servers: str) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(100))
        loaded = case.pipeline(archive_first())
        make_plan(loaded)
        found = ranged(loaded)
        generation = loaded.require_generation()
        generation.path("ranges/archive.json").unlink()
        with pytest.raises(StateError, match="offsets that source `archive` reads is not decided"):
            require_range(generation, "archive")
        again = ranged(loaded)
        assert (again.starts, again.ends, again.end) == (found.starts, found.ends, found.end)

    def test_sources_that_share_some_topics_are_refused_before_there_is_state(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        archive = another_topic(case)
        case.write_history(range(600))
        case.produce(range(500, 800), archive)
        edit = archive_between([case.topic, archive])
        with pytest.raises(InputError, match="some topics are in both"):
            make_plan(case.pipeline(edit))
        assert not (tmp_path / "state").exists()

    def test_an_end_that_can_not_be_is_refused_before_there_is_state(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(100))
        with pytest.raises(SeamError, match="would end at offset 101"):
            make_plan(case.pipeline(archive_first(until={"offsets": {0: 101}})))
        assert not (tmp_path / "state").exists()

    def test_without_a_key_another_topic_can_not_follow(self, tmp_path: Path, servers: str) -> None:
        case = Case(tmp_path, servers)
        archive = another_topic(case)
        case.produce(range(100), archive)
        case.produce(range(90, 110))

        def edit(document: dict[str, Any]) -> None:
            archive_first(topic=archive)(document)
            del document["key"]

        with pytest.raises(SeamError, match=r"`archive` were sampled.*there is no `key`"):
            make_plan(case.pipeline(edit))

    def test_an_end_that_is_declared_anew_is_refused(self, tmp_path: Path, servers: str) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(100))
        ranged(case.pipeline(archive_first()))
        changed = case.pipeline(archive_first(until={"offsets": {0: 50}}))
        with pytest.raises(StateError, match=r"`sources.archive.end` of pipeline `events` changed"):
            make_plan(changed)

    def test_a_start_at_the_latest_record_says_what_is_skipped(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        case.write_history(range(600))
        case.produce(range(500, 800))
        loaded = case.pipeline(lambda document: document["sources"][1].update(start="latest"))
        plan = make_plan(loaded)
        assert any("records before the log end at the" in text for text in plan.warnings)
        case.produce(range(800, 900))
        finish(loaded)
        ledger = hand_over(PipelineContext.require(loaded), loaded.pipeline.topics[-1])
        assert [(entry.start, entry.why) for entry in ledger.entries] == [(400, "log end")]


@pytest.mark.slow
@pytest.mark.kafka
class TestReading:
    def test_ranges_are_read_whole_over_aborted_and_control_records(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        for first in range(0, 300, 50):
            transact(case, range(first, first + 50), commit=first != 200)
        transact(case, range(300, 350), commit=False)
        # 51 offsets a transaction; 4 and 6 are aborted, and the last range has nothing in it.
        expected = [n + n // 50 for n in range(300) if not 200 <= n < 250]
        reader = RangeReader(consumer_settings(source_of(case)))
        try:
            for size in (1000, 37, 10):
                found = [
                    message.offset()
                    for first in range(0, 7 * 51, size)
                    for messages in reader.read(
                        Split(TopicPartition(case.topic, 0), first, min(first + size, 7 * 51))
                    )
                    for message in messages
                ]
                assert found == expected
        finally:
            reader.close()

    def test_what_was_deleted_is_named(self, tmp_path: Path, servers: str) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(100))
        delete_below(case, 60)
        reader = RangeReader(consumer_settings(source_of(case)))
        try:
            with pytest.raises(SeamError) as caught:
                list(reader.read(Split(TopicPartition(case.topic, 0), 10, 80)))
        finally:
            reader.close()
        assert str(caught.value).startswith(
            f"Topic `{case.topic}`, partition 0: offset 10 is to be read, but Kafka no longer "
        )

    def test_a_log_that_ends_before_the_range_is_no_silent_broker(
        self, tmp_path: Path, servers: str
    ) -> None:
        case = Case(tmp_path, servers)
        case.produce(range(100))
        reader = RangeReader(consumer_settings(source_of(case)), silence_s=1.0)
        try:
            with pytest.raises(UnavailableError, match=r"offset 100 .*its log, .* ended there"):
                list(reader.read(Split(TopicPartition(case.topic, 0), 10, 120)))
        finally:
            reader.close()


def source_of(case: Case) -> KafkaSource:
    return declared(topic=case.topic, bootstrap_servers=case.servers)


def ranged(loaded: LoadedPipeline) -> TopicRange:
    """The range of the first topic, decided if it was not."""
    make_plan(loaded)
    hand_over(PipelineContext.require(loaded), loaded.pipeline.topics[0])
    generation = loaded.require_generation()
    enumerator = SwitchState(loaded.pipeline.hybrid_source(), generation)
    found = find_range(generation, "archive")
    assert found is not None
    assert enumerator.require_start("archive").offsets() == found.starts
    return found


def ms(number: int) -> int:
    return int(moment(number).timestamp() * 1000)
