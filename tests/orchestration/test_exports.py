"""An export as a step of the chain: before the plan, and again where the declaration changed."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from orchestration.chain import ChainRun, run_step, steps_of
from orchestration.defs.assets.chain_assets import pipeline_assets
from orchestration.defs.assets.upstream import upstream_specs
from orchestration.defs.jobs import job_texts
from sources.config.loader import LoadedPipeline
from sources.config.source.exported_source import ExportedSource
from sources.planning.plan import make_plan
from tests.minimal import minimal_model
from tests.sources.planning.export_kind import Numbers


def loaded(folder: Path, kind: ExportedSource) -> LoadedPipeline:
    pipeline = minimal_model(kind.as_files())  # type: ignore[arg-type]
    return LoadedPipeline(folder / "orders.yaml", pipeline.located(str))


def test_each_export_is_a_step_and_an_asset_before_the_plan(tmp_path: Path) -> None:
    made = loaded(tmp_path, Numbers(name="history", asset="raw/numbers"))
    assert [step.name for step in steps_of(made)] == ["history_export", "plan", "history"]
    first, second, *_ = pipeline_assets(made)
    assert first.key == dg.AssetKey(["orders", "history_export"])
    assert first.asset_deps[first.key] == {dg.AssetKey(["raw", "numbers"])}
    assert second.asset_deps[second.key] == {first.key}


def test_what_the_pipeline_exports_itself_is_no_asset_from_outside(tmp_path: Path) -> None:
    assert upstream_specs(loaded(tmp_path, Numbers(name="history"))) == []


def test_a_step_exports_once_and_says_what(tmp_path: Path) -> None:
    run = ChainRun(loaded(tmp_path, Numbers(name="history")))
    outcome = run_step(run, "history_export")
    assert outcome.text.startswith("`history` is exported: 2 files (")
    assert run_step(run, "history_export").value == outcome.value


def test_what_was_planned_and_not_read_is_exported_again_by_another_declaration(
    tmp_path: Path,
) -> None:
    first, second = (loaded(tmp_path, Numbers(name="history", rows=rows)) for rows in (2, 3))
    run_step(ChainRun(first), "history_export")
    make_plan(first)
    assert len(run_step(ChainRun(second), "history_export").value.files) == 3
    assert make_plan(second).files_of("history").splits == 3
    exported = list((tmp_path / "state/orders/g1/exports").rglob("*.parquet"))
    assert len(exported) == 3


def test_the_job_of_the_chain_names_the_kind(tmp_path: Path) -> None:
    text = job_texts.build(loaded(tmp_path, Numbers(name="history")))
    assert "`history`: export of `numbers`" in text
