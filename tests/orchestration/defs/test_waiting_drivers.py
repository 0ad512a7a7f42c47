"""Which step of a Dagster run gets the driver that waits, and when it ends."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from orchestration.defs.jobs import waiting_drivers
from orchestration.defs.jobs.waiting_drivers import driver_of_plan, driver_of_step
from sources.config.loader import LoadedPipeline
from tests.minimal import minimal_pipeline


class Driver:
    """A driver that only knows whether it was ended."""

    def __init__(self, _loaded: LoadedPipeline) -> None:
        self.has_ended = False

    def end(self) -> None:
        self.has_ended = True


@pytest.fixture(autouse=True)
def drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    def driver_for(loaded: LoadedPipeline) -> Driver | None:
        return Driver(loaded) if loaded.pipeline.spark.master.startswith("local") else None

    monkeypatch.setattr(waiting_drivers, "waiting_driver", driver_for)


def declared(folder: Path, master: str) -> LoadedPipeline:
    return minimal_pipeline(
        folder,
        {"type": "files", "name": "history", "path": "in", "format": "parquet"},
        transform="shop:orders",
        spark={"master": master},
    )


def given(
    loaded: LoadedPipeline, *, reads: bool = True, then: tuple[bool, ...] = (), fails: int = -1
) -> list[Any]:
    """The drivers that the plan and the steps after it have had, in one Dagster run.

    Args:
        loaded: The pipeline.
        reads: Whether the run is to read sources after the plan.
        then: For each step after the plan, whether a later one may need a driver.
        fails: Number of the step that fails; the plan is 0.
    """
    found: list[Any] = []

    @dg.asset
    def steps(context: dg.AssetExecutionContext) -> None:
        with driver_of_plan(context, loaded, is_needed=reads) as driver:
            found.append(driver)
            if fails == 0:
                raise ValueError
        for number, is_needed in enumerate(then, 1):
            with driver_of_step(context, is_needed=is_needed) as driver:
                found.append(driver)
                if fails == number:
                    raise ValueError

    result = dg.materialize([steps], raise_on_error=False)
    after: Any = SimpleNamespace(run=result.dagster_run)
    with driver_of_step(after) as left:
        assert left is None
    return found


def test_all_steps_get_the_driver_of_the_plan_and_the_last_one_ends_it(tmp_path: Path) -> None:
    plan, history, live = given(declared(tmp_path, "local[1]"), then=(True, False))
    assert plan is history is live
    assert plan.has_ended


@pytest.mark.parametrize("fails", [0, 1])
def test_a_step_that_fails_ends_it(tmp_path: Path, fails: int) -> None:
    first, *_ = given(declared(tmp_path, "local[1]"), then=(True, False), fails=fails)
    assert first.has_ended


def test_no_driver_waits_if_only_the_plan_is_made_or_drivers_run_elsewhere(tmp_path: Path) -> None:
    assert given(declared(tmp_path, "local[1]"), reads=False, then=(False,)) == [None, None]
    assert given(declared(tmp_path, "spark://a:7077"), then=(False,)) == [None, None]
