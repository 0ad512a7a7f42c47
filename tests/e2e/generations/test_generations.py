"""A new feature definition beside the live one: promoted under readers, rolled back, exact."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.generations.comparison.compare_generations import compare_generations
from hybrid_extensions.generations.lifecycle import rerun
from hybrid_extensions.generations.switch import promotion
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import live_run, stopping
from orchestration.supervision.status import status
from sources.config.loader import load_pipeline
from sources.errors import StateError
from sources.generations import begin
from sources.hand_over import hand_over
from sources.kept_definitions import in_service, kept_folder
from sources.planning.approval import approve
from sources.planning.context import PipelineContext
from tests.e2e.case import TRANSFORMS, Case, live_of, wrong
from tests.e2e.in_session import run_history
from tests.services.processes import wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.crash,
    pytest.mark.slow,
]
DOUBLED = TRANSFORMS.replace(
    "def identity(rows):\n    return rows",
    "def identity(rows):\n"
    '    return rows.withColumn("v", F.col("v") * 2).withColumn("w", F.lit(1))',
)


@contextmanager
def reading(table: Path) -> Iterator[list[tuple[int, list[str], int]]]:
    """Whoever reads the target all the time: version, columns and distinct keys of each look."""
    seen: list[tuple[int, list[str], int]] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            opened = DeltaTable(table)
            rows = opened.to_pyarrow_table()
            counts = Counter(rows["id"].to_pylist())
            assert not counts or max(counts.values()) == 1
            seen.append((opened.version(), rows.column_names, len(counts)))
            # The runs need the machine too.
            time.sleep(0.1)

    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            read()
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=guarded)
    reader.start()
    try:
        yield seen
    finally:
        stop.set()
        reader.join()
    assert failures == []


def test_readers_change_over_in_one_step_and_back(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1500))
    loaded = case.pipeline()
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    try:
        live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
        wait_until_caught_up(PipelineContext.require(loaded))
        # Another definition, in the same place; this time a person looks at the plan.
        (tmp_path / "transforms.py").write_text(DOUBLED)
        document = yaml.safe_load(loaded.path.read_text())
        loaded.path.write_text(yaml.safe_dump({**document, "approve": True}))
        loaded = load_pipeline(loaded.path)
        with reading(tmp_path / "out") as seen:
            said: list[str] = []
            begin(loaded)
            with pytest.raises(StateError, match="not approved yet"):
                rerun(loaded, promote=False, rows_at_least=1.0, say=said.append)
            approve(loaded, "Ada")
            waiting = rerun(loaded, promote=False, rows_at_least=1.0, say=said.append)
            assert waiting.generation == "g1"
            # All but the one of value 0.
            assert "rows, 1,499 changed (`v` in 1,499), +1 column `w`" in said[-1]
            found = compare_generations(loaded)
            assert (found.columns_missing, found.columns_added) == ([], ["w"])
            assert {names[-1] for _, names, _ in seen} == {"v"}

            # Both go on while one waits; each is there once.
            case.produce(range(1500, 1700))
            serving = in_service(loaded)[1]
            for each in (loaded, serving):
                wait_until_caught_up(PipelineContext.require(each))
            assert status(loaded).healthy
            rows = DeltaTable(tmp_path / "out").to_pyarrow_table()
            assert (len(rows), "w" in rows.column_names) == (1700, False)

            promotion.promote(loaded)
            assert not live_run.is_live(serving)
            wait_for(lambda: any("w" in names for _, names, _ in seen), "readers see it", 60)
        kept = [count for _, names, count in seen if "w" in names]
        assert min(kept) == 1700, "no reader sees less than there was"

        case.produce(range(1700, 1800))
        wait_until_caught_up(PipelineContext.require(loaded))
        rows = DeltaTable(tmp_path / "out").to_pyarrow_table()
        values = dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
        assert values == {n: float(n) for n in range(1800)}

        # Back: it goes on where it was ended, by its own definition.
        promotion.roll_back(loaded)
        back = load_pipeline(kept_folder(loaded, "g1").path(loaded.path.name))
        case.produce(range(1800, 1900))
        wait_until_caught_up(PipelineContext.require(back))
        report = audit(back)
        assert (report.expected, wrong(report)) == (1900, {})
    finally:
        for name in ("g1", "g2"):
            stopping.stop(load_pipeline(kept_folder(loaded, name).path(loaded.path.name)))
