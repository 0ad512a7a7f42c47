"""A template of many tables: the file that it makes for each, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hybrid_extensions.cdc.tables.template import FoundTable, Template, is_template
from sources.config.loader import load_pipeline
from sources.errors import InputError

SHOP: dict[str, Any] = {
    "name": "shop",
    "database": {"dsn": "slotted://db/shop", "slot": "shop"},
    "tables": {"include": ["public.*"], "exclude": ["public.audit_*"]},
    "topic": "shop.{schema}.{table}",
    "changes": {"bootstrap_servers": "broker:9092"},
    "sink": {"path": "lake/{schema}/{table}"},
    "state": "state",
}
ORDERS = FoundTable("public.Orders", {"id": "bigint", "note": "string"}, ["id"], ["total"])


def template(folder: Path, **changes: Any) -> Template:
    path = folder / "shop.yaml"
    path.write_text(yaml.safe_dump({**SHOP, **changes}))
    return Template(path)


def test_a_table_becomes_a_pipeline_in_a_file_of_its_own(tmp_path: Path) -> None:
    loaded = template(tmp_path).write(ORDERS)
    pipeline = loaded.pipeline
    assert loaded.path == tmp_path / "shop.public.Orders.yaml"
    assert pipeline.name == "shop_public_orders"
    assert pipeline.topics[0].topic == "shop.public.Orders"
    assert pipeline.topics[0].value_columns == {"id": "bigint", "note": "string"}
    assert pipeline.ignored_columns == ["total"]
    assert loaded.target.url == str(tmp_path / "lake/public/Orders")
    assert (pipeline.sink.mode, pipeline.sink.key) == ("merge", ["id"])
    assert (pipeline.spark.driver, pipeline.spark.group) == ("shared", "shop")
    assert pipeline.sources[0].name == "snapshot"
    # Long values that an update leaves as they were keep what the row has, and a TRUNCATE counts.
    assert pipeline.sink.unchanged == "_unchanged"
    assert pipeline.follows_truncates
    assert not is_template(loaded.path)
    assert is_template(tmp_path / "shop.yaml")


def test_tables_of_a_kind_without_slots_are_ordered_by_the_position(tmp_path: Path) -> None:
    made = template(tmp_path, database={"dsn": "logged://u@db/shop"}, topic="s.{schema}.{table}")
    pipeline = made.write(FoundTable("shop.orders", {"id": "bigint"}, ["id"], [])).pipeline
    captured = pipeline.topics[0].changes
    assert captured is not None
    assert captured.table == "shop.orders"
    assert set(pipeline.topics[0].include.values()) == {"position", "committed_at", "deleted"}
    assert pipeline.sink.unchanged is None


def test_a_transform_of_ones_own_need_not_pass_on_what_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def rows(rows):\n    return rows.filter('id > 1')\n")
    pipeline = template(tmp_path, transform="own:rows").write(ORDERS).pipeline
    assert pipeline.sink.unchanged is None
    assert not pipeline.follows_truncates


def test_a_changed_template_changes_each_file_and_none_of_the_kept_columns(tmp_path: Path) -> None:
    template(tmp_path).write(ORDERS)
    (tmp_path / "shop.public.mine.yaml").write_text("name: mine\n")
    changed = template(
        tmp_path,
        spark={"driver": "own"},
        tables={**SHOP["tables"], "overrides": {"public.Orders": {"approve": True}}},
    )
    assert changed.tables() == ["public.Orders"]
    pipeline = changed.load("public.Orders").pipeline
    assert pipeline.spark.driver == "own"
    assert pipeline.approve
    assert pipeline.topics[0].value_columns == {"id": "bigint", "note": "string"}
    assert pipeline.ignored_columns == ["total"]
    assert pipeline.sink.key == ["id"]
    before = changed.file_of("public.Orders").stat().st_mtime_ns
    changed.load("public.Orders")
    assert changed.file_of("public.Orders").stat().st_mtime_ns == before


def test_what_a_table_lacks_is_said_with_the_override_that_mends_it(tmp_path: Path) -> None:
    odd = FoundTable("public.odd", {"a": "int"}, [], ["took"])
    assert "it has no primary key that can be read. Declare `sink: {key: […]}`" in str(
        template(tmp_path).lacks(odd)
    )
    mended = {"sink": {"key": ["a"]}, "changes": {"schema": {"took": "string"}}}
    whole = template(tmp_path, tables={**SHOP["tables"], "overrides": {"public.odd": mended}})
    assert whole.lacks(odd) is None
    pipeline = whole.write(odd).pipeline
    assert pipeline.topics[0].value_columns == {"a": "int", "took": "string"}
    assert pipeline.ignored_columns == []
    assert pipeline.sink.key == ["a"]


def test_a_table_that_keeps_each_change_is_neither_ordered_nor_merged(tmp_path: Path) -> None:
    kept = {"path": "lake/{schema}/{table}", "mode": "append"}
    pipeline = template(tmp_path, sink=kept).write(ORDERS).pipeline
    assert (pipeline.sink.mode, pipeline.sink.key) == ("append", ["id", "_position"])
    assert (pipeline.sink.order, pipeline.sink.deleted, pipeline.sink.unchanged) == ([], None, None)
    assert not pipeline.follows_truncates
    keyless = FoundTable("public.log", {"at": "timestamp"}, [], [])
    assert "with `mode: append` if rows are only inserted" in str(template(tmp_path).lacks(keyless))
    own = {"public.log": {"sink": {"mode": "append", "key": ["at", "_position"]}}}
    appended = template(tmp_path, tables={**SHOP["tables"], "overrides": own})
    assert appended.lacks(keyless) is None
    assert appended.write(keyless).pipeline.sink.key == ["at", "_position"]


def test_tables_are_chosen_by_pattern(tmp_path: Path) -> None:
    tables = template(tmp_path).declared.tables
    assert tables.has("public.orders")
    assert not tables.has("public.audit_log")
    assert not tables.has("other.orders")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"sink": {"path": "lake"}}, "`sink.path: lake` would be the same for all tables"),
        ({"topic": "shop"}, "`topic: shop` would be the same for all tables"),
        ({"sink": {"mode": "merge"}}, "`sink.path` is missing. Write `{table}` in it"),
        ({"colour": "red"}, "`colour` is neither a field of a pipeline"),
        ({"database": {"dsn": "slotted://db?password=x", "slot": "s"}}, "contains a password"),
        (
            {"tables": {"include": ["a.*"], "overrides": {"a.b": {"name": "x"}}}},
            "`tables.overrides` can't change `name`",
        ),
    ],
)
def test_a_template_that_makes_no_sense_is_refused(
    tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        template(tmp_path, **changes)


def test_a_template_is_no_pipeline_itself(tmp_path: Path) -> None:
    made = template(tmp_path)
    with pytest.raises(InputError, match=r"Name one of them: `.*/shop.yaml/<schema>.<table>`"):
        load_pipeline(made.path)
    with pytest.raises(InputError, match=r"has no table `public.x`; there are: none yet"):
        made.load("public.x")


@pytest.mark.parametrize(
    ("table", "topic"),
    [
        ("Order Lines", "Order_Lines"),
        ("größe", "gr__e"),
        ("日本", "__"),
        ("😀", "__"),
        ('it\'s "x"', "it_s__x_"),
        ("back`tick", "back_tick"),
        ("a.b", "a.b"),
        ("r/s", "r_s"),
        ("p*q", "p_q"),
        ("100%", "100_"),
        ("[x]", "_x_"),
        ("..", ".."),
        ("tab\t", "tab_"),
        ("%2F", "_2F"),
    ],
)
def test_any_name_of_a_table_makes_a_pipeline_that_is_found_again(
    tmp_path: Path, table: str, topic: str
) -> None:
    made = template(tmp_path)
    name = f"public.{table}"
    loaded = made.write(FoundTable(name, {"id": "bigint"}, ["id"], []))
    assert loaded.pipeline.topics[0].topic == f"shop.public.{topic}"
    assert loaded.path.parent == tmp_path
    assert Path(loaded.target.url).parent == tmp_path / "lake/public"
    assert made.tables() == [name]
    again = made.load(name).pipeline
    assert again.topics[0].changes is not None
    assert again.topics[0].changes.table == name


def test_a_name_that_would_be_replaced_by_an_environment_variable_is_refused(
    tmp_path: Path,
) -> None:
    odd = FoundTable("public.${HOME}", {"id": "bigint"}, ["id"], [])
    assert "stands for an environment variable" in str(template(tmp_path).lacks(odd))
