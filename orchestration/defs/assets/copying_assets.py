"""Assets of the steps that copy a chain's input into files: snapshots and exports."""

from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from orchestration.capture.snapshots import snapshot_sources
from orchestration.chain import ChainRun, ExportStep, Outcome, RestOfSnapshotStep, SnapshotStep
from orchestration.defs.assets.run_notes import say_candidate
from orchestration.defs.assets.upstream import upstream_keys
from orchestration.defs.keys import step_key, steps_group
from orchestration.defs.show import metadata
from orchestration.defs.show.asset_log import AssetLog
from orchestration.defs.show.dagster_failures import failures
from sources.config.loader import LoadedPipeline, load_pipeline


def snapshot_asset(
    loaded: LoadedPipeline, step: SnapshotStep, before: Sequence[dg.AssetKey]
) -> dg.AssetsDefinition:
    """Return the asset of a step that takes the snapshot of database tables.

    Args:
        loaded: The pipeline.
        step: The step.
        before: Assets of the steps before it.
    """

    def told(context: dg.AssetExecutionContext, outcome: Outcome[Any]) -> dict[str, Any]:
        for each in outcome.value:
            for warning in each.document["warnings"]:
                context.log.warning(warning)
        return metadata.snapshots(outcome.value)

    what = (
        "Copies the database tables into files, chunk by chunk, all as of one snapshot of the "
        "database."
    )
    return _of_snapshot(loaded, step, before, what, told)


def rest_of_snapshot_asset(
    loaded: LoadedPipeline, step: RestOfSnapshotStep, before: Sequence[dg.AssetKey]
) -> dg.AssetsDefinition:
    """Return the asset of a step that copies the rest of a snapshot while the live run works.

    Args:
        loaded: The pipeline.
        step: The step.
        before: Assets of the steps before it.
    """
    what = (
        "Copies the other chunks of the database table into files, while the live run merges them "
        "and the changes; ends once the table is whole."
    )
    return _of_snapshot(loaded, step, before, what, lambda _, outcome: {"whole": outcome.text})


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
            fresh = load_pipeline(loaded.path)
            say_candidate(context, fresh)
            outcome = step.run(ChainRun(fresh, AssetLog(context, fresh)))
        return dg.MaterializeResult(metadata=told(context, outcome))

    return copied


def export_asset(
    loaded: LoadedPipeline, step: ExportStep, before: Sequence[dg.AssetKey]
) -> dg.AssetsDefinition:
    """Return the asset of a step that exports a source of an extension's kind to files.

    Args:
        loaded: The pipeline.
        step: The step.
        before: Assets of the steps before it.
    """
    kind = loaded.pipeline.exported_source(step.source).shown_place

    @dg.asset(
        key=step_key(loaded, step.name),
        deps=[*before, *upstream_keys(loaded, step.source)],
        group_name=steps_group(loaded),
        kinds={kind},
        description=(
            f"Exports {step.source} to files in the state, once for each generation; the plan "
            "reads these. Safe to run again: a complete export is kept."
        ),
    )
    def export(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        with failures(loaded):
            fresh = load_pipeline(loaded.path)
            say_candidate(context, fresh)
            made = step.run(ChainRun(fresh, AssetLog(context, fresh))).value
        return dg.MaterializeResult(metadata=metadata.export(made))

    return export
