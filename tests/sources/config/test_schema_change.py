"""Declaring that columns which a captured table gets are followed, and where they can't be."""

from __future__ import annotations

from typing import Any

import pytest

from sources.config.pipeline import Pipeline
from sources.decoding.changes.schema_policies import SchemaPolicies
from sources.decoding.changes.widened_columns import is_widened
from sources.errors import InputError
from tests.minimal import minimal_model

SNAPSHOT = {
    "name": "snapshot",
    "type": "files",
    "path": "snapshot/*.parquet",
    "format": "parquet",
    "snapshot": {"dsn": "slotted://db/shop", "slot": "shop"},
}
CHANGES: dict[str, Any] = {
    "name": "changes",
    "type": "kafka",
    "topic": "t",
    "format": "debezium",
    "table": "public.orders",
    "schema": {"id": "bigint"},
    "include": {
        "at": "committed_at",
        "seq": "position",
        "gone": "deleted",
        "lsn": "lsn",
        "by": "transaction",
    },
    "on_schema_change": "follow",
}
MERGE = {"path": "out", "mode": "merge", "key": ["id"], "sequence": "seq", "deleted": "gone"}


def declared(*sources: dict[str, Any], sink: dict[str, Any] = MERGE) -> Pipeline:
    return minimal_model(*sources, sink=sink)


def policies(declares: Any) -> SchemaPolicies:
    changes = declared(SNAPSHOT, {**CHANGES, "on_schema_change": declares}).sources[-1].changes
    assert changes is not None
    return changes.policies


def test_columns_are_followed_only_where_that_is_declared() -> None:
    assert declared(SNAPSHOT, CHANGES).changes_target
    assert policies("follow") == policies({"added": "follow", "widened": "follow"})
    assert policies("stop") == policies(None) == policies({}) == SchemaPolicies()
    assert policies({"dropped": "ignore"}).added == "stop"
    assert not policies({"dropped": "ignore", "renamed": "follow"}).changes_target
    assert policies({"dropped": "follow"}).changes_target


@pytest.mark.parametrize(
    ("event", "policy", "told"),
    [
        ("narrowed", "follow", r"the statement may have altered rows, which no change reports"),
        ("widened", "ignore", r"a value that does not fit the column would be lost"),
        ("renamed", "ignore", r"the values of the column continue under its new name"),
    ],
)
def test_a_policy_that_can_not_be_kept_is_refused_with_the_reason(
    event: str, policy: str, told: str
) -> None:
    with pytest.raises(
        (ValueError, InputError), match=rf"`{event}: {policy}` can't be kept.*{told}"
    ):
        policies({event: policy})


def test_columns_that_are_left_out_need_no_snapshot_and_no_merge() -> None:
    append = {"path": "out", "mode": "append", "key": ["id", "seq"]}
    ignored = {**CHANGES, "start": "earliest", "on_schema_change": {"added": "ignore"}}
    assert not declared(ignored, sink=append).changes_target


def test_policies_may_be_declared_while_a_generation_is_in_use() -> None:
    stops = {**CHANGES, "on_schema_change": "stop"}
    gone = {**CHANGES, "on_schema_change": {"dropped": "follow", "narrowed": "ignore"}}
    emptied = {**stops, "schema": {"id": "bigint", "v": "int"}}
    contracts = [declared(SNAPSHOT, each).sources[-1].contract() for each in (CHANGES, stops, gone)]
    assert contracts[0] == contracts[1] == contracts[2]
    before = declared(SNAPSHOT, emptied).sources[-1].contract()
    after = declared(SNAPSHOT, {**emptied, "emptied_columns": ["v"]}).sources[-1].contract()
    assert before == after


@pytest.mark.parametrize(
    ("sources", "sink", "told"),
    [
        ([{**CHANGES, "start": "earliest"}], MERGE, r"needs a source with a `snapshot` before it"),
        (
            [SNAPSHOT, CHANGES],
            {"path": "out", "mode": "append", "key": ["id", "seq"]},
            r"needs `sink.mode: merge`",
        ),
        (
            [SNAPSHOT, {**CHANGES, "select": {"id": "id"}}],
            MERGE,
            r"`on_schema_change` has no meaning with `select`",
        ),
        (
            [{**CHANGES, "start": "earliest", "on_schema_change": {"dropped": "ignore"}}],
            MERGE,
            r"`on_schema_change` of source `changes` needs a source with a `snapshot` before it",
        ),
        (
            [{**CHANGES, "start": "earliest", "on_schema_change": {"narrowed": "ignore"}}],
            MERGE,
            r"needs a source with a `snapshot` before it",
        ),
        (
            [SNAPSHOT, {**CHANGES, "on_schema_change": {"dropped": "follow"}}],
            {**MERGE, "deletes": "soft", "history": "at"},
            r"needs a sink without `history`",
        ),
        (
            [SNAPSHOT, {**CHANGES, "on_schema_change": "stop", "emptied_columns": ["id"]}],
            MERGE,
            r"`emptied_columns` of source `changes`: column `id` is in `key`",
        ),
        (
            [SNAPSHOT, {**CHANGES, "emptied_columns": ["x"]}],
            MERGE,
            r"`emptied_columns`: no column `x` is declared in the `schema`",
        ),
        (
            [SNAPSHOT, {**CHANGES, "format": "json", "include": {}, "table": None}],
            MERGE,
            r"`on_schema_change` has no meaning with `format: json`",
        ),
    ],
)
def test_what_can_not_be_followed_exactly_is_refused_by_name(
    sources: list[dict[str, Any]], sink: dict[str, Any], told: str
) -> None:
    with pytest.raises((ValueError, InputError), match=told):
        declared(*sources, sink=sink)


WIDE = {**CHANGES, "schema": {"id": "bigint", "amount": "decimal(9,2)"}, "on_schema_change": None}


def test_wider_types_may_be_declared_while_a_generation_is_in_use() -> None:
    wider = declared(SNAPSHOT, {**WIDE, "widened_columns": {"amount": "decimal(12,3)"}})
    assert wider.widened_columns == {"amount": "decimal(12,3)"}
    assert wider.sources[-1].contract() == declared(SNAPSHOT, WIDE).sources[-1].contract()


@pytest.mark.parametrize(
    ("types", "told"),
    [
        ({"amount": "decimal(9,3)"}, r"decimal\(9,3\) does not hold every decimal\(9,2\)"),
        ({"amount": "double"}, r"double does not hold every decimal"),
        ({"other": "bigint"}, r"no column `other` is declared in the `schema`"),
        ({"id": "bigint"}, r"column `id` is in `key` or `partition_by`"),
    ],
)
def test_types_that_are_not_wider_are_refused(types: dict[str, str], told: str) -> None:
    with pytest.raises((ValueError, InputError), match=told):
        declared(SNAPSHOT, {**WIDE, "widened_columns": types})


@pytest.mark.parametrize(
    ("before", "now", "is_exact"),
    [
        ("smallint", "int", True),
        ("int", "bigint", True),
        ("bigint", "int", False),
        ("float", "double", True),
        ("double", "float", False),
        ("int", "double", False),
        ("decimal(9,2)", "decimal(11,4)", True),
        ("decimal(9,2)", "decimal(10,4)", False),
        ("string", "string", True),
        ("int", "string", False),
    ],
)
def test_a_wider_type_holds_every_value(before: str, now: str, is_exact: bool) -> None:
    assert is_widened(before, now) == is_exact
