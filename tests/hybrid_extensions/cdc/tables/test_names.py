"""Names that are made of a table's name, whatever characters it has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.cdc.tables.names import (
    file_part,
    folder_part,
    pipeline_name,
    table_of_file,
    topic_part,
)
from tests.properties import examples

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


def test_names_of_pipelines() -> None:
    assert pipeline_name("shop", "My Schema.Order-Lines") == "shop_my_schema_order_lines"


@examples(200)
@given(NAMES)
def test_a_table_is_read_from_the_name_of_its_file(name: str) -> None:
    part = file_part(f"public.{name}")
    assert "/" not in part
    assert table_of_file(part) == f"public.{name}"


@examples(200)
@given(NAMES, NAMES)
def test_tables_with_pipelines_of_different_names_share_no_topic_and_no_folder(
    one: str, other: str
) -> None:
    if pipeline_name("shop", f"public.{one}") != pipeline_name("shop", f"public.{other}"):
        assert topic_part(one) != topic_part(other)
        assert folder_part(one) != folder_part(other)


@examples(200)
@given(NAMES)
def test_a_folder_is_one_part_of_a_path(name: str) -> None:
    part = folder_part(name)
    assert "/" not in part
    assert part not in (".", "..")
