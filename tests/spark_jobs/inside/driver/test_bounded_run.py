"""The run of a bounded source, without Spark."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sources.planning.context import PipelineContext
from spark_jobs.inside.driver.bounded_run import INCOMPLETE, run_bounded
from tests.orchestration.supervision.live_case import LiveCase

NO_SPARK: Any = None
"""A query that is built nevertheless fails."""


def test_a_run_that_is_told_to_stop_while_spark_comes_up_builds_no_query(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    context = PipelineContext(case.loaded, case.generation)
    said: list[str] = []
    reporter: Any = SimpleNamespace(ended=said.append)
    stop = threading.Event()
    stop.set()
    assert run_bounded(NO_SPARK, context, "history", reporter, stop) == INCOMPLETE
    assert said == ["stopped"]
