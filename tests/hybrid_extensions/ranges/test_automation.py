"""Ranges that Dagster recomputes by itself once what they are read from was updated."""

from __future__ import annotations

import warnings
from pathlib import Path

import dagster as dg
import yaml

from hybrid_extensions.ranges.partitions import ranges_key
from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import LoadedPipeline
from tests.orchestration.generations.generation_case import GenerationCase

UPSTREAM = dg.AssetKey(["raw", "orders"])
DAYS = dg.DailyPartitionsDefinition(start_date="2024-03-01", timezone="UTC")


def declared(folder: Path, *, automatic: bool) -> LoadedPipeline:
    case = GenerationCase(folder)
    sources = yaml.safe_load((folder / "events.yaml").read_text())["sources"]
    sources[0]["asset"] = "raw/orders"
    ranges = {"by": "day", "start": "2024-03-01", "end": "2024-03-05", "automatic": automatic}
    case.write(sources=sources, ranges=ranges)
    return case.loaded


class Clock:
    """Dagster's automation, asked again and again about one pipeline's ranges."""

    def __init__(self, loaded: LoadedPipeline, partitions: dg.PartitionsDefinition | None) -> None:
        upstream = dg.AssetSpec(UPSTREAM, partitions_def=partitions)
        self._defs = dg.Definitions.merge(
            pipeline_definitions(loaded), dg.Definitions(assets=[upstream])
        )
        self._key = ranges_key(loaded)
        self._instance = dg.DagsterInstance.ephemeral()
        self._cursor: dg.AssetDaemonCursor | None = None
        self.tick()

    def update(self, partition: str | None = None) -> None:
        event = dg.AssetMaterialization(UPSTREAM, partition=partition)
        self._instance.report_runless_asset_event(event)

    def tick(self) -> set[str | None]:
        """The partitions that Dagster would launch now."""
        found = dg.evaluate_automation_conditions(self._defs, self._instance, cursor=self._cursor)
        self._cursor = found.cursor
        return set(found.get_requested_partitions(self._key))


def test_a_range_is_recomputed_when_its_partition_upstream_is_updated(tmp_path: Path) -> None:
    clock = Clock(declared(tmp_path, automatic=True), DAYS)
    assert clock.tick() == set()
    clock.update("2024-03-02")
    assert clock.tick() == {"2024-03-02"}
    # Asked for once.
    assert clock.tick() == set()


def test_all_ranges_are_recomputed_when_an_asset_without_partitions_is_updated(
    tmp_path: Path,
) -> None:
    clock = Clock(declared(tmp_path, automatic=True), None)
    clock.update()
    assert clock.tick() == {f"2024-03-0{day}" for day in range(1, 5)}


def test_nothing_is_launched_that_was_not_asked_for(tmp_path: Path) -> None:
    loaded = declared(tmp_path, automatic=False)
    clock = Clock(loaded, DAYS)
    clock.update("2024-03-02")
    assert clock.tick() == set()
    assert not automation(loaded)


def test_the_automation_is_on_without_anything_to_switch_on(tmp_path: Path) -> None:
    (sensor,) = automation(declared(tmp_path, automatic=True))
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING


def test_ranges_are_loaded_without_a_warning_that_users_can_do_nothing_about(
    tmp_path: Path,
) -> None:
    loaded = declared(tmp_path, automatic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", dg.BetaWarning)
        assert pipeline_definitions(loaded).resolve_asset_graph().get(ranges_key(loaded))


def automation(loaded: LoadedPipeline) -> list[dg.AutomationConditionSensorDefinition]:
    made = pipeline_definitions(loaded).sensors or []
    return [each for each in made if isinstance(each, dg.AutomationConditionSensorDefinition)]
