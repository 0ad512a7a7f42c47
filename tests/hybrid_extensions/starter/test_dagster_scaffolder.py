"""The folder that `dg scaffold defs` writes for a pipeline."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dagster.components.component_scaffolding import scaffold_object

from hybrid_extensions.starter.dagster_scaffolder import ScaffoldParams
from sources.config.loader import load_pipeline
from sources.errors import InputError
from tests.e2e.case import moment

COMPONENT = "orchestration.component.HybridPipeline"


def scaffold(folder: Path, root: Path, params: ScaffoldParams) -> None:
    """As `dg` does it."""
    scaffold_object(folder, COMPONENT, params.model_dump_json(), "yaml", root)


def test_format_and_columns_are_detected_in_files_of_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = pa.array([moment(1), moment(2)], pa.timestamp("us", "UTC"))
    (tmp_path / "archive").mkdir()
    pq.write_table(pa.table({"number": [1, 2], "seen": times}), tmp_path / "archive" / "1.parquet")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "src" / "shop" / "defs" / "orders"
    scaffold(folder, tmp_path, ScaffoldParams(files="archive/*.parquet", key=["number"]))
    loaded = load_pipeline(folder / "orders.yaml")
    assert (loaded.pipeline.event_time.column, loaded.pipeline.key) == ("seen", ["number"])
    assert loaded.pipeline.bounded_files[0].patterns == ["../../../../archive/*.parquet"]
    assert loaded.pipeline.topics == []


def test_table_and_state_are_not_among_the_code(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "defs" / "orders"
    scaffold(folder, tmp_path, ScaffoldParams())
    loaded = load_pipeline(folder / "orders.yaml")
    assert Path(loaded.target.url).resolve() == tmp_path / "orders_out"
    assert {each.name for each in folder.iterdir()} == {
        "defs.yaml", "orders.yaml", "orders_transform.py", "orders_audit.sql",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "params"),
    [("Orders", ScaffoldParams()), ("orders", ScaffoldParams(files="nowhere/*.parquet"))],
)
def test_what_is_refused_leaves_no_folder_that_would_keep_the_name(
    tmp_path: Path, name: str, params: ScaffoldParams
) -> None:
    with pytest.raises(InputError):
        scaffold(tmp_path / name, tmp_path, params)
    assert not (tmp_path / name).exists()
