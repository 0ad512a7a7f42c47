"""The declaration of a transform: a function by its name, or a query in a file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from sources.config.code.transform import FunctionTransform, SqlTransform, Watermark
from sources.config.code.user_functions import require_transform
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.pipeline import Pipeline
from sources.errors import InputError
from tests.minimal import minimal_declaration


def declared(folder: Path, transform: Any, **changes: Any) -> LoadedPipeline:
    """A pipeline with this transform."""
    document = minimal_declaration(
        {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"},
        transform=transform,
        **changes,
    )
    jsonschema.validate(document, Pipeline.model_json_schema())
    path = folder / "orders.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_pipeline(path)


def test_a_text_is_a_function(tmp_path: Path) -> None:
    transform = declared(tmp_path, "shop.orders:rows").pipeline.transform
    assert isinstance(transform, FunctionTransform)
    assert (transform.module, transform.attribute) == ("shop.orders", "rows")
    assert declared(tmp_path, {"function": "shop.orders:rows"}).pipeline.transform == transform


def test_a_mapping_is_a_query_with_its_watermark(tmp_path: Path) -> None:
    watermark = {"column": "at", "delay": "10 min"}
    transform = declared(tmp_path, {"sql": "f.sql", "watermark": watermark}).pipeline.transform
    assert isinstance(transform, SqlTransform)
    assert transform.watermark == Watermark(column="at", delay=timedelta(minutes=10))
    assert transform.name == "f.sql"


@pytest.mark.parametrize(
    ("transform", "told"),
    [
        ({"sqll": "f.sql"}, "transform.sqll: unknown field; did you mean `sql`?"),
        ({}, "transform.sql: this field is needed"),
        ({"sql": "f.sql", "watermark": {"column": "at"}},
         "transform.watermark.delay: this field is needed"),
        ({"sql": "f.sql", "watermark": {"colum": "at", "delay": "1 h"}},
         "transform.watermark.colum: unknown field; did you mean `column`?"),
        ({"sql": "../f.sql"}, "`../f.sql` is not next to the pipeline's file"),
        ({"sql": "/f.sql"}, "`/f.sql` is not next to the pipeline's file"),
        ({"sql": "s3://b/f.sql"}, "`s3://b/f.sql` is not next to the pipeline's file"),
        ("features", "transform.function: String should match pattern"),
        (5, "transform: a mapping (`field: value` lines) is needed here"),
    ],
)  # fmt: skip
def test_what_is_neither_is_refused_by_its_field(tmp_path: Path, transform: Any, told: str) -> None:
    with pytest.raises((InputError, jsonschema.ValidationError)):
        declared(tmp_path, transform)
    document = yaml.safe_dump(
        {"name": "o", "transform": transform, "sources": [], "event_time": "at", "state": "s"}
    )
    (tmp_path / "o.yaml").write_text(document)
    with pytest.raises(InputError) as caught:
        load_pipeline(tmp_path / "o.yaml")
    assert told in caught.value.message


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    loaded = declared(tmp_path, {"sql": "f.sql"})
    with pytest.raises(InputError, match=r"`transform.sql: f.sql` can't be read") as caught:
        require_transform(loaded)
    assert caught.value.fields["field"] == "transform.sql"
    (tmp_path / "f.sql").write_text(" \n")
    with pytest.raises(InputError, match=r"`transform.sql: f.sql` is empty"):
        require_transform(loaded)
    (tmp_path / "f.sql").write_text("SELECT * FROM input")
    require_transform(loaded)


def test_a_module_that_workers_would_import_in_place_of_ours_is_refused(tmp_path: Path) -> None:
    loaded = declared(tmp_path, {"sql": "f.sql"})
    (tmp_path / "f.sql").write_text("SELECT * FROM input")
    (tmp_path / "sources.py").touch()
    with pytest.raises(InputError, match=r"has the name of the package `sources`"):
        require_transform(loaded)


def test_an_audit_without_a_query_needs_one_in_the_transform(tmp_path: Path) -> None:
    tolerance = {"tolerance": {"amount": 1e-9}}
    assert declared(tmp_path, {"sql": "f.sql"}, audit=tolerance).pipeline.audit_sql is None
    with pytest.raises(InputError, match=r"`audit.sql` is needed"):
        declared(tmp_path, "shop:rows", audit=tolerance)
