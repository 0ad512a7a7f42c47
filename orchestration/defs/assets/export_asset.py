"""Asset of a step that exports a source to files."""

from collections.abc import Sequence

import dagster as dg

from orchestration.chain import ChainRun, ExportStep
from orchestration.defs.assets.run_notes import say_candidate
from orchestration.defs.assets.upstream import upstream_keys
from orchestration.defs.keys import step_key, steps_group
from orchestration.defs.show import metadata
from orchestration.defs.show.dagster_failures import failures, load_again
from orchestration.defs.show.step_progress import StepProgress
from sources.config.loader import LoadedPipeline


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
            fresh = load_again(loaded.path)
            say_candidate(context, fresh)
            made = step.run(ChainRun(fresh, StepProgress(context, fresh))).value
        return dg.MaterializeResult(metadata=metadata.export(made))

    return export
