"""Metrics of several pipelines: what one of them can't say hides no other one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybrid_extensions.metrics import collector
from hybrid_extensions.metrics.cli import each_once
from orchestration.supervision.status import Status, status_of
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from tests.orchestration.generations.generation_case import GenerationCase


def test_an_error_of_any_kind_is_that_of_one_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = GenerationCase(tmp_path)
    other = tmp_path / "other.yaml"
    other.write_text((tmp_path / "events.yaml").read_text().replace("name: events", "name: other"))

    def look(loaded: LoadedPipeline) -> Status:
        if loaded.pipeline.name == "other":
            # As of a part whose table's log can't be read.
            raise PermissionError(13, "Permission denied")
        return status_of(loaded)

    monkeypatch.setattr(collector, "status_of", look)
    found = collector.PipelineCollector([other, case.loaded.path])
    assert looks(found) == {"events": 1, "other": 0}


def test_a_file_that_became_unreadable_is_told_under_the_name_of_its_pipeline(
    tmp_path: Path,
) -> None:
    case = GenerationCase(tmp_path)
    path = case.loaded.path.rename(tmp_path / "of-another-name.yaml")
    found = collector.PipelineCollector([path])
    assert looks(found) == {"events": 1}
    path.write_text("name: [")
    assert looks(found) == {"events": 0}


def test_a_pipeline_that_is_named_twice_is_served_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = GenerationCase(tmp_path).loaded.path
    monkeypatch.chdir(tmp_path)
    assert each_once([path, Path(path.name), path]) == [path]
    other = tmp_path / "other.yaml"
    other.write_text(path.read_text())
    with pytest.raises(InputError, match=r"other.yaml both declare a pipeline `events`"):
        each_once([path, other])


def looks(found: collector.PipelineCollector) -> dict[str, float]:
    [success] = [each for each in found.collect() if each.name == "hybrid_look_success"]
    return {each.labels["pipeline"]: each.value for each in success.samples}
