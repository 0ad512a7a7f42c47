"""Partitions of a live topic advance together: none is read far ahead of another."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from sources.common.positions import Offsets, TopicPartition
from sources.common.topic_log import LogRecord
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.ranges import alignment
from sources.kafka.ranges.alignment import Drift, PartitionAlignment
from tests.properties import examples
from tests.sources.kafka.model_log import ModelLog

A, B, C = (TopicPartition("t", number) for number in range(3))
MINUTE = 60_000
DAY = 24 * 60 * MINUTE
FAST, SLOW = 100 * MINUTE, 60 * MINUTE
EXAMPLES = examples(200, suppress_health_check=[HealthCheck.too_slow])
ALL = 1_000_000


def declared(**align: object) -> KafkaSource:
    document = {"type": "kafka", "name": "live", "topic": "t", "start": "earliest"}
    return KafkaSource.model_validate({**document, "align": {"drift": "10 min", **align}})


class Reader:
    """What Spark does: reads from where the last micro-batch ended to where the next one ends."""

    def __init__(self, log: ModelLog, limit: int = ALL, **align: object) -> None:
        self.log, self.limit = log, limit
        self.now = 1_000 * DAY
        self.alignment = PartitionAlignment(declared(**align), lambda: log, lambda: self.now)
        self.reached: Offsets = {}

    def batch(self, after: int = 1_000) -> dict[TopicPartition, list[int]]:
        """Read the next micro-batch; the timestamps that it has, by partition."""
        self.now += after
        starts = {at: self.reached.get(at, 0) for at in self.reached}
        latest = self.log.log_end()
        ends = self.alignment.ends(starts, latest, self.limit)
        assert ends.keys() == latest.keys()
        read = {}
        for at, end in ends.items():
            first = self.reached.get(at, self.log.log_start()[at])
            assert first <= end <= latest[at]
            times = [r.timestamp_ms for r in self.log.left(at) if first <= r.offset < end]
            if first < end:
                read[at] = times
        self.reached = ends
        return read

    def left(self) -> int:
        """Number of offsets that are not read yet."""
        return sum(end - self.reached.get(at, 0) for at, end in self.log.log_end().items())


def log_of(*times: list[int]) -> ModelLog:
    return ModelLog(
        {
            TopicPartition("t", number): [
                LogRecord(TopicPartition("t", number), offset, ms, b"{}")
                for offset, ms in enumerate(each)
            ]
            for number, each in enumerate(times)
        }
    )


def minutes(first: int, end: int) -> list[int]:
    return [n * MINUTE for n in range(first, end)]


def test_a_fast_partition_is_read_up_to_the_slowest_one_and_the_drift() -> None:
    log = log_of(minutes(0, 100), minutes(0, 60))
    reader = Reader(log)
    read = reader.batch()
    assert (max(read[A]), max(read[B])) == (68 * MINUTE, 59 * MINUTE)
    assert reader.alignment.drift == Drift(40 * MINUTE, 31, B)
    assert reader.batch() == {}
    for ms in minutes(60, 70):
        log.append(B, ms)
    read = reader.batch()
    assert (max(read[A]), max(read[B])) == (78 * MINUTE, 69 * MINUTE)


def test_partitions_within_the_drift_are_read_to_their_ends() -> None:
    reader = Reader(log_of(minutes(0, 100), minutes(0, 95)))
    assert {at: len(times) for at, times in reader.batch().items()} == {A: 100, B: 95}
    assert reader.alignment.drift == Drift(5 * MINUTE, 0, B)


def test_what_just_fits_a_micro_batch_is_read_at_once_and_a_backlog_is_not() -> None:
    log = log_of(minutes(0, 100), minutes(0, 95))
    assert sum(map(len, Reader(log, limit=195).batch().values())) == 195
    assert sum(map(len, Reader(log, limit=194).batch().values())) < 194


@pytest.mark.parametrize("page", [1, 2, 3])
def test_the_first_record_at_a_time_is_found_however_many_are_read_at_once(
    monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(alignment, "_PAGE", page)
    log = log_of(minutes(0, 8))
    found = PartitionAlignment(declared(), lambda: log, lambda: DAY)
    for first in range(8):
        for at in range(first, 8):
            assert found._first_at(log, A, (first, 8), at * MINUTE) == (at, True)
    # Without such a record, the end.
    assert found._first_at(log, A, (2, 8), 8 * MINUTE) == (8, True)
    monkeypatch.setattr(alignment, "_SCANNED", 3)
    reached, is_found = found._first_at(log, A, (0, 8), 7 * MINUTE)
    assert (3 <= reached < 7, is_found) == (True, False)


def test_an_idle_partition_holds_no_other_after_the_clock_was_set_back() -> None:
    reader = Reader(log_of(minutes(0, 100), minutes(0, 60)), idle="1 min")
    reader.batch()
    reader.batch(after=-DAY)
    assert reader.batch(after=MINUTE) == {A: minutes(69, 100)}


def test_an_idle_partition_holds_no_other_and_one_that_gets_records_does() -> None:
    log = log_of(minutes(0, 100), minutes(0, 60), [])
    reader = Reader(log, idle="1 min")
    reader.batch()
    assert reader.left() == 31
    # It is not idle while records come, however old they are.
    reader.batch(after=50_000)
    log.append(B, 59 * MINUTE)
    reader.batch(after=50_000)
    assert reader.left() == 31
    assert reader.batch(after=59_000) == {}
    assert len(reader.batch(after=1_000)[A]) == 31
    assert reader.alignment.drift == Drift(None, 0, A)


def test_an_open_transaction_holds_the_others_as_long_as_records_come() -> None:
    log = log_of(minutes(0, 100), minutes(0, 60))
    log.open_from = {B: 50}
    reader = Reader(log)
    assert max(reader.batch()[A]) == 58 * MINUTE
    log.append(B, 60 * MINUTE)
    assert reader.batch(after=50_000) == {}
    # All that may be read of it is read, and nothing is appended.
    assert reader.batch(after=50_000) == {}
    assert len(reader.batch(after=10_000)[A]) == 41


def test_a_backlog_is_read_in_whole_slices_of_time_as_many_as_fit() -> None:
    reader = Reader(log_of(minutes(0, 1000), minutes(0, 1000)[::10]), limit=200)
    read = reader.batch()
    assert {at: max(times) for at, times in read.items()} == {A: 159 * MINUTE, B: 150 * MINUTE}
    small = Reader(log_of(minutes(0, 1000), minutes(0, 1000)[::10]), limit=5)
    assert small.batch() == {A: [0, MINUTE, 2 * MINUTE]}


def test_a_partition_that_appears_is_read_from_its_first_record() -> None:
    log = log_of(minutes(0, 100))
    reader = Reader(log)
    reader.batch()
    log.records[B] = [LogRecord(B, 0, 0, b"{}")]
    opened: list[int] = []
    reader.alignment._open_log = lambda: opened.append(1) or log  # type: ignore[func-returns-value]
    log.append(A, 100 * MINUTE)
    assert reader.batch() == {B: [0]}
    assert reader.reached == {A: 100, B: 1}


def test_without_a_watermark_partitions_are_read_as_fast_as_they_can_be() -> None:
    reader = Reader(log_of(minutes(0, 100), minutes(0, 60)), limit=80)
    reader.alignment.is_needed = False
    assert {at: len(times) for at, times in reader.batch().items()} == {A: 50, B: 30}


def test_records_without_a_time_are_refused() -> None:
    with pytest.raises(SeamError, match="carry no timestamp: they can't be aligned"):
        Reader(log_of([-1], [-1])).batch()


@pytest.mark.parametrize("odd", [50 * MINUTE, 1_002 * DAY, 90 * MINUTE])
@pytest.mark.parametrize("scanned", [3, ALL])
def test_a_record_ahead_of_its_partition_does_not_stop_it(
    odd: int, scanned: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look-up by time answers with it for ever, as it does with a commit of a transaction."""
    monkeypatch.setattr(alignment, "_SCANNED", scanned)
    monkeypatch.setattr(alignment, "_PAGE", 2)
    log = log_of(minutes(0, 100), [*minutes(0, 5), odd, *minutes(5, 40)])
    log.markers = {B: [(len(log.records[B]), 99 * MINUTE)]}
    reader = Reader(log, limit=30)
    for _ in range(20):
        reader.batch()
    assert reader.reached[B] == 42
    for ms in minutes(40, 60):
        log.append(B, ms)
    for _ in range(20):
        reader.batch()
    assert reader.reached[B] == 62
    assert reader.reached[A] < 100


