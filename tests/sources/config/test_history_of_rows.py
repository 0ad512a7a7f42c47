"""A sink that keeps every version of a row: what it needs, and what does not go with it."""

from __future__ import annotations

from typing import Any

import pytest

from sources.config.table.sink import Sink

KEPT: dict[str, Any] = {
    "path": "out",
    "mode": "merge",
    "key": ["id"],
    "sequence": ["seq", "part"],
    "deleted": "gone",
    "deletes": "soft",
    "history": "changed",
}


def test_a_version_is_identified_by_key_and_sequence() -> None:
    assert Sink.model_validate(KEPT).row_key == ["id", "seq", "part"]
    assert Sink.model_validate({**KEPT, "history": None}).row_key == ["id"]


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        (
            {"path": "out", "mode": "append", "key": ["id"], "history": "changed"},
            "with `mode: merge`",
        ),
        (
            {**KEPT, "sequence": None, "deleted": None, "deletes": None},
            "`history` needs `sequence`",
        ),
        ({**KEPT, "deletes": None}, "Declare `deletes: soft`, or remove `history`"),
        ({**KEPT, "sequence": "seq", "unchanged": "kept"}, "needs whole rows"),
        ({**KEPT, "key": ["id", "changed"]}, "column `changed` differs between the changes"),
    ],
)
def test_a_sink_without_whole_versions_in_their_order_is_refused(
    sink: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        Sink.model_validate(sink)
