"""A file with `tables` as a group of pipelines in Dagster; those that can't be loaded are shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import dagster as dg

from hybrid_extensions.cdc.tables.dagster import load_table_pipelines, tables_definitions
from hybrid_extensions.cdc.tables.template import Template, is_template
from orchestration.defs.assets.unloadable_pipeline import UnreadableFile
from orchestration.defs.pipeline_group import PipelineGroup
from sources.config.loader import LoadedPipeline


class TablesGroup(PipelineGroup):
    """The pipelines of the tables of one file, as a group for Dagster.

    Args:
        template: The file.

    Attributes:
        path: The file.
        name: Name that it declares.
    """

    def __init__(self, template: Template) -> None:
        self._template = template
        self.path, self.name = template.path, template.declared.name

    def files(self) -> Collection[Path]:
        """Return the pipeline file of each table; empty if no table was found yet."""
        return [self._template.file_of(table) for table in self._template.tables()]

    def load(self) -> tuple[list[LoadedPipeline], list[UnreadableFile]]:
        """Return the pipelines of the tables, and the files of those that can't be loaded.

        Raises nothing for a table that can't be loaded. Both are empty before tables were found.
        """
        return load_table_pipelines(self._template)

    def definitions(self, pipelines: Sequence[LoadedPipeline]) -> dg.Definitions:
        """Return the definitions of the file, those of the tables' pipelines among them."""
        return tables_definitions(self._template, pipelines)


def group_of(path: Path) -> TablesGroup | None:
    """Return the pipelines of a file with ``tables`` as a group; None for any other file.

    Raises:
        InputError: The file declares ``tables``, and a field of it is not valid.
    """
    return TablesGroup(Template(path)) if is_template(path) else None
