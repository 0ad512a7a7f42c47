"""By which rule rows of the seam are recognized where the sink orders changes."""

from __future__ import annotations

from typing import Any

import pytest

from sources.common.positions import HeldOffsets, PartitionStart, StartPosition
from sources.config.pipeline import Pipeline
from sources.kafka.seam import seam_rule, seam_warnings
from tests.minimal import minimal_model
from tests.sources.kafka.test_start_offsets import T0, history

START = StartPosition(
    source="live",
    evidence="timestamp",
    time_ms=0,
    partitions={T0: PartitionStart(start=1, log_start=0, log_end=9, reason="")},
)


def pipeline(**declared: Any) -> Pipeline:
    sink = {"path": "s", "mode": "merge", "key": ["id"], **declared.pop("sink", {})}
    return minimal_model(
        {"type": "files", "name": "history", "path": "*", "format": "parquet"},
        {"type": "kafka", "name": "live", "topic": "t"},
        sink=sink,
        **declared,
    )


ORDERED = {"sequence": "version"}


@pytest.mark.parametrize(
    ("declared", "rule"),
    [
        pytest.param({"key": ["id"], "sink": ORDERED}, "replay", id="updates are merged again"),
        pytest.param({"sink": ORDERED}, "replay", id="also without a key"),
        pytest.param(
            {"key": ["id"], "sink": {**ORDERED, "deleted": "gone"}}, "replay", id="deletes too"
        ),
        pytest.param({"key": ["id", "version"], "sink": ORDERED}, "key", id="a key of versions"),
        pytest.param(
            {"key": ["id", "a"], "sink": {"sequence": ["a", "b"]}}, "replay", id="half a version"
        ),
        pytest.param(
            {"key": ["id"], "seam_filter": "key", "sink": ORDERED}, "key", id="a declared rule"
        ),
        pytest.param({"key": ["id"]}, "key", id="no order"),
    ],
)
def test_a_sink_that_orders_changes_gets_updates_of_the_seam_again(
    declared: dict[str, Any], rule: str
) -> None:
    assert seam_rule(pipeline(**declared), [history(0)], START, {T0: 9}) == rule


def test_offsets_are_better_than_merging_again() -> None:
    held = HeldOffsets(next={T0: 1}, exact=True, holes={})
    start = START.model_copy(update={"evidence": "offsets"})
    declared = pipeline(key=["id"], sink=ORDERED)
    assert seam_rule(declared, [history(0, offsets=held)], start, {T0: 9}) == "none"


def warned(**declared: Any) -> list[str]:
    found = seam_warnings(pipeline(**declared), "key", history(0), START, 0)
    return [text for text in found if "`sink.sequence` is not declared" in text]


def test_the_plan_says_where_updates_cannot_be_told_from_delivered_rows() -> None:
    (text,) = warned(key=["id"])
    assert "is refused when it is read" in text
    (text,) = warned(key=["id"], seam_filter="key")
    assert "is dropped" in text
    # Rows of the target are not those of the input, or rows never change.
    assert not warned(key=["id"], sink={"key": ["day"]})
    assert not warned(key=["id"], sink={"mode": "append"})


def test_the_plan_says_where_an_archive_begins_later_than_its_topic() -> None:
    held = HeldOffsets(next={T0: 9}, exact=True, holes={T0: [(0, 5), (7, 8)]})
    part = PartitionStart(start=9, log_start=8, log_end=9, reason="")
    start = StartPosition(source="live", evidence="offsets", time_ms=None, partitions={T0: part})
    found = seam_warnings(pipeline(), "none", history(0, offsets=held), start, 0)
    assert found == [
        "History begins at offset 5 of topic `t`, partition 0: records before it are in no file, "
        "and Kafka has deleted the first of them."
    ]
    whole = start.model_copy(update={"partitions": {T0: part.model_copy(update={"log_start": 0})}})
    assert seam_warnings(pipeline(), "none", history(0, offsets=held), whole, 0) == []
