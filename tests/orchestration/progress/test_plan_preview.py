"""What a plan shows before anything runs: what it takes, and what is otherwise than before."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hybrid_extensions.estimates.benchmarked_speeds import COMMIT_S, SPARK_START_S
from orchestration.operations import chain_plan
from orchestration.progress.plan_preview import Preview, preview
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.state.generation import CurrentGeneration, Generation
from spark_jobs.run_state.progress_log import ProgressLog, Sample, progress_log_name
from tests.command_line import invoke
from tests.e2e.case import TRANSFORMS, moment
from tests.minimal import minimal_pipeline

CORES = "2 cores"


def write(path: Path, *numbers: int, more: dict[str, Any] | None = None) -> None:
    times = pa.array([moment(n) for n in numbers], pa.timestamp("us", "UTC"))
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": list(numbers), "at": times, **(more or {})}), path)


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedPipeline:
    (tmp_path / "transforms.py").write_text(TRANSFORMS)
    write(tmp_path / "in/a.parquet", 1, 2)
    write(tmp_path / "in/b.parquet", 3, 4)
    files = {"type": "files", "path": "in/*.parquet", "format": "parquet"}
    return minimal_pipeline(
        tmp_path, {**files, "name": "history"}, name="events", spark={"master": "local[2]"}
    )


def next_generation(loaded: LoadedPipeline) -> Generation:
    """Another generation, which is the current one from now on."""
    before = loaded.require_generation()
    home = loaded.state
    info = before.info.model_copy(
        update={"generation": "g2", "transaction_id": "other", "created_ms": now_ms() + 1}
    )
    made = Generation(home.folder("g2"), info)
    made.put_if_absent("generation.json", info)
    home.replace("current.json", CurrentGeneration(generation="g2"))
    return made


def run_at(generation: Generation, rows_per_s: int) -> None:
    """What a run leaves that has read 10 s long."""
    samples = [
        Sample(launch_id="a", at_ms=at * 1000, done=at * rows_per_s, left=0) for at in (0, 10)
    ]
    generation.replace(progress_log_name("history"), ProgressLog(unit="rows", samples=samples))


def test_an_estimate_without_a_run_before_is_a_guess_from_the_benchmarks(
    loaded: LoadedPipeline,
) -> None:
    made = chain_plan.plan(loaded)
    seen = preview(loaded, made)
    assert seen.estimate.seconds == pytest.approx(SPARK_START_S + COMMIT_S, abs=0.1)
    assert seen.estimate.basis == (
        f"a guess from the benchmarks for Parquet on {CORES}, with 20 s for Spark's start"
    )
    assert (seen.previous, seen.changes) == (None, [])


def test_the_summary_comes_first_for_people_and_programs_alike(loaded: LoadedPipeline) -> None:
    seen = preview(loaded, chain_plan.plan(loaded))
    assert seen.files == {"history": 2}
    assert seen.summary.startswith("Reads 2 files, ")
    assert (
        f"Writes to `{loaded.target.url}`, each row added once, by `id`. About 30 s: "
        in seen.summary
    )
    shown = " ".join(invoke(["plan", str(loaded.path)]).stdout.split())
    assert re.match(r"Plan of events, made at [\d:.TZ-]+ Reads 2 files, ", shown)


def test_an_estimate_rests_on_the_run_of_the_generation_before(loaded: LoadedPipeline) -> None:
    chain_plan.plan(loaded)
    run_at(loaded.require_generation(), rows_per_s=2)
    next_generation(loaded)
    write(loaded.folder / "in/c.parquet", *range(5, 77))
    found = preview(loaded, chain_plan.plan(loaded)).estimate
    assert found.seconds == 38 + SPARK_START_S
    assert found.executor_hours == pytest.approx(58 / 3600)
    assert not found.is_guess
    assert found.basis == "`history` at 2 rows/s as in g1, with 20 s for Spark's start"


def test_a_plan_tells_what_is_otherwise_than_in_the_one_before(loaded: LoadedPipeline) -> None:
    chain_plan.plan(loaded)
    next_generation(loaded)
    (loaded.folder / "in/a.parquet").unlink()
    write(loaded.folder / "in/b.parquet", 3, 4, more={"v": [0.5, 1.0]})
    write(loaded.folder / "in/c.parquet", 5, 6, 7, more={"v": [0.5, 1.0, 1.5]})
    seen = preview(loaded, chain_plan.plan(loaded))
    assert seen.previous == "g1"
    told = {change.what: (change.before, change.now) for change in seen.changes}
    assert told.pop("bytes")
    assert told == {
        "rows": ("4", "5"),
        "start": ("2024-01-01T00:01:00Z", "2024-01-01T00:03:00Z"),
        "end": ("2024-01-01T00:04:00Z", "2024-01-01T00:07:00Z"),
        "column v": ("", "double"),
        "new files": ("", f"1: {loaded.folder}/in/c.parquet"),
        "missing files": (f"1: {loaded.folder}/in/a.parquet", ""),
    }


def test_a_rate_that_rounds_to_0_is_left_out_of_the_basis(loaded: LoadedPipeline) -> None:
    chain_plan.plan(loaded)
    samples = [Sample(launch_id="a", at_ms=at * 1000, done=at // 10, left=0) for at in (0, 10)]
    log = ProgressLog(unit="rows", samples=samples)
    loaded.require_generation().replace(progress_log_name("history"), log)
    next_generation(loaded)
    found = preview(loaded, chain_plan.plan(loaded)).estimate
    assert found.basis == "`history` as in g1, with 20 s for Spark's start"


def test_a_plan_that_is_the_same_says_so(loaded: LoadedPipeline) -> None:
    chain_plan.plan(loaded)
    next_generation(loaded)
    result = invoke(["plan", str(loaded.path)])
    assert "Files, offsets and columns are those of the plan of g1." in result.stdout


def test_what_another_version_has_left_is_not_compared_and_no_error(
    loaded: LoadedPipeline,
) -> None:
    chain_plan.plan(loaded)
    generation = loaded.require_generation()
    run_at(generation, rows_per_s=2)
    for name in ("plan.json", progress_log_name("history")):
        document = json.loads(generation.path(name).read_text())
        generation.path(name).write_text(json.dumps({**document, "version": 99}))
    next_generation(loaded)
    seen = preview(loaded, chain_plan.plan(loaded))
    assert (seen.previous, seen.estimate.is_guess) == (None, True)


def test_columns_are_shown_side_by_side(loaded: LoadedPipeline) -> None:
    seen = preview(loaded, chain_plan.plan(loaded))
    assert seen.schemas == {"id": {"history": "bigint"}, "at": {"history": "timestamp"}}
    answer = json.loads(invoke(["plan", str(loaded.path), "--json"]).stdout)
    assert Preview.model_validate(answer["preview"]) == seen
