"""By which columns changes have to identify rows, before the first of them is read."""

from __future__ import annotations

import pytest

from sources.planning.topics.key_of_changes import ExpectedKey


def test_a_key_that_was_changed_before_the_first_change_is_another_one() -> None:
    expected = ExpectedKey(at_snapshot=["id"], declared=["id"])
    # The run that reads the record stops, as it has another key than this.
    assert expected.columns(["id", "v"]) == ["id"]


@pytest.mark.parametrize(
    ("at_snapshot", "declared", "first", "expected"),
    [
        (["id"], ["id"], ["id"], ["id"]),
        # Without a record the snapshot tells, unless the declaration says otherwise.
        (["id"], ["id"], None, ["id"]),
        (["id"], ["code"], None, None),
        # `message.key.columns` of the connector, which `sink.key` names.
        (["id"], ["code"], ["code"], ["code"]),
        (["id"], ["code"], ["v"], ["id"]),
        (["line", "day"], ["day", "line"], ["day", "line"], ["day", "line"]),
        # A snapshot of an older version, or a table without a primary key.
        ([], ["id"], ["id", "v"], ["id", "v"]),
        ([], ["id"], None, None),
    ],
)
def test_what_is_known_decides_and_then_the_first_record(
    at_snapshot: list[str],
    declared: list[str],
    first: list[str] | None,
    expected: list[str] | None,
) -> None:
    assert ExpectedKey(at_snapshot, declared).columns(first) == expected
