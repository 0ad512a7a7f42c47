"""Jobs that need an extension say so where none is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sources import extensions
from sources.errors import InputError
from sources.planning.transform_analysis import AnalysisAnswer, AnalysisRequest
from spark_jobs import analysis_job, shared_job
from tests.orchestration.supervision.live_case import LiveCase

NO_SPARK: Any = None


@pytest.fixture(autouse=True)
def _nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str) -> Iterator[Any]:
        return iter(())

    monkeypatch.setattr(extensions, "contributions", nothing)


def test_a_shared_driver_without_its_extension_names_the_way_out(tmp_path: Path) -> None:
    words = ["--folder", str(tmp_path), "--settings", "{}", "--started-by", "events"]
    with pytest.raises(InputError, match="No installed extension runs shared drivers") as seen:
        shared_job.main(words)
    assert "declare `driver: own`" in seen.value.hint


def test_an_analysis_without_its_extension_is_an_answer_and_no_end(tmp_path: Path) -> None:
    path = LiveCase(tmp_path).path
    request = AnalysisRequest(pipeline=path, columns={}, replayed=[], digest="")
    said = analysis_job.answer(NO_SPARK, request.model_dump_json())
    refusal = AnalysisAnswer.model_validate_json(said).refusal
    assert refusal is not None
    assert refusal.message == "No installed extension analyzes transforms."
