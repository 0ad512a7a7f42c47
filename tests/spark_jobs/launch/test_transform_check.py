"""When a transform is analyzed while planning, and what becomes of the answer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, SeamError
from sources.planning.plan import Plan
from sources.planning.transform_analysis import read_analysis, request_by_declaration
from sources.state.generation import Generation
from spark_jobs.launch.questions import spark_process
from spark_jobs.launch.questions.transform_check import TransformCheck
from tests.extensions import needs
from tests.minimal import minimal_pipeline
from tests.services.processes import NEVER_ENDS, runs, wait_for

pytestmark = pytest.mark.analysis
COLUMNS = {"id": "bigint", "at": "timestamp"}
ANALYSIS = '{"analysis": {"digest": "%s", "columns": [], "watermark_ms": 5}}'


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedPipeline:
    (tmp_path / "shop.py").write_text("def orders(rows):\n    return rows\n")
    files = {"type": "files", "name": "history", "path": "in/*", "format": "json"}
    return minimal_pipeline(tmp_path, {**files, "schema": COLUMNS}, transform="shop:orders")


def digest(loaded: LoadedPipeline) -> str:
    request = request_by_declaration(loaded)
    assert request is not None
    return request.digest


class Answering:
    """Replaces the process by a script of Python, which has no Spark.

    Attributes:
        starts: How often it was started.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
        self.starts = 0
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(spark_process, "local_spark_environment", self._environment)
        self.run(script)

    def run(self, script: str) -> None:
        """Run this script from now on."""
        command = (sys.executable, "-c", script)
        self._monkeypatch.setattr(spark_process, "COMMAND", command)

    def _environment(self, *_: object) -> dict[str, str]:
        self.starts += 1
        return {}


def says(text: str) -> str:
    return f"import sys; sys.stdin.readline(); print({text!r})"


def planned(loaded: LoadedPipeline, monkeypatch: pytest.MonkeyPatch) -> tuple[Plan, Generation]:
    """A plan of the declared columns."""
    monkeypatch.setattr(Plan, "columns_by_name", COLUMNS)
    plan = Plan(
        pipeline="orders", created_ms=now_ms(), files=[], archives=[], topic=None, warnings=[]
    )
    generation = loaded.open_generation(create=True)
    assert generation is not None
    return plan, generation


@needs("analysis")
def test_an_unchanged_transform_is_analyzed_once(
    loaded: LoadedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Answering(monkeypatch, says(ANALYSIS % digest(loaded)))
    plan, generation = planned(loaded, monkeypatch)
    for _ in range(2):
        with TransformCheck(loaded) as check:
            assert check.settle(plan, generation).watermark_ms == 5
    assert process.starts == 1
    (loaded.folder / "shop.py").write_text("def orders(rows):\n    return rows.limit(1)\n")
    with TransformCheck(loaded) as check:
        check.settle(plan, generation)
    assert process.starts == 2


@needs("analysis")
def test_a_new_plan_is_checked_before_it_is_written_and_only_then(
    loaded: LoadedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Answering(monkeypatch, says(ANALYSIS % digest(loaded)))
    plan, generation = planned(loaded, monkeypatch)
    with TransformCheck(loaded) as check:
        check.start()
        check.require(plan)
        assert read_analysis(generation) is None
        check.settle(plan, generation)
    assert process.starts == 1
    assert read_analysis(generation) is not None


@needs("analysis")
@pytest.mark.parametrize(("kind", "error"), [("input", InputError), ("seam", SeamError)])
def test_a_refusal_is_raised_with_its_fields(
    loaded: LoadedPipeline,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    error: type[InputError | SeamError],
) -> None:
    report = f'{{"kind": "{kind}", "message": "m", "hint": "h", "fields": {{"line": 7}}}}'
    Answering(monkeypatch, says(f'{{"refusal": {report}}}'))
    plan, generation = planned(loaded, monkeypatch)
    with TransformCheck(loaded) as check, pytest.raises(error, match=r"^m\. h$") as caught:
        check.require(plan)
    assert caught.value.fields["line"] == 7
    assert read_analysis(generation) is None


@needs("analysis")
@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("import sys; sys.exit('no memory')", "ended with exit status 1: no memory"),
        (NEVER_ENDS, "the analysis took longer than 1 s"),
    ],
)
def test_where_spark_does_not_run_the_plan_is_made_with_a_warning(
    loaded: LoadedPipeline, monkeypatch: pytest.MonkeyPatch, script: str, told: str
) -> None:
    process = Answering(monkeypatch, script)
    monkeypatch.setattr(spark_process, "TIMEOUT_S", 1.0)
    plan, generation = planned(loaded, monkeypatch)
    with TransformCheck(loaded) as check:
        made = check.settle(plan, generation)
    assert made.columns is None
    assert told in made.warnings[0]
    # It may run there the next time.
    process.run(says(ANALYSIS % digest(loaded)))
    with TransformCheck(loaded) as check:
        assert check.settle(plan, generation).warnings == []


@needs("analysis")
def test_a_missing_jar_is_no_reason_to_refuse_a_plan(
    loaded: LoadedPipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HYBRID_JARS", str(tmp_path))
    plan, generation = planned(loaded, monkeypatch)
    with TransformCheck(loaded) as check:
        made = check.settle(plan, generation)
    assert "the spark jars are expected there" in made.warnings[0]


@needs("analysis")
def test_no_process_and_no_file_is_left(
    loaded: LoadedPipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    number = tmp_path / "number"
    begun = f"import os, pathlib; pathlib.Path({str(number)!r}).write_text(f'{{os.getpid()}} ')"
    Answering(monkeypatch, f"{begun}; {NEVER_ENDS}")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with TransformCheck(loaded) as check:
        check.start()
        assert list(tmp_path.glob("hybrid-analysis-*"))
        wait_for(lambda: number.exists() and number.read_text().endswith(" "), "its start")
        pid = int(number.read_text())
        assert runs(pid)
    assert not runs(pid)
    assert not list(tmp_path.glob("hybrid-analysis-*"))
