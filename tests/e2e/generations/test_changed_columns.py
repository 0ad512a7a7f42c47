"""A generation that computes only what its transform changes, over the rows of the serving one."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from orchestration import operations
from orchestration.audit.compare_generations import compare_generations
from orchestration.audit.run import audit
from orchestration.backlog import wait_until_caught_up
from orchestration.changed_columns.begin import begin_changed_columns
from orchestration.generations import promotion
from orchestration.generations.lifecycle import rerun
from orchestration.progress.plan_preview import preview
from sources.changed_columns.documents import PinnedVersion, is_unfinished, read_changed_columns
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import HybridError
from sources.kept_definitions import keep_definition, kept_folder
from sources.planning.context import PipelineContext
from sources.serving import target_of
from sources.state.generation import Generation
from spark_jobs.changed_columns import state
from spark_jobs.inside.changed_columns import new_table, run
from spark_jobs.run_state.heartbeat import read_heartbeat
from tests.e2e.case import TRANSFORMS, Case, start_live, wrong
from tests.e2e.in_session import run_chain, run_history, run_live
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def returning(columns: str) -> str:
    """Transforms of which ``identity`` returns the input and other columns."""
    return TRANSFORMS.replace(
        "def identity(rows):\n    return rows", f"def identity(rows):\n    return rows{columns}"
    )


DAY = '.withColumn("day", F.to_date("at"))'
BEFORE = returning(DAY + '.withColumn("old", F.lit("x"))')
AFTER = returning(
    DAY + '.withColumn("w", F.col("v") * 2 + F.col("id")).withColumn("v", F.expr("v * 10"))'
)
EXPECTED_BEFORE = """SELECT *, CAST("at" AS date) AS day, 'x' AS old FROM input"""
EXPECTED_AFTER = """
SELECT id, "at", v * 10 AS v, CAST("at" AS date) AS day, v * 2 + id AS w FROM input
"""


def define(case: Case, transforms: str, expected: str) -> None:
    (case.folder / "transforms.py").write_text(transforms)
    (case.folder / "expected.sql").write_text(expected)


def declared(case: Case) -> LoadedPipeline:
    """The pipeline, over files and a topic, with a table that is partitioned by day."""

    def edit(document: dict[str, Any]) -> None:
        document["audit"] = {"sql": "expected.sql"}
        document["sink"]["partition_by"] = ["day"]

    define(case, BEFORE, EXPECTED_BEFORE)
    return case.pipeline(edit)


def broken_at(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, after: int
) -> contextlib.AbstractContextManager[None]:
    """A run in here ends at a call of a function, as if it were killed."""

    @contextlib.contextmanager
    def breaking() -> Any:
        function: Callable[..., Any] = getattr(module, name)
        calls = []

        def breaks(*arguments: Any) -> Any:
            calls.append(name)
            if len(calls) > after:
                raise KeyboardInterrupt
            return function(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(module, name, breaks)
            with pytest.raises(KeyboardInterrupt):
                yield

    return breaking()


def test_only_changed_columns_are_computed_however_often_that_breaks_off(
    tmp_path: Path, servers: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1500))
    loaded = declared(case)
    run_chain(spark, loaded)
    keep_definition(loaded, loaded.require_generation())
    assert wrong(audit(loaded)) == {}
    case.produce(range(1500, 1700))
    define(case, AFTER, EXPECTED_AFTER)
    generation = begin_changed_columns(loaded)
    made = read_changed_columns(generation)
    assert made is not None
    assert {each.name: each.inputs for each in made.difference.changed} == {
        "v": ["v"],
        "w": ["id", "v"],
    }
    assert made.difference.removed == ["old"]
    told = preview(loaded, PipelineContext.require(loaded).plan).summary
    assert told.startswith("Takes the 1,500 rows of g1, and computes only `v`, `w` from `id`, `v`:")
    assert "of a full rerun, which reads" in told
    # From the complete-through time on.
    assert "601 records of Kafka" in told

    for module, name, after in (
        (new_table, "splice", 1),
        (new_table, "keep_history", 0),
        (new_table, "prepare_table", 0),
        (run, "copy_run", 0),
        (state, "_copy", 1),
        (state, "_copy", 2),
    ):
        with broken_at(monkeypatch, module, name, after):
            run_history(spark, loaded)
        assert is_unfinished(generation)
    run_history(spark, loaded)
    table = DeltaTable(target_of(loaded, generation.name).url)
    rows = table.to_pyarrow_table()
    assert (len(rows), rows.schema.names) == (1500, ["id", "at", "v", "day", "w"])
    stored = {name for uri in table.file_uris() for name in pq.read_schema(uri).names}
    assert stored == {"id", "at", "v", "day", "w"}
    folder = Path(target_of(loaded, generation.name).url)
    assert {str(path) for path in folder.rglob("*.parquet")} == set(table.file_uris())

    run_live(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report), report.ok) == (1700, {}, True)
    found = compare_generations(loaded)
    assert (found.columns_added, found.columns_missing) == (["w"], ["old"])


@pytest.mark.crash
def test_a_killed_driver_begins_its_columns_again_and_readers_get_them_in_one_commit(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1500))
    loaded = declared(case)
    try:
        start_live(loaded)
        wait_until_caught_up(PipelineContext.require(loaded))
        define(case, AFTER, EXPECTED_AFTER)
        generation = begin_changed_columns(loaded)
        killer = threading.Thread(target=kill_once_pinned, args=[generation])
        killer.start()
        said: list[str] = []
        with pytest.raises(HybridError):
            rerun(loaded, promote=True, rows_at_least=1.0, say=said.append)
        killer.join()
        # The serving run goes on meanwhile.
        case.produce(range(1500, 1700))
        rerun(loaded, promote=True, rows_at_least=1.0, say=said.append)
        case.produce(range(1700, 1800))
        wait_until_caught_up(PipelineContext.require(loaded))
        report = audit(loaded)
        assert (report.expected, wrong(report), report.ok) == (1800, {}, True)

        promotion.roll_back(loaded)
        back = load_pipeline(kept_folder(loaded, "g1").path(loaded.path.name))
        (tmp_path / "expected.sql").write_text(EXPECTED_BEFORE)
        wait_until_caught_up(PipelineContext.require(back))
        report = audit(back)
        assert (report.expected, wrong(report)) == (1800, {})
    finally:
        for name in ("g1", "g2"):
            with contextlib.suppress(HybridError, OSError):
                operations.stop(load_pipeline(kept_folder(loaded, name).path(loaded.path.name)))


def kill_once_pinned(generation: Generation) -> None:
    """SIGKILL to the driver as soon as it has decided whose rows it takes."""
    wait_for(lambda: generation.exists(PinnedVersion.NAME), "the pinned version", 120)
    beat = read_heartbeat(generation, "history")
    assert beat is not None
    assert is_unfinished(generation)
    os.kill(beat.pid, signal.SIGKILL)
