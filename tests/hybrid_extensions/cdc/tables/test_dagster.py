"""The tables of one file in Dagster: one group of tables, one job, and each table by itself."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from hybrid_extensions.cdc.tables.dagster import template_definitions
from hybrid_extensions.cdc.tables.template import FoundTable
from orchestration.definitions import defs as examples
from orchestration.definitions import find_definitions
from tests.extensions import needs
from tests.hybrid_extensions.cdc.tables.test_template import template
from tests.orchestration.test_definitions import JOBS, NOT_YAML, job_names, told

TABLES = ("public.orders", "public.lines", "public.stock")


def made(folder: Path) -> dg.Definitions:
    file = template(folder)
    for table in TABLES:
        file.write(FoundTable(table, {"id": "bigint"}, ["id"], []))
    (folder / "other.yaml").write_text(
        file.file_of(TABLES[0]).read_text().replace("shop_public_orders", "other").split("\n", 1)[1]
    )
    return find_definitions([folder])


def groups(defs: dg.Definitions) -> dict[str, set[str]]:
    """Names of assets by their group."""
    found: dict[str, set[str]] = {}
    graph = defs.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        found.setdefault(str(graph.get(key).group_name), set()).add(key.to_user_string())
    return found


def test_the_tables_of_a_file_are_one_group_and_their_steps_another(tmp_path: Path) -> None:
    found = groups(made(tmp_path))
    names = [f"shop_{table.replace('.', '_')}" for table in TABLES]
    assert found["shop"] == {"shop/tables", *(f"{name}/table" for name in names), "other/table"}
    assert {f"{name}/changes_handover" for name in names} <= found["shop_steps"]
    assert not any(name in found for name in names)


@needs("report")
def test_one_job_builds_all_of_them_after_one_snapshot_and_each_has_its_own(tmp_path: Path) -> None:
    defs = made(tmp_path)
    graph = defs.resolve_asset_graph()
    whole = set(defs.resolve_job_def("shop").asset_layer.executable_asset_keys)
    one = set(defs.resolve_job_def("shop_public_lines").asset_layer.executable_asset_keys)
    names = {"take_snapshot", "plan", "snapshot", "changes_handover", "changes", "table"}
    assert {key.path[1] for key in one} == {*names, "progress"}
    assert {key.path[0] for key in one} == {"shop_public_lines"}
    assert len(whole) == 1 + len(TABLES) * len(one)
    for table in TABLES:
        copied = dg.AssetKey([f"shop_{table.replace('.', '_')}", "take_snapshot"])
        assert graph.get(copied).parent_keys == {dg.AssetKey(["shop", "tables"])}


def test_a_pipeline_without_a_group_keeps_all_in_one_of_its_own() -> None:
    assert {"flight_events/live", "flight_events/table"} <= groups(examples)["flight_events"]


def test_tables_of_a_template_that_became_invalid_are_pipelines_as_before(tmp_path: Path) -> None:
    before = job_names(made(tmp_path))
    file = template(tmp_path).path
    file.write_text(NOT_YAML)
    found = find_definitions([tmp_path])
    assert before - job_names(found) == {"shop"}
    assert "Correct the place" in told(found, f"{file.stem}_file")


@needs("ranges")
def test_a_table_that_can_not_be_loaded_holds_up_no_other_of_its_file(tmp_path: Path) -> None:
    before = job_names(made(tmp_path))
    wrong = {"public.orders": {"sink": {"mode": "nonsense"}}}
    file = template(tmp_path, tables={"include": ["public.*"], "overrides": wrong})
    for found in (find_definitions([tmp_path]), template_definitions(file)):
        dg.Definitions.validate_loadable(found)
        others = {"other", *(f"other_{each}" for each in JOBS), "all_backfill"}
        lost = before - job_names(found) - others
        assert lost == {"shop_public_orders", *(f"shop_public_orders_{each}" for each in JOBS)}
        [sensor] = [each.name for each in found.sensors or [] if each.name.endswith("_file")]
        assert "sink.mode" in told(found, sensor)
