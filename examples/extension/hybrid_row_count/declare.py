"""What a pipeline's file declares of the number of rows, and how they are counted."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sources.common.fields import Declared
from sources.config.loader import LoadedPipeline
from sources.config.section import Section
from sources.storage.tables.delta import delta_table, is_delta_table


class RowCount(Declared):
    """How many rows the target has to have.

    Attributes:
        at_least: Least number of rows.
    """

    at_least: Annotated[int, Field(ge=1)]


class RowCountSection(Section):
    """The field that this extension adds to a pipeline's file.

    Attributes:
        row_count: How many rows the target has to have; any number by default.
    """

    row_count: RowCount | None = None


def declared(loaded: LoadedPipeline) -> RowCount | None:
    """Return what a pipeline's file declares; None if it declares nothing."""
    return loaded.section(RowCountSection).row_count


def count(loaded: LoadedPipeline) -> int:
    """Return the number of rows of the table that readers see; 0 if there is no table yet."""
    return delta_table(loaded.target).count() if is_delta_table(loaded.target) else 0
