"""A driver's JVM ends for want of memory: that is the reason, and with more of it all is exact."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.record import record
from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import live_run, stopping
from sources.config.loader import load_pipeline
from sources.planning.context import PipelineContext
from tests.e2e.case import TRANSFORMS, Case, live_of, start_live, wrong
from tests.e2e.supervision.faults import TOLD_S, Look, look, supervise
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.crash]
COMMAND = "python -m pytest tests/e2e/supervision/test_driver_memory.py"
BACK_S = 1200.0
LITTLE, ENOUGH = "512m", "2g"
# More than the first driver's heap has in one piece, for the last rows of the stream.
TRANSFORM = f"""{TRANSFORMS}
def needs_memory(rows):
    length = F.when(F.col("id") >= 1390, F.lit(400_000_000)).otherwise(F.lit(1))
    return rows.where(F.length(F.repeat(F.lit("x"), length)) > 0)
"""


@pytest.mark.timeout(5400)
@pytest.mark.parametrize("by", ["supervision", "people"])
def test_a_driver_that_needs_more_memory_says_so_and_goes_on_with_it(
    tmp_path: Path, servers: str, by: str
) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "transforms.py").write_text(TRANSFORM)
    (tmp_path / "all.sql").write_text("SELECT * FROM input")
    case.write_history()
    case.produce(range(500, 1200))
    # None is due before the declaration has more memory.
    restarts = {"backoff": "30 s", "limit": 5 if by == "supervision" else 0, "loop": 30}

    def edit(document: dict[str, Any]) -> None:
        document["transform"] = "transforms:needs_memory"
        document["audit"] = {"sql": "all.sql"}
        document["spark"]["driver_memory"] = LITTLE
        document["supervision"] = {"restarts": restarts}

    loaded = case.pipeline(edit)
    said: list[Look] = []
    try:
        start_live(loaded)
        wait_until_caught_up(PipelineContext.require(loaded))
        case.produce(range(1200, 1400))

        def is_down() -> bool:
            said[:] = [look(loaded)]
            return said[0].health not in ("healthy", "catching-up", "starting")

        wait_for(is_down, lambda: f"a run that is down: {said}", BACK_S)
        begun = time.monotonic()

        def is_named() -> bool:
            said[:] = [look(loaded)]
            return "ran out of memory: Java heap space" in said[0].reason

        wait_for(is_named, lambda: f"the reason: {said}", 2 * TOLD_S)
        told: dict[str, Any] = {
            "health": said[0].health,
            "reason": said[0].reason,
            "named after, s": round(time.monotonic() - begun, 1),
        }
        record(f"driver-memory-{by}", {"faults": [told]}, COMMAND)
        document = yaml.safe_load(loaded.path.read_text())
        document["spark"]["driver_memory"] = ENOUGH
        loaded.path.write_text(yaml.safe_dump(document))
        loaded = load_pipeline(loaded.path)
        begun = time.monotonic()
        if by == "people":
            live_run.resume(PipelineContext.require(loaded), live_of(loaded))

        def is_well() -> bool:
            said[:] = [supervise(loaded)]
            return (said[0].health, said[0].lag) == ("healthy", 0)

        wait_for(is_well, lambda: f"a run that has caught up: {said}", BACK_S)
        told["caught up after, s"] = round(time.monotonic() - begun, 1)
        record(f"driver-memory-{by}", {"faults": [told]}, COMMAND)
    finally:
        stopping.stop(loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1400, {})
    assert "spark.driver_memory" in told["reason"], told
    assert told["named after, s"] <= TOLD_S
