"""Which optional packages a pipeline's declaration needs."""

from __future__ import annotations

from sources.common.optional import require_extra
from sources.config.pipeline import Pipeline


def require_extras(pipeline: Pipeline) -> None:
    """Refuse a pipeline whose declaration needs an extra that is not installed.

    Called before any data is looked at, so that no run fails half-way for the want of a package.

    Raises:
        InputError: A package can't be imported; names the source, the field, and the extra of this
            project that installs it.
    """
    if pipeline.lineage is not None:
        require_extra("lineage", "`lineage`")
    if pipeline.spark.service_name == "databricks":
        require_extra("databricks", "`master: databricks://…`")
    for source in pipeline.sources:
        for extra, needing in source.extras:
            require_extra(extra, f"Source `{source.name}`: {needing}")
