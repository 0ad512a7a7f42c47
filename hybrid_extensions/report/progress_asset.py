"""Dagster asset `progress` with plots of a pipeline's progress over all phases."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from hybrid_extensions.report import plot_data
from orchestration.defs.keys import live_key, role_of, steps_group
from orchestration.defs.show import metadata
from orchestration.defs.show.dagster_failures import failures
from orchestration.display import time_left
from sources.common.optional import require_extra
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import InputError
from sources.generations import acting_on
from sources.serving import candidate_name
from spark_jobs.run_state.progress_log import ProgressLog


def definitions(loaded: LoadedPipeline) -> dg.Definitions:
    """Return the asset ``progress`` of a pipeline, which its chain's job materializes, too.

    Args:
        loaded: The pipeline.
    """
    return dg.Definitions(assets=[progress_asset(loaded)])


def progress_asset(loaded: LoadedPipeline) -> dg.AssetsDefinition:
    """Return the asset that plots the progress of all sources, before and after the hand-over.

    It may be materialized alone at any time. Without the extra ``plots`` it shows numbers only.
    """

    @dg.asset(
        key=[loaded.pipeline.name, "progress"],
        # Not the table: the pictures would be out of date with each version of it.
        deps=[live_key(loaded)],
        group_name=steps_group(loaded),
        kinds={"plot"},
        description=(
            "Plots of all phases: throughput, remaining input, event time, and rows by day with "
            "the seam. Materialize this asset alone to update them, also while the chain runs."
        ),
    )
    def pictures() -> dg.MaterializeResult[None]:
        with failures(loaded):
            fresh = load_pipeline(loaded.path)
            # Of a candidate, while there is one: it is what people wait for.
            acting = acting_on(fresh, candidate_name(fresh), as_kept=True)
            role = {"generation": role_of(fresh, acting.require_generation().name)}
            return dg.MaterializeResult(metadata={**_metadata(acting), **role})

    return pictures


def _metadata(loaded: LoadedPipeline) -> metadata.Metadata:
    logs = plot_data.progress_logs(loaded)
    try:
        require_extra("plots", "Drawing the progress")
    except InputError as error:
        # Not a failure: the chain's job would fail for lack of pictures.
        shown: metadata.Metadata = {"progress": str(error)}
    else:
        shown = _pictures(loaded, logs)
    for pace in plot_data.paces(logs):
        # Of a stream that waits, the average rounds to nothing.
        if pace.per_s is not None and round(pace.per_s, 1):
            shown[f"{pace.source} ({pace.unit}/s on average)"] = round(pace.per_s, 1)
        if pace.eta_s is not None:
            shown[f"{pace.source}: time left"] = time_left(pace.eta_s)
    return shown


def _pictures(loaded: LoadedPipeline, logs: Mapping[str, ProgressLog]) -> metadata.Metadata:
    # Half a second to import: only where something is plotted.
    from hybrid_extensions.report import plots  # noqa: PLC0415

    seam_ms = plot_data.seam_ms(loaded)
    shown: metadata.Metadata = {}
    if logs:
        shown["progress"] = metadata.picture("progress", plots.phases(logs, seam_ms))
    else:
        shown["progress"] = "No source has been read yet, so there is nothing to plot."
    days = plot_data.rows_by_day(loaded)
    if isinstance(days, str):
        shown["rows by day"] = days
    else:
        drawn = plots.rows_by_day(days.counts, days.column, seam_ms)
        shown["rows by day"] = metadata.picture("rows by day", drawn)
    return shown
