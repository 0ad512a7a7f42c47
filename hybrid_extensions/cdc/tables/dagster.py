"""Dagster definitions of a file with `tables`: a group of tables, one snapshot, one job.

The step that looks for tables does not fail if the database does not answer, unless no table has a
pipeline yet (:func:`hybrid_extensions.cdc.tables.table_pipelines.copy`).
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_

import dagster as dg

from hybrid_extensions.cdc.tables import table_pipelines
from hybrid_extensions.cdc.tables.found_tables import FoundTables
from hybrid_extensions.cdc.tables.template import Template
from orchestration.defs.assets.unloadable_pipeline import UnreadableFile, unreadable_definitions
from orchestration.defs.show.dagster_failures import failures
from orchestration.defs.show.markdown import code_span
from orchestration.defs.show.metadata import Metadata
from orchestration.pipeline_definitions import chain_selection, pipeline_definitions
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.extensions import contributions

_NONE = "none"


def template_definitions(template: Template) -> dg.Definitions:
    """Return all Dagster definitions of a file with `tables`, for a code location.

    These are those of each table's pipeline, an asset that finds new tables and copies all at one
    point in time, a job for the whole, and what extensions add. A table whose pipeline can't be
    loaded raises nothing: it is shown with the reason.
    """
    pipelines, unreadable = load_table_pipelines(template)
    failed = (unreadable_definitions(each) for each in unreadable)
    return dg.Definitions.merge(tables_definitions(template, pipelines), *failed)


def load_table_pipelines(template: Template) -> tuple[list[LoadedPipeline], list[UnreadableFile]]:
    """Return the pipelines of a file's tables, and the files of those that can't be loaded.

    Raises nothing for a table that can't be loaded: its file is in the second list, with the error.
    Both are sorted by table, and empty before tables were found.
    """
    pipelines: list[LoadedPipeline] = []
    unreadable: list[UnreadableFile] = []
    for table in template.tables():
        try:
            pipelines.append(template.load(table))
        except HybridError as error:
            unreadable.append(UnreadableFile(template.file_of(table), error))
    return pipelines, unreadable


def tables_definitions(template: Template, pipelines: Sequence[LoadedPipeline]) -> dg.Definitions:
    """Return the Dagster definitions of a file with `tables`, for the tables that can be loaded.

    Args:
        template: The file.
        pipelines: Those of :func:`load_table_pipelines`.
    """
    tables = _tables_asset(template)
    chains = map(chain_selection, pipelines)
    job = dg.define_asset_job(
        template.declared.name,
        selection=reduce(or_, chains, dg.AssetSelection.assets(tables)),
        description=(
            f"Builds all tables of `{template.path.name}` and keeps them up to date, from one "
            "snapshot of the database. One that fails holds up no other."
        ),
    )
    return dg.Definitions.merge(
        *(pipeline_definitions(each, after=[tables.key]) for each in pipelines),
        dg.Definitions(assets=[tables], jobs=[job]),
        *(make(template, pipelines) for make in contributions("tables_definitions")),
    )


def _tables_asset(template: Template) -> dg.AssetsDefinition:
    """Return the asset that finds and copies tables: ``[name, "tables"]``."""
    declared = template.declared

    @dg.asset(
        key=[declared.name, "tables"],
        group_name=declared.name,
        kinds={declared.database.kind.name},
        description=(
            f"Looks for the tables of the database that `{template.path.name}` includes, makes a "
            "pipeline for each new one, and copies all that are not copied yet into files, all as "
            "of one point in time. New pipelines are shown once the code location is loaded again."
        ),
    )
    def tables(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        with failures(None):
            found = table_pipelines.copy(Template(template.path), context.log.info)
        if found is None:
            return dg.MaterializeResult(metadata={"database": "does not answer"})
        for line in found.lines():
            context.log.warning(line)
        return dg.MaterializeResult(metadata=_metadata(found))

    return tables


def _metadata(found: FoundTables) -> Metadata:
    """Return what was found, by what people look for."""
    refused = [f"- {code_span(table)}: {why}" for table, why in found.refused.items()]
    return {
        "pipelines": len(found.known) + len(found.added),
        "added (load the code location again)": ", ".join(found.added) or _NONE,
        "no longer in the database": ", ".join(found.gone) or _NONE,
        "not captured": dg.MetadataValue.md("\n".join(refused) or _NONE),
    }
