"""Which optional packages a pipeline's declaration needs."""

from __future__ import annotations

from sources.common.optional import require_extra
from sources.config.file_source import FileSource
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
        name = f"Source `{source.name}`"
        if source.format == "avro":
            require_extra("avro", f"{name}: `format: avro`")
        if isinstance(source, FileSource):
            if any(pattern.startswith("hdfs://") for pattern in source.patterns):
                require_extra("hdfs", f"{name}: an `hdfs://` path")
            if source.format == "iceberg":
                require_extra("lake", f"{name}: `format: iceberg`")
            if source.snapshot is not None:
                require_extra(source.snapshot.kind, f"{name}: `snapshot`")
        elif source.registry is not None:
            require_extra("registry", f"{name}: `registry`")
            # Avro is what a registry is asked about.
            require_extra("avro", f"{name}: `registry`")
