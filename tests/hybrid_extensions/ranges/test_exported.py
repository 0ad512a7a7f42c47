"""Ranges of a source that was exported: what the generation read, whatever the origin holds now."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import yaml

from hybrid_extensions.ranges.files.range_files import parts_in
from hybrid_extensions.ranges.range_scope import RangeScope
from hybrid_extensions.ranges.side_pipeline import side_pipeline
from orchestration.chain import ChainRun, run_step
from sources.config.loader import LoadedPipeline
from sources.planning.context import PipelineContext
from sources.planning.event_windows import Interval
from sources.planning.plan import make_plan
from tests.minimal import minimal_declaration, minimal_model
from tests.sources.planning.export_kind import BEGIN, Numbers


def test_a_range_reads_the_files_of_the_export(tmp_path: Path) -> None:
    pipeline = minimal_model(Numbers(name="history", rows=5).as_files())  # type: ignore[arg-type]
    loaded = LoadedPipeline(tmp_path / "orders.yaml", pipeline.located(str))
    run_step(ChainRun(loaded), "history_export")
    make_plan(loaded)
    context = PipelineContext.require(loaded)
    declared = minimal_declaration({"type": "numbers", "name": "history", "rows": 5})
    kept = yaml.safe_dump(declared).encode()
    context.generation.replace_bytes("definition/orders.yaml", kept)
    until = BEGIN + timedelta(seconds=2)
    scope = RangeScope(BEGIN, until, None, Interval(BEGIN, until), [])
    folder = context.generation.folder("ranges/x")
    side = side_pipeline(context, folder, scope, parts_in(context, scope))
    assert side is not None
    assert make_plan(side).files_of("history").splits == 2
