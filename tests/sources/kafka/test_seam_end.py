"""From which offset on no record can be in the history before the topic."""

from __future__ import annotations

from sources.common.positions import TopicPartition
from sources.kafka.seam_end import seam_end_after_range

FIRST, SECOND, ADDED = (TopicPartition("t", number) for number in range(3))


def test_after_a_range_nothing_is_in_history_unless_what_came_before_had_more() -> None:
    ends = {FIRST: 100, SECOND: 100, ADDED: 10}
    found = seam_end_after_range(ends, {FIRST: 99, SECOND: 101})
    assert found == {FIRST: 100, SECOND: 101, ADDED: 10}


def test_a_range_that_is_the_first_source_ends_the_seam_where_it_ends() -> None:
    assert seam_end_after_range({FIRST: 100}, {}) == {FIRST: 100}
