"""Which tables a connector captures, and in which topics, as its configuration says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from own_kinds.kinds import LOGGED, SLOTTED

from hybrid_extensions.cdc.databases.connector_lists import Capture, find_capture, publication_of
from hybrid_extensions.cdc.databases.name_patterns import is_listed
from sources.config.database_kind import DatabaseKind
from tests.services.connect_worker import worker

ROUTED: Any = SimpleNamespace(topic="routed")


def table_of(connector: str | None, kind: DatabaseKind = LOGGED) -> Any:
    return SimpleNamespace(
        options=SimpleNamespace(connector=connector, kind=kind),
        name="shop.t",
        parts=("shop", "t"),
    )


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, None),
        ({"table.include.list": "shop.t, shop.u", "skipped.operations": "none"}, None),
        ({"table.include.list": r"shop\.(t|u)", "database.include.list": "SHOP"}, None),
        ({"table.include.list": r"shop.a\,b,shop.t", "table.exclude.list": r"shop.t\,u"}, None),
        # What only Java reads, and what only the worker knows, is taken for what it was.
        ({"table.include.list": r"shop.\p{L}", "table.exclude.list": r"\p{L}+"}, None),
        ({"table.include.list": "${file:tables}", "topic.prefix": "${env:PREFIX}"}, None),
        ({"table.include.list": "shop.t2,shop.u"}, "`table.include.list` of the connector is"),
        ({"table.exclude.list": ".*t"}, "`table.exclude.list` of the connector is `.*t`"),
        ({"table.exclude.list": r"\Qshop.\Et"}, "`table.exclude.list` of the connector is"),
        ({"database.include.list": "other"}, "`database.include.list` of the connector is"),
        ({"skipped.operations": "t,d"}, "lacks changes: `skipped.operations` of the connector is"),
        ({"topic.prefix": "new"}, "`topic.prefix` of the connector is `new`, and was `shop`"),
    ],
)
def test_a_connector_that_no_longer_captures_a_table_is_named(
    config: dict[str, str], expected: str | None
) -> None:
    with worker({"/connectors/shop/config": {"topic.prefix": "shop", **config}}) as url:
        found = find_capture(table_of(url), ROUTED, "shop").problem
    assert (found is None) == (expected is None)
    assert expected is None or expected in str(found)


def test_schemas_are_those_of_postgresql_and_so_is_the_publication() -> None:
    answers: dict[str, Any] = {"/connectors/shop/config": {"topic.prefix": "shop"}}
    with worker(answers) as url:
        table = table_of(url, SLOTTED)
        assert find_capture(table, ROUTED) == Capture(
            "shop", is_told=True, publication="dbz_publication"
        )
        answers["/connectors/shop/config"] = {
            "schema.exclude.list": "shop",
            "database.include.list": "other",
            "publication.name": "sales",
            "include.schema.changes": "false",
        }
        found = find_capture(table, ROUTED)
        assert (found.publication, publication_of(table.options)) == ("sales", "sales")
        assert "`schema.exclude.list` of the connector is `shop`" in str(found.problem)
        assert not found.reports_statements
        answers["/connectors/shop/config"] = {"publication.name": "${env:NAME}"}
        assert find_capture(table, ROUTED).publication is None
        del answers["/connectors/shop/config"]
        assert publication_of(table.options) is None
    assert find_capture(table, ROUTED) == Capture(None)


def test_the_topic_of_changes_tells_the_prefix_without_a_connector() -> None:
    named: Any = [SimpleNamespace(topic=topic) for topic in ("a.b.shop.t", "routed")]
    assert [find_capture(table_of(None), topic) for topic in named] == [
        Capture("a.b"),
        Capture(None),
    ]


@pytest.mark.parametrize(
    ("name", "listed", "expected"),
    [
        ("shop.a,b", r"shop.x,shop.a\,b", True),
        ("shop.b", r"shop.x,shop.a\,b", False),
        ("shop.a-b", r"shop\.a\-b", True),
        ("shop.a$b", r"\Qshop.a$b\E,(", True),
        ("shop.a", "(,shop.a", True),
        ("shop.b", "(,shop.a", None),
        ("shop.b", "", False),
    ],
)
def test_patterns_are_read_as_java_does_or_not_at_all(
    name: str, listed: str, expected: bool | None
) -> None:
    assert is_listed(name, listed) is expected
