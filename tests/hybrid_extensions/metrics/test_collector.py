"""Metrics of several pipelines: what one of them can't say hides no other one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybrid_extensions.metrics import collector
from orchestration.supervision.status import Status, status_of
from sources.config.loader import LoadedPipeline
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
    [success] = [each for each in found.collect() if each.name == "hybrid_look_success"]
    values = {each.labels["pipeline"]: each.value for each in success.samples}
    assert values == {"events": 1, "other": 0}
