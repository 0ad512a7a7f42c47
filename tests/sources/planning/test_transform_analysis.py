"""What an analysis of a transform depends on, and how it is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sources.config.loader import LoadedPipeline, load_pipeline
from sources.planning.transform_analysis import (
    AnalysisRequest,
    OutputColumn,
    TransformAnalysis,
    keep_analysis,
    read_analysis,
    request_by_declaration,
)
from tests.minimal import minimal_declaration

FILES = {"type": "files", "name": "history", "path": "in/*", "format": "json"}
COLUMNS = {"id": "bigint", "at": "timestamp"}


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "shop.py").write_text("import rules\ndef orders(rows):\n    return rows\n")
    (tmp_path / "rules.py").write_text("LIMIT = 1\n")
    return minimal_declaration({**FILES, "schema": COLUMNS}, transform="shop:orders")


def load(folder: Path, document: dict[str, Any]) -> LoadedPipeline:
    path = folder / "orders.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_pipeline(path)


def request(folder: Path, document: dict[str, Any]) -> AnalysisRequest:
    found = request_by_declaration(load(folder, document))
    assert found is not None
    return found


def test_declared_columns_are_those_that_select_makes_of_them(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    assert request(tmp_path, document).columns == COLUMNS
    select = {"id": "CAST(id AS string)", "at": "at"}
    document["sources"] = [{**FILES, "schema": COLUMNS, "select": select}]
    assert request(tmp_path, document).columns == {"id": "string", "at": "timestamp"}


def test_folder_names_are_columns_too(tmp_path: Path, document: dict[str, Any]) -> None:
    document["sources"] = [{**FILES, "schema": COLUMNS, "partitions": {"day": "date"}}]
    assert request(tmp_path, document).columns == {**COLUMNS, "day": "date"}


def test_without_declared_columns_nothing_can_be_analyzed(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    document["sources"] = [{**FILES, "format": "parquet"}]
    assert request_by_declaration(load(tmp_path, document)) is None


def change_imported(folder: Path, _: dict[str, Any]) -> None:
    (folder / "rules.py").write_text("LIMIT = 2\n")


def change_columns(_: Path, document: dict[str, Any]) -> None:
    document["sources"] = [{**FILES, "schema": {**COLUMNS, "id": "string"}}]


def change_key(_: Path, document: dict[str, Any]) -> None:
    document["sink"]["key"] = ["at"]


def change_conf(_: Path, document: dict[str, Any]) -> None:
    document["spark"] = {"conf": {"spark.sql.ansi.enabled": "false"}}


@pytest.mark.parametrize("change", [change_imported, change_columns, change_key, change_conf])
def test_whatever_the_analysis_depends_on_changes_its_digest(
    tmp_path: Path, document: dict[str, Any], change: Callable[[Path, dict[str, Any]], None]
) -> None:
    before = request(tmp_path, document).digest
    assert request(tmp_path, document).digest == before
    change(tmp_path, document)
    assert request(tmp_path, document).digest != before


def test_what_the_analysis_does_not_depend_on_leaves_it_valid(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    before = request(tmp_path, document).digest
    (tmp_path / "other.py").write_text("")
    document["allowed_lateness"] = "1 day"
    assert request(tmp_path, document).digest == before


def test_an_analysis_is_read_as_it_was_kept(tmp_path: Path, document: dict[str, Any]) -> None:
    generation = load(tmp_path, document).open_generation(create=True)
    assert generation is not None
    assert read_analysis(generation) is None
    column = OutputColumn(name="id", type="bigint", nullable=True, inputs=None)
    made = TransformAnalysis(digest="d", columns=[column], stateful=["rows seen by id"])
    keep_analysis(generation, made)
    assert read_analysis(generation) == made


def test_another_query_or_watermark_is_analyzed_again(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    document["transform"] = {"sql": "orders.sql"}
    query = tmp_path / "orders.sql"
    query.write_text("SELECT * FROM input")
    first = request(tmp_path, document).digest
    assert request(tmp_path, document).digest == first
    document["transform"]["watermark"] = {"column": "at", "delay": "1 h"}
    second = request(tmp_path, document).digest
    query.write_text("SELECT id, at FROM input")
    assert len({first, second, request(tmp_path, document).digest}) == 3
