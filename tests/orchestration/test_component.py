"""A pipeline as a component of a Dagster project, and one that is built in code."""

from __future__ import annotations

import shutil
from pathlib import Path

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from orchestration.component import HybridPipeline
from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import declare
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.test_definitions import told

STEPS = {dg.AssetKey(["events", step]) for step in ("plan", "history", "table", "progress")}


def keys(definitions: dg.Definitions) -> set[dg.AssetKey]:
    """The pipeline's own assets, without those that it reads."""
    found = {asset.key for asset in definitions.resolve_all_asset_specs()}
    return {key for key in found if key.path[0] == "events"}


def test_a_folder_with_a_pipelines_file_is_a_component(tmp_path: Path) -> None:
    GenerationCase(tmp_path)
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=HybridPipeline,
            defs_path="orders",
            defs_yaml_contents={
                "type": "orchestration.component.HybridPipeline",
                "attributes": {"pipeline": "events.yaml"},
            },
        )
        for name in ("events.yaml", "transforms.py"):
            shutil.copy(tmp_path / name, path / name)
        with sandbox.load_component_and_build_defs(defs_path=path) as (component, definitions):
            assert isinstance(component, HybridPipeline)
            assert keys(definitions) == STEPS
            assert definitions.resolve_job_def("events_generation")


@pytest.mark.parametrize("refused_by", ["us", "dagster"])
def test_a_component_whose_file_is_not_valid_holds_up_no_other_one(
    tmp_path: Path, refused_by: str
) -> None:
    case = GenerationCase(tmp_path)
    text, why = "name: [orders", "orders.yaml"
    if refused_by == "dagster":
        # The 25th hour: five fields, as they have to be.
        upkeep = [{"name": "nightly", "action": "compact", "cron": "0 25 * * *"}]
        case.write(name="orders", upkeep=upkeep)
        text, why = (tmp_path / "events.yaml").read_text(), "0 25 * * *"
        case.write()
    with create_defs_folder_sandbox() as sandbox:
        for name in ("orders", "events"):
            path = sandbox.scaffold_component(
                component_cls=HybridPipeline,
                defs_path=name,
                defs_yaml_contents={
                    "type": "orchestration.component.HybridPipeline",
                    "attributes": {"pipeline": f"{name}.yaml"},
                },
            )
            for file in ("events.yaml", "transforms.py"):
                shutil.copy(tmp_path / file, path / file)
            (path / "orders.yaml").write_text(text)
        with sandbox.build_all_defs() as definitions:
            assert keys(definitions) == STEPS
            dg.Definitions.validate_loadable(definitions)
            assert why in told(definitions, "orders_file")


def test_a_pipeline_that_is_built_in_code_has_the_same_definitions(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    document = case.loaded.pipeline.model_dump(mode="json", exclude_unset=True, by_alias=True)
    assert keys(pipeline_definitions(declare(tmp_path / "built.yaml", document))) == STEPS
