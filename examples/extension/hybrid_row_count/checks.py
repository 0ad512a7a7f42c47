"""The number of rows as a check of the table in Dagster."""

from __future__ import annotations

import dagster as dg

from hybrid_row_count.declare import count, declared
from orchestration.defs.keys import table_key
from sources.config.loader import LoadedPipeline, load_pipeline


def definitions(loaded: LoadedPipeline) -> dg.Definitions:
    """Return the check `row_count` of a pipeline's table; nothing where none is declared."""
    if declared(loaded) is None:
        return dg.Definitions()

    @dg.asset_check(
        name="row_count",
        asset=table_key(loaded),
        description="Whether the table has at least as many rows as `row_count` declares.",
    )
    def row_count() -> dg.AssetCheckResult:
        fresh = load_pipeline(loaded.path)
        expected, rows = declared(fresh), count(fresh)
        least = 0 if expected is None else expected.at_least
        return dg.AssetCheckResult(passed=rows >= least, metadata={"rows": rows, "at least": least})

    return dg.Definitions(asset_checks=[row_count])