@st.composite
def growth(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Steps of a topic's life: partition, minutes that its time moves on, number of records."""
    step = st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(1, 30))
    return draw(st.lists(step, min_size=1, max_size=40))


@EXAMPLES
@given(growth(), growth(), st.integers(1, 60), st.integers(1, 15))
def test_nothing_is_read_ahead_of_what_an_active_partition_still_gets(
    backlog: list[tuple[int, int, int]],
    steps: list[tuple[int, int, int]],
    limit: int,
    drift: int,
) -> None:
    log = log_of([0], [0], [0])
    times = dict.fromkeys(log.partitions, 0)

    def grow(step: tuple[int, int, int]) -> None:
        at = TopicPartition("t", step[0])
        for _ in range(step[2]):
            times[at] += step[1] * MINUTE // step[2]
            log.append(at, times[at])

    for step in backlog:
        grow(step)
    reader = Reader(log, limit, drift=f"{drift} min")
    newest = 0

    def require_aligned() -> None:
        for at in log.partitions:
            rest = [r.timestamp_ms for r in log.left(at) if r.offset >= reader.reached[at]]
            # What comes to it later is as new as its newest record at least.
            assert min([*rest, times[at]]) >= newest - drift * MINUTE

    for step in steps:
        for ms in reader.batch(after=0).values():
            newest = max([newest, *ms])
        require_aligned()
        grow(step)
    # Each micro-batch reads something until only the slowest partition could go on.
    while read := reader.batch(after=0):
        newest = max([newest, *(ms for each in read.values() for ms in each)])
        require_aligned()
    slowest = min(times.values())
    for at in log.partitions:
        rest = [r.timestamp_ms for r in log.left(at) if r.offset >= reader.reached[at]]
        assert all(ms >= slowest + drift * MINUTE for ms in rest)
    # Nothing comes any more, so no partition is waited for.
    reader.batch(after=MINUTE)
    while reader.batch(after=0):
        pass
    assert reader.left() == 0
