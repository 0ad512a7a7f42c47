"""What is copied for a generation, so that its runs do not follow later changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hybrid_extensions.audit.computed.expected_query import expected_query
from sources.config.document.yaml_document import KEPT
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.kept_definitions import (
    keep_definition,
    kept_declaration,
    kept_folder,
    which_file,
)
from sources.state.generation import Generation

MODULES = {
    "transforms.py": "from shop.rules import vip\nimport plain\nimport json\n",
    # A package without `__init__.py`, and a module in it that another one imports.
    "shop/rules.py": "def vip(rows):\n    from shop.deep.limits import high\n    return rows\n",
    "shop/deep/limits.py": "high = 7\n",
    "plain/__init__.py": "",
    "unused.py": "",
}


def declaration(transform: Any) -> dict[str, Any]:
    """A pipeline with this transform."""
    return {
        "name": "orders",
        "event_time": "at",
        "key": ["id"],
        "sources": [
            {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"}
        ],
        "transform": transform,
        "sink": {"path": "out", "mode": "append", "key": ["id"]},
        "state": "state",
    }


def kept_generation(loaded: LoadedPipeline) -> Generation:
    """The first generation, for which the definition is kept."""
    generation = loaded.open_generation(create=True)
    assert generation is not None
    keep_definition(loaded, generation)
    return generation


def test_the_modules_that_a_transform_imports_are_kept_and_no_others(tmp_path: Path) -> None:
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    document = declaration("transforms:identity")
    (tmp_path / "orders.yaml").write_text(yaml.safe_dump(document))
    loaded = load_pipeline(tmp_path / "orders.yaml")
    generation = kept_generation(loaded)
    kept = {name.removeprefix("definition/") for name in generation.names("definition/*")}
    assert kept - {KEPT} == {"orders.yaml", *MODULES} - {"unused.py"}


def test_a_query_is_kept_and_its_runs_go_by_the_copy(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql/f.sql").write_text("SELECT * FROM input")
    (tmp_path / "orders.yaml").write_text(yaml.safe_dump(declaration({"sql": "sql/f.sql"})))
    loaded = load_pipeline(tmp_path / "orders.yaml")
    generation = kept_generation(loaded)
    (tmp_path / "sql/f.sql").write_text("SELECT id FROM input")
    kept = load_pipeline(kept_folder(loaded, generation.name).path("orders.yaml"))
    assert kept.own_file("sql/f.sql").read_text() == "SELECT * FROM input"
    assert loaded.own_file("sql/f.sql").read_text() == "SELECT id FROM input"


def test_the_audit_of_a_generation_that_goes_by_its_copy_goes_by_its_query(tmp_path: Path) -> None:
    document = {**declaration("transforms:identity"), "audit": {"sql": "audit.sql"}}
    (tmp_path / "orders.yaml").write_text(yaml.safe_dump(document))
    (tmp_path / "audit.sql").write_text("SELECT * FROM input")
    loaded = load_pipeline(tmp_path / "orders.yaml")
    generation = kept_generation(loaded)
    (tmp_path / "audit.sql").write_text("SELECT id FROM input")
    kept = kept_declaration(loaded, generation.name)
    declared = expected_query(kept)
    assert declared is not None
    assert declared.sql == "SELECT * FROM input"
    edited = expected_query(loaded)
    assert edited is not None
    assert edited.sql == "SELECT id FROM input"


@pytest.mark.parametrize("query", ["../audit.sql", "gone.sql"])
def test_an_audit_s_query_outside_of_the_pipeline_s_folder_is_not_kept(
    tmp_path: Path, query: str
) -> None:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    document = {**declaration("transforms:identity"), "audit": {"sql": query}}
    (folder / "orders.yaml").write_text(yaml.safe_dump(document))
    (tmp_path / "audit.sql").write_text("SELECT * FROM input")
    loaded = load_pipeline(folder / "orders.yaml")
    generation = kept_generation(loaded)
    assert set(generation.names("definition/*")) == {"definition/orders.yaml", f"definition/{KEPT}"}


def test_a_generation_that_goes_by_its_copy_says_where_its_declaration_is_changed(
    tmp_path: Path,
) -> None:
    (tmp_path / "orders.yaml").write_text(yaml.safe_dump(declaration({"sql": "f.sql"})))
    (tmp_path / "f.sql").write_text("SELECT * FROM input")
    loaded = load_pipeline(tmp_path / "orders.yaml")
    generation = kept_generation(loaded)
    assert which_file(loaded) == ""
    kept = kept_declaration(loaded, generation.name)
    assert which_file(kept) == (
        f"Generation g1 goes by its copy of the pipeline's file and code: change {kept.path}, or "
        "the code beside it."
    )
