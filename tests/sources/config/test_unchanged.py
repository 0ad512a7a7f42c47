"""Declaring what a row keeps if a change lacks a value, and that a TRUNCATE removes rows."""

from __future__ import annotations

from typing import Any

import pytest

from sources.config.pipeline import Pipeline
from sources.errors import InputError
from tests.minimal import minimal_model

CHANGES: dict[str, Any] = {
    "name": "changes",
    "type": "kafka",
    "topic": "t",
    "format": "debezium",
    "table": "public.orders",
    "schema": {"id": "bigint", "body": "string"},
    "include": {
        "at": "committed_at",
        "seq": "position",
        "gone": "deleted",
        "kept": "unchanged",
    },
    "start": "earliest",
}
MERGE = {
    "path": "out",
    "mode": "merge",
    "key": ["id"],
    "sequence": "seq",
    "deleted": "gone",
    "unchanged": "kept",
}


def declared(sink: dict[str, Any], **changed: Any) -> Pipeline:
    return minimal_model({**CHANGES, **changed}, sink=sink)


def test_a_sink_that_merges_keeps_them() -> None:
    assert declared(MERGE).sink.unchanged == "kept"


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ({**MERGE, "unchanged": None}, r"Declare `sink\.unchanged: kept` with `mode: merge`"),
        ({"path": "out", "mode": "append", "key": ["id", "seq"]}, r"columns would become null"),
        ({**MERGE, "mode": "append"}, r"has a meaning with `mode: merge` only"),
        ({**MERGE, "deleted": None, "sequence": None}, r"`unchanged` needs `sequence`"),
        ({**MERGE, "sequence": ["at", "seq"]}, r"needs a `sequence` of one column"),
        ({**MERGE, "key": ["id", "kept"]}, r"column `kept` differs between the changes"),
    ],
)
def test_sinks_that_would_lose_unchanged_values_are_refused(
    sink: dict[str, Any], told: str
) -> None:
    with pytest.raises((ValueError, InputError), match=told):
        declared(sink)


def test_a_truncate_is_followed_into_a_sink_in_the_order_of_changes() -> None:
    assert declared(MERGE, on_truncate="follow").follows_truncates
    assert not declared(MERGE, on_truncate="stop").follows_truncates


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ({**MERGE, "deletes": "soft"}, r"needs `sink\.deletes: hard`"),
        ({**MERGE, "sequence": "other"}, r"needs `sink\.sequence` to be the column that `include`"),
        ({"path": "out", "mode": "append", "key": ["id", "seq"]}, r"needs `sink\.mode: merge`"),
    ],
)
def test_a_truncate_can_not_be_followed_into_others(sink: dict[str, Any], told: str) -> None:
    with pytest.raises((ValueError, InputError), match=told):
        declared(sink, on_truncate="follow")
