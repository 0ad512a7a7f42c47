"""A driver runs the generation that it was launched for, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.job import main
from tests.spark_jobs.launch.launch_case import pipeline


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
