"""Looking up where the tables of a pipeline are, by a process that may answer in any way."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.errors import HybridError, InputError, UnavailableError
from spark_jobs.launch.questions import spark_process
from spark_jobs.launch.questions.spark_process import SparkProcess
from spark_jobs.launch.questions.table_places import find_places
from tests.minimal import minimal_pipeline

TABLE = {"table": "shop.orders"}


def loaded(folder: Path, **declared: Any) -> LoadedPipeline:
    return minimal_pipeline(
        folder,
        {"type": "files", "name": "history", "format": "delta", **declared},
        transform="shop:orders",
    )


def found(pipeline: LoadedPipeline, monkeypatch: pytest.MonkeyPatch, script: str) -> LoadedPipeline:
    monkeypatch.setattr(spark_process, "local_spark_environment", lambda *_: {})
    monkeypatch.setattr(spark_process, "COMMAND", (sys.executable, "-c", script))
    with SparkProcess(pipeline) as process:
        return find_places(pipeline, process)


def says(answer: dict[str, Any]) -> str:
    return f"input(); print({json.dumps(answer)!r})"


def test_a_table_has_the_place_that_the_catalog_knows_and_is_declared_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = loaded(tmp_path, **TABLE)
    placed = found(declared, monkeypatch, says({"places": {"history": "s3://lake/orders"}}))
    (source,) = placed.pipeline.sources
    assert isinstance(source, FileSource)
    assert source.patterns == ["s3://lake/orders"]
    assert source.shown_place == "shop.orders"
    assert placed.contract() == declared.contract()


def test_without_tables_by_name_nothing_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = loaded(tmp_path, path="in")
    assert found(declared, monkeypatch, "import sys; sys.exit(1)") is declared


@pytest.mark.parametrize(
    ("kind", "error"), [("input", InputError), ("unavailable", UnavailableError)]
)
def test_what_the_catalog_refuses_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: type[HybridError]
) -> None:
    refusal = {"kind": kind, "message": "m", "hint": "h"}
    with pytest.raises(error, match=r"^m\. h$"):
        found(loaded(tmp_path, **TABLE), monkeypatch, says({"refusal": refusal}))


def test_where_spark_does_not_run_a_name_is_refused_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"exit status 1: no memory.*declare .* as `path`"):
        found(loaded(tmp_path, **TABLE), monkeypatch, "import sys; sys.exit('no memory')")


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({}, "either `path` or `table` is needed"),
        ({**TABLE, "path": "in"}, "either `path` or `table` is needed"),
        ({**TABLE, "format": "parquet"}, "only Delta and Iceberg tables are read by their names"),
        ({"table": "orders"}, "table"),
        ({"table": "unity.shop.orders"}, "table"),
    ],
)
def test_a_declaration_of_a_table_names_one_of_the_sessions_catalog(
    tmp_path: Path, declared: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        loaded(tmp_path, **declared)
