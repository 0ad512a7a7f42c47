"""`type: table`: the table of another pipeline, which the plan looks up and all else goes by."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from hybrid_extensions.upstream.source import UpstreamFiles
from hybrid_extensions.upstream.status import status_part
from orchestration.defs.assets.upstream import upstream_keys, upstream_specs
from orchestration.defs.keys import table_key
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import InputError
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.plan import Plan, make_plan
from tests.extensions import needs
from tests.minimal import minimal_declaration

AT = datetime(2024, 1, 1, tzinfo=UTC)
FOLLOWED = {"type": "table", "name": "orders", "discovery_interval": "1 s"}


def append(folder: Path, number: int) -> None:
    at = pa.array([AT], pa.timestamp("us", "UTC"))
    write_deltalake(folder, pa.table({"id": [number], "at": at}), mode="append")


def declare(folder: Path, name: str, *sources: dict[str, Any], **fields: Any) -> Path:
    sink = {"path": name, "mode": "append", "key": ["id"]}
    document = {**minimal_declaration(*sources, name=name), "sink": sink, **fields}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def upstream(folder: Path, **fields: Any) -> Path:
    files = {"type": "files", "name": "raw", "path": "in", "format": "parquet"}
    return declare(folder, "first", files, **fields)


def follower(folder: Path, **changes: Any) -> LoadedPipeline:
    source = {**FOLLOWED, "pipeline": "first.yaml", **changes}
    return load_pipeline(declare(folder, "second", source))


def source_of(loaded: LoadedPipeline) -> UpstreamFiles:
    (source,) = loaded.pipeline.sources
    assert isinstance(source, UpstreamFiles)
    return source


def planned(loaded: LoadedPipeline) -> Plan:
    return make_plan(loaded)


def refusal(loaded: LoadedPipeline) -> InputError:
    with pytest.raises(InputError) as caught:
        planned(loaded)
    return caught.value


def test_the_table_is_found_by_the_other_pipeline_and_is_its_asset(tmp_path: Path) -> None:
    first, second = load_pipeline(upstream(tmp_path)), follower(tmp_path)
    source = source_of(second)
    assert source.patterns == [str(tmp_path / "first")]
    assert source.shown_place == "table of first.yaml"
    assert upstream_keys(second, "orders") == [table_key(first)]
    assert upstream_specs(second) == []


@needs("delta_history")
def test_runs_go_by_the_place_that_was_planned_and_need_no_file_of_the_other_pipeline(
    tmp_path: Path,
) -> None:
    path = upstream(tmp_path)
    append(tmp_path / "first", 1)
    loaded = follower(tmp_path)
    planned(loaded)
    append(tmp_path / "first", 2)
    path.unlink()
    loaded = load_pipeline(loaded.path)
    assert source_of(loaded).patterns == []
    found = GrowingFolder(PipelineContext.require(loaded)).discover()
    assert found is not None
    assert found.rows == 1


@needs("delta_history")
def test_one_version_is_read_without_an_interval(tmp_path: Path) -> None:
    upstream(tmp_path, sink={"path": "first", "mode": "merge", "key": ["id"]})
    for number in range(3):
        append(tmp_path / "first", number)
    (part,) = planned(follower(tmp_path, discovery_interval=None, version=1)).files
    assert part.rows == 2


def test_a_table_that_is_not_there_yet_is_refused_by_its_pipeline(tmp_path: Path) -> None:
    upstream(tmp_path)
    error = refusal(follower(tmp_path))
    assert "reads the table of pipeline `first`, which is not there yet" in error.message
    assert "Run that pipeline first, whose file is first.yaml" in error.hint


def test_a_table_whose_rows_are_merged_is_not_followed(tmp_path: Path) -> None:
    upstream(tmp_path, sink={"path": "first", "mode": "merge", "key": ["id"]})
    append(tmp_path / "first", 1)
    assert "its commits rewrite rows" in refusal(follower(tmp_path)).message


def test_a_pipeline_that_can_not_be_loaded_is_named_by_the_plan_alone(tmp_path: Path) -> None:
    loaded = follower(tmp_path)
    assert "reads the table of first.yaml, which can't be loaded" in refusal(loaded).message


def test_pipelines_that_read_each_other_are_refused(tmp_path: Path) -> None:
    back = {**FOLLOWED, "pipeline": "second.yaml"}
    declare(tmp_path, "first", back)
    error = refusal(follower(tmp_path))
    assert "read each other's tables in a circle: " in error.message


@needs("delta_history")
def test_the_status_counts_what_is_to_be_read_and_names_what_can_not_be(tmp_path: Path) -> None:
    upstream(tmp_path)
    append(tmp_path / "first", 1)
    loaded = follower(tmp_path)
    assert status_part(loaded).rows == []
    planned(loaded)
    (row,) = status_part(loaded).rows
    assert row.cells == ("orders", str(tmp_path / "first"), "0", "0", "0", "up to date")
    append(tmp_path / "first", 2)
    append(tmp_path / "first", 3)
    part = status_part(loaded)
    assert (part.rows[0].cells[2:], part.is_healthy) == (("0", "2", "2", "following"), True)
    upstream(tmp_path, sink={"path": "elsewhere", "mode": "append", "key": ["id"]})
    part = status_part(load_pipeline(loaded.path))
    assert not part.is_healthy
    assert "writes to" in part.rows[0].cells[-1]
    upstream(tmp_path)
    at = pa.array([AT], pa.timestamp("us", "UTC"))
    write_deltalake(tmp_path / "first", pa.table({"id": [4], "at": at}), mode="overwrite")
    part = status_part(load_pipeline(loaded.path))
    assert not part.is_healthy
    state = part.rows[0].cells[-1]
    assert "removes or rewrites rows" in state
    # What has to be recomputed, and the one command that does it.
    rows = "its rows from 2024-01-01T00:00:00Z to 2024-01-01T00:00:00Z have to be recomputed"
    assert rows in state
    assert "`hybrid rerun P`" in state
    assert part.document[0]["changed"] == ["2024-01-01T00:00:00Z"] * 2


def test_a_field_named_table_is_named_in_messages(tmp_path: Path) -> None:
    files = {"type": "files", "name": "raw", "table": "one", "format": "delta"}
    with pytest.raises(InputError, match=r"sources\.0\.table: String should match"):
        load_pipeline(declare(tmp_path, "first", files))
    with pytest.raises(InputError, match=r"sources\.0\.files: unknown field"):
        load_pipeline(declare(tmp_path, "second", {**FOLLOWED, "pipeline": "x", "files": 1}))


def test_without_such_a_source_there_is_no_part(tmp_path: Path) -> None:
    assert status_part(load_pipeline(upstream(tmp_path))).rows == []
