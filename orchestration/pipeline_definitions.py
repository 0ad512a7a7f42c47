"""All Dagster definitions of one pipeline; which assets and checks its chain materializes."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from orchestration.chain import steps_of
from orchestration.comparison.installed_audit import AUDITED, installed_audit
from orchestration.defs.assets.chain_assets import pipeline_assets
from orchestration.defs.assets.table import table_asset
from orchestration.defs.assets.upstream import upstream_specs
from orchestration.defs.checks.table import healthy_check
from orchestration.defs.jobs import job_texts
from orchestration.defs.jobs.control_job import control_job
from orchestration.defs.jobs.replacement import installed_replacement
from orchestration.defs.keys import PIPELINE_TAG, step_key, table_key
from orchestration.defs.sensors import has_live_run, live_checks, supervision_sensor
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.extensions import contributions, extensions


def pipeline_definitions(
    loaded: LoadedPipeline, *, with_upstream: bool = True, after: Sequence[dg.AssetKey] = ()
) -> dg.Definitions:
    """Return a pipeline's assets, jobs, checks, schedules and sensor, for a Dagster code location.

    The jobs are two: ``<name>`` builds the table and keeps it up to date, and ``<name>_control``
    acts on its runs. Extensions add others: ``<name>_generation``, which replaces the whole table,
    and ``<name>_backfill``, which recomputes ranges. The checks of the live run are there only if
    the pipeline ends in an unbounded source. Neither data nor state is read.

    Args:
        loaded: The pipeline.
        with_upstream: Whether to describe the data that it reads as external assets. Without them
            Dagster shows these by their keys alone.
        after: Assets that the first step of the chain depends on.

    Raises:
        InputError: An extension can't be loaded, or Dagster does not take a name, such as `type`,
            or takes it once only, as of two schedules.
    """
    name = loaded.pipeline.name
    # One job for the whole chain: one Dagster run with ordered steps.
    chain = dg.define_asset_job(
        name,
        selection=chain_selection(loaded),
        description=job_texts.build(loaded),
        tags={**loaded.pipeline.about.tags, PIPELINE_TAG: name},
    )
    replacement = installed_replacement()
    generations = [] if replacement is None else [replacement.job(loaded)]
    control = control_job(loaded)
    made = dg.Definitions(
        assets=[
            *(upstream_specs(loaded) if with_upstream else []),
            *pipeline_assets(loaded, after),
            table_asset(loaded),
        ],
        asset_checks=[
            healthy_check(loaded),
            *([live_checks(loaded)] if has_live_run(loaded) else []),
        ],
        jobs=[chain, control, *generations],
        sensors=[supervision_sensor(loaded, [chain, *generations])],
    )
    added = (make(loaded) for make in contributions("definitions"))
    found = dg.Definitions.merge(made, *added)
    try:
        # Else Dagster would refuse all pipelines of the location.
        dg.Definitions.validate_loadable(found)
    except dg.DagsterInvalidDefinitionError as error:
        message = (
            f"Dagster does not load pipeline `{name}`: {str(error.__cause__ or error).rstrip('.')}."
        )
        hint = "Give the pipeline, or its schedule that the message names, another `name`."
        raise InputError(message, hint, pipeline=name, field="name") from None
    return found


def chain_selection(loaded: LoadedPipeline) -> dg.AssetSelection:
    """Return the assets and checks that a pipeline's chain materializes.

    Checks that compare or audit the table are left out: jobs of their own run them on request.

    Raises:
        InputError: An extension can't be loaded.
    """
    added_names = [name for each in extensions() for name in each.chain_assets]
    names = [*(step.name for step in steps_of(loaded)), "table", *added_names]
    # Comparing reads whole tables, an audit all of the input, so these are asked for.
    audited = [] if installed_audit() is None else [AUDITED]
    added = [name for section in loaded.sections for name in section.checks_on_request]
    asked = [*audited, *added]
    checks = [dg.AssetCheckKey(table_key(loaded), name) for name in asked]
    keys = [step_key(loaded, name) for name in names]
    return dg.AssetSelection.assets(*keys) - dg.AssetSelection.checks(*checks)
