"""What a generation's runs go by: the user's declaration, and what they have followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sources.config.loader import LoadedPipeline
from sources.decoding.changes.declared_table import DeclaredTable
from sources.planning.topics.followed_columns import (
    FollowedChange,
    followed_columns,
    keep_followed,
    with_followed_columns,
)
from sources.state.generation import Generation, GenerationInfo
from sources.storage.folder import Folder
from tests.sources.config.test_schema_change import CHANGES, SNAPSHOT, declared

WIDER = {"amount": "decimal(16,4)", "pieces": "int"}


def change(column: str, type_: str = "int", default: Any = None, **more: Any) -> FollowedChange:
    return FollowedChange(
        column=column,
        type=type_,
        default=default,
        topic="shop.public.orders",
        partition=1,
        offset=7,
        at_ms=0,
        **more,
    )


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
    return Generation(Folder(tmp_path / "state"), info)


def added(generation: Generation, **changed: Any) -> dict[str, tuple[str, Any]]:
    """The added columns that the runs go by, with their values in older rows."""
    loaded = LoadedPipeline(Path("/p.yaml"), declared(SNAPSHOT, {**CHANGES, **changed}))
    followed = with_followed_columns(loaded, generation)
    # Read again, nothing is added twice; and the checkpoint can follow what was added.
    assert with_followed_columns(followed, generation) == followed
    assert followed.contract() == loaded.contract()
    columns = followed.pipeline.added_columns
    return {name: (column.type, column.value) for name, column in columns.items()}


def test_what_was_followed_is_declared_in_the_order_of_its_changes(generation: Generation) -> None:
    assert (added(generation), followed_columns(generation)) == ({}, [])
    keep_followed(generation, [change("note", "string"), change("discount", "int", 7)])
    keep_followed(generation, [change("day", "date", "2024-01-01")])
    assert list(added(generation)) == ["note", "discount", "day"]
    assert added(generation)["discount"] == ("int", 7)
    # Whatever is declared from now on for columns that come.
    assert list(added(generation, on_schema_change="stop")) == ["note", "discount", "day"]


def test_what_the_user_declares_counts(generation: Generation) -> None:
    keep_followed(generation, [change("note", "string"), change("discount", "int", 7)])
    declares = {"added_columns": {"discount": {"type": "int", "default": 8}}}
    assert added(generation, **declares) == {"discount": ("int", 8), "note": ("string", None)}
    assert added(generation, ignored_columns=["note"]) == {"discount": ("int", 7)}


def test_a_column_that_is_widened_again_has_the_widest_type(generation: Generation) -> None:
    columns = {"schema": {"id": "bigint", "amount": "decimal(9,2)", "pieces": "smallint"}}

    def types(**changed: Any) -> dict[str, str]:
        source = {**CHANGES, **columns, **changed}
        loaded = LoadedPipeline(Path("/p.yaml"), declared(SNAPSHOT, source))
        followed = with_followed_columns(loaded, generation)
        assert with_followed_columns(followed, generation) == followed
        return followed.pipeline.widened_columns

    assert types() == {}
    keep_followed(generation, [change("amount", "decimal(12,2)", kind="widened")])
    assert types() == {"amount": "decimal(12,2)"}
    # A driver goes on with what it has followed before.
    before = types()
    keep_followed(
        generation,
        [change(name, type_, kind="widened") for name, type_ in WIDER.items()],
    )
    assert types() == types(widened_columns=before) == WIDER
    wider = {"amount": "decimal(20,4)"}
    assert types(widened_columns=wider) == {**WIDER, **wider}


def test_columns_that_are_gone_or_left_out_are_declared_as_such(generation: Generation) -> None:
    columns = {"id": "bigint", "amount": "int", "name": "string", "day": "date"}

    def table(**changed: Any) -> DeclaredTable:
        source = {**CHANGES, "schema": columns, **changed}
        loaded = LoadedPipeline(Path("/p.yaml"), declared(SNAPSHOT, source))
        followed = with_followed_columns(loaded, generation)
        assert with_followed_columns(followed, generation) == followed
        assert followed.contract() == loaded.contract()
        found = followed.pipeline.sources[-1].changes
        assert found is not None
        return found

    keep_followed(
        generation,
        [
            change("note", kind="ignored"),
            change("amount", kind="dropped"),
            change("day", kind="emptied"),
            change("name", kind="renamed", name="title"),
            change("name", kind="renamed", name="label"),
        ],
    )
    found = table()
    assert found.ignored_columns == ["note"]
    assert (found.dropped_columns, found.emptied_columns) == (["amount"], ["day"])
    assert found.renamed_columns == {"name": ["title", "label"]}
    assert found.name_in_table("name") == "label"
    # What the user declares counts.
    assert table(dropped_columns=["day"]).emptied_columns == []
    assert table(added_columns={"note": "int"}).ignored_columns == []
    assert table(renamed_columns={"name": ["title", "label"]}).name_in_table("name") == "label"


def test_people_read_what_was_followed_when_and_where() -> None:
    assert str(change("discount", "int", 7, position="0a")) == (
        "column `discount` (int, 7 in older rows) was added at 1970-01-01T00:00:00Z, at topic "
        "`shop.public.orders`, partition 1, offset 7, log position 0a"
    )
    assert str(change("note", "", kind="ignored")).startswith(
        "column `note` (left out) was added at 1970"
    )
    assert "was renamed to `b` at 1970" in str(change("a", "", kind="renamed", name="b"))
    assert "(null in all rows now) was dropped at" in str(change("a", "", kind="emptied"))
