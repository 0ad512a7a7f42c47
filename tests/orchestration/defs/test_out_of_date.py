"""What Dagster's graph calls "Unsynced": nothing of a pipeline that is well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest
from deltalake import write_deltalake

from hybrid_extensions.generations.table_report import report_table
from orchestration.defs.keys import live_key, step_key, table_key
from orchestration.defs.show.reports import Cursor
from orchestration.operations import chain_plan
from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import LoadedPipeline
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.supervision.live_case import LiveCase, sensor_of


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def states(
    instance: dg.DagsterInstance, loaded: LoadedPipeline, *steps: str
) -> dict[str, tuple[str, list[str]]]:
    """What the graph shows of these steps, and why."""
    graph = pipeline_definitions(loaded).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    found = {step: step_key(loaded, step) for step in steps}
    return {
        step: (
            resolver.get_status(key).value,
            [cause.reason for cause in resolver.get_stale_causes(key)],
        )
        for step, key in found.items()
    }


FRESH = (StaleStatus.FRESH.value, list[str]())


def with_live_run(folder: Path) -> LiveCase:
    """A pipeline whose live run was started, with a table of two rows."""
    case = LiveCase(folder)
    case.ask_for_it()
    case.launch("a")
    write_deltalake(str(folder / "out"), pa.table({"id": [1, 2]}))
    return case


def look(instance: dg.DagsterInstance, case: LiveCase, cursor: str | None = None) -> str:
    """A look of the supervision, whose reports Dagster stores; the cursor of the next one."""
    context = dg.build_sensor_context(instance=instance, cursor=cursor)
    found = sensor_of(case.loaded)(context)
    assert isinstance(found, dg.SensorResult)
    for event in found.asset_events:
        instance.report_runless_asset_event(event)
    return str(found.cursor)


def test_the_table_is_in_sync_before_and_after_its_live_run_is_reported(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    case = with_live_run(tmp_path)
    with case.alive():
        look(instance, case)
    assert states(instance, case.loaded, "inbox", "table") == {"inbox": FRESH, "table": FRESH}
    # A restart, or RESUME of the control job, reports the live run and not the table.
    instance.report_runless_asset_event(dg.AssetMaterialization(live_key(case.loaded)))
    assert states(instance, case.loaded, "table") == {"table": FRESH}
    with dg.build_op_context(instance=instance) as context:
        report_table(context, case.loaded, "REPAIR: 1 row.")
    instance.report_runless_asset_event(dg.AssetMaterialization(live_key(case.loaded)))
    assert states(instance, case.loaded, "table") == {"table": FRESH}
    [made] = instance.fetch_materializations(table_key(case.loaded), limit=1).records
    assert made.asset_materialization is not None
    assert made.asset_materialization.tags is not None
    assert made.asset_materialization.tags["dagster/data_version"] == "0"


def test_a_table_that_history_fills_is_in_sync_before_the_live_run_exists(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    case = LiveCase(tmp_path)
    case.plan_history()
    write_deltalake(str(tmp_path / "out"), pa.table({"id": [1, 2]}))
    look(instance, case)
    assert states(instance, case.loaded, "inbox", "table") == {
        "inbox": (StaleStatus.MISSING.value, []),
        "table": FRESH,
    }


def test_the_pictures_of_the_progress_stay_in_sync_when_the_table_has_a_new_version(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    case = with_live_run(tmp_path)
    job = pipeline_definitions(case.loaded).resolve_job_def("events")
    with case.alive():
        cursor = look(instance, case)
        drawn = job.execute_in_process(
            instance=instance, asset_selection=[step_key(case.loaded, "progress")]
        )
        assert drawn.success
        write_deltalake(str(tmp_path / "out"), pa.table({"id": [3]}), mode="append")
        # As if it had reported long ago.
        earlier = Cursor.model_validate_json(cursor).model_copy(update={"at_ms": 1})
        look(instance, case, earlier.model_dump_json())
    assert states(instance, case.loaded, "progress") == {"progress": FRESH}


def test_a_completed_step_that_is_run_again_leaves_what_follows_in_sync(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    case = GenerationCase(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"id": 1, "at": "2024-01-01T00:00:00Z", "v": 1}\n')
    chain_plan.plan(case.loaded)
    case.run({1: 1})
    job = pipeline_definitions(case.loaded).resolve_job_def("events")
    for step in ("history", "table", "progress", "history"):
        key = step_key(case.loaded, step)
        assert job.execute_in_process(instance=instance, asset_selection=[key]).success
    assert states(instance, case.loaded, "history", "table", "progress") == dict.fromkeys(
        ("history", "table", "progress"), FRESH
    )
