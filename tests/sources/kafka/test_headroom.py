"""How long the first needed record is safe, in words."""

from __future__ import annotations

import pytest

from sources.kafka.retention import Headroom


@pytest.mark.parametrize(
    ("left_ms", "told"),
    [
        (86_400_000, "in 1 d"),
        (0, "at any moment: its retention ended less than 1 s ago"),
        (-1_724_743_000, "at any moment: its retention ended 19 d 23 h 5 min 43 s ago"),
    ],
)
def test_a_retention_that_is_over_is_told_as_over(left_ms: int, told: str) -> None:
    found = str(Headroom(topic="flights", partition=3, offset=7, left_ms=left_ms))
    needed = "Kafka may delete offset 7, the first one that is needed,"
    assert found == f"topic `flights`, partition 3: {needed} {told}"
