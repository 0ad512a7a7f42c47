"""A driver runs the generation that it was launched for, or none, and says why it ended."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from spark_jobs.inside.driver.pipeline_run import PipelineRun
from spark_jobs.job import main
from spark_jobs.run_state.driver_lock import is_held
from spark_jobs.run_state.heartbeat import read_heartbeat
from tests.spark_jobs.launch.launch_case import ID, launched, pipeline


def test_a_driver_whose_generation_was_discarded_while_it_started_reads_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = pipeline(tmp_path, {})
    generation = loaded.open_generation(create=True)
    assert generation is not None
    before = sorted(generation.names("*"))
    words = ["--pipeline", str(loaded.path), "--source", "history", "--launch-id", "x"]
    assert main([*words, "--generation", "g2"]) == 2
    told = capsys.readouterr().err
    assert "launched for generation g2, and the newest one is g1" in told
    assert "`hybrid run P`" in told
    assert sorted(generation.names("*")) == before


def test_a_driver_reads_nothing_if_another_one_was_launched_before_it_had_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = pipeline(tmp_path, {})
    launched(loaded, "history")
    generation = loaded.require_generation()
    before = sorted(generation.names("*"))
    words = ["--pipeline", str(loaded.path), "--source", "history", "--generation", "g1"]
    assert main([*words, "--launch-id", "suspended"]) == 2
    told = capsys.readouterr().err
    assert "Another driver was launched for generation g1 before this one had begun" in told
    assert "`hybrid status P`" in told
    assert not is_held(generation)
    assert sorted({*generation.names("*")} - {"run/query.lock"}) == before


@pytest.mark.parametrize(("launch_id", "launched_for"), [(ID, "g1"), ("by-hand", None)])
def test_the_driver_that_was_launched_last_reads_and_so_does_one_started_by_hand(
    tmp_path: Path, launch_id: str, launched_for: str | None
) -> None:
    loaded = pipeline(tmp_path, {})
    launched(loaded, "history")

    def begun() -> SparkSession:
        raise InterruptedError

    stop = threading.Event()
    run = PipelineRun(["history"], launch_id, stop, session=begun, generation=launched_for)
    with pytest.raises(InterruptedError):
        run.run(loaded)


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (
            "Caused by: java.lang.OutOfMemoryError: Java heap space\n\tat a.B.c(B.java:1)\n",
            "A Spark process (JVM) of this run ran out of memory: Java heap space.",
        ),
        (
            "Terminating due to java.lang.OutOfMemoryError: Metaspace\n",
            "A Spark process (JVM) of this run ran out of memory: Metaspace.",
        ),
        (
            "WARN NativeCodeLoader: Unable to load\n",
            "The Spark process (JVM) of this run was killed, or ended without a word.",
        ),
    ],
)
def test_a_jvm_that_is_gone_for_want_of_memory_is_told_by_what_it_printed(
    tmp_path: Path, printed: str, told: str
) -> None:
    loaded = pipeline(tmp_path, {})
    generation = loaded.open_generation(create=True)
    assert generation is not None
    log = generation.root / "run" / "history.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text(printed)

    def gone() -> SparkSession:
        raise Py4JNetworkError("Answer from Java side is empty")

    with pytest.raises(Py4JNetworkError):
        PipelineRun(["history"], "x", threading.Event(), session=gone).run(loaded)
    beat = read_heartbeat(generation, "history")
    assert beat is not None
    assert beat.failure is not None
    assert (beat.failure.message, beat.failure.transient) == (told, True)
    assert "`spark.driver_memory`" in beat.failure.hint
