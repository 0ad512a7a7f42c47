"""Dagster's assets of the snapshot steps of a captured table, with rows, chunks, log position."""

from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from orchestration.capture.snapshots import TakenSnapshot, snapshot_sources
from orchestration.chain import ChainRun, Outcome, RestOfSnapshotStep, SnapshotStep
from orchestration.defs.assets.run_notes import say_candidate
from orchestration.defs.keys import step_key, steps_group
from orchestration.defs.show.dagster_failures import failures, load_again
from orchestration.defs.show.metadata import Metadata, table
from orchestration.defs.show.step_progress import StepProgress
from orchestration.display import second
from sources.config.loader import LoadedPipeline


def snapshot_asset(
    loaded: LoadedPipeline,
    step: SnapshotStep | RestOfSnapshotStep,
    before: Sequence[dg.AssetKey],
) -> dg.AssetsDefinition:
    """Return the asset of a step that copies database tables, as a whole or the rest of them.

    Args:
        loaded: The pipeline.
        step: The step.
        before: Assets of the steps before it.
    """
    if isinstance(step, SnapshotStep):
        what = (
            "Copies the database tables into files, chunk by chunk, all as of one snapshot of the "
            "database."
        )
        return _of_snapshot(loaded, step, before, what, _told_of_snapshot)
    what = (
        "Copies the other chunks of the database table into files, while the live run merges them "
        "and the changes; ends once the table is whole."
    )
    return _of_snapshot(loaded, step, before, what, lambda _, outcome: {"whole": outcome.text})


def _told_of_snapshot(context: dg.AssetExecutionContext, outcome: Outcome[Any]) -> dict[str, Any]:
    """Log the warnings of the snapshots that a step took; return the metadata of these."""
    for each in outcome.value:
        for warning in each.document["warnings"]:
            context.log.warning(warning)
    return _metadata(outcome.value)


def _metadata(taken: Sequence[TakenSnapshot]) -> Metadata:
    """Return the metadata of database tables that were copied: rows, chunks, time, log position."""
    return {
        "dagster/row_count": sum(each.document["rows"] for each in taken),
        "snapshots": table(
            [
                {
                    "table": each.document["table"],
                    "rows": each.document["rows"],
                    "chunks": each.document["chunks"],
                    "taken": second(each.document["taken_ms"]),
                    **each.position,
                }
                for each in taken
            ]
        ),
    }


def _of_snapshot(
    loaded: LoadedPipeline,
    step: SnapshotStep | RestOfSnapshotStep,
    before: Sequence[dg.AssetKey],
    what: str,
    told: Callable[[dg.AssetExecutionContext, Outcome[Any]], dict[str, Any]],
) -> dg.AssetsDefinition:
    """Return the asset of a step that copies chunks of database tables into files.

    Args:
        loaded: The pipeline.
        step: The step.
        before: Assets of the steps before it.
        what: What it does, for its description.
        told: Returns the metadata of its outcome, and may write to the log.
    """

    @dg.asset(
        key=step_key(loaded, step.name),
        deps=before,
        group_name=steps_group(loaded),
        kinds={
            each.snapshot.kind.name
            for each in snapshot_sources(loaded)
            if each.snapshot is not None
        },
        description=f"{what} Safe to run again: chunks that are complete are kept.",
    )
    def copied(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        with failures(loaded):
            fresh = load_again(loaded.path)
            say_candidate(context, fresh)
            outcome = step.run(ChainRun(fresh, StepProgress(context, fresh)))
        return dg.MaterializeResult(metadata=told(context, outcome))

    return copied
