"""Places of tables that a source names, and does not declare: in a catalog, or of a pipeline.

Only the plan looks them up. It keeps the place of each table, and whatever comes after it goes
by the place: a name that refers to another table later changes nothing in a generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.errors import ErrorReport
from sources.planning.files.passed_range import position_after
from sources.planning.plan import find_plan
from sources.state.generation import Generation


class PlacesRequest(BaseModel):
    """Request to a Spark process for the paths of tables in its catalog.

    Attributes:
        tables: Names of tables, ``schema.table``, by name of the source.
    """

    model_config = ConfigDict(extra="forbid")

    tables: dict[str, str]


class PlacesAnswer(BaseModel):
    """Answer to a :class:`PlacesRequest`: either the paths of all tables, or an error.

    Attributes:
        places: Folder of each table, absolute or a URL, by name of the source; None after an error.
        refusal: Why the first of them can't be read; None without an error.
    """

    places: dict[str, str] | None = None
    refusal: ErrorReport | None = None


def tables_by_name(pipeline: Pipeline) -> dict[str, FileSource]:
    """Return file sources, by name, that name a table of a catalog whose path is not known yet.

    Empty if there are none.
    """
    return {
        source.name: source
        for source in pipeline.sources
        if isinstance(source, FileSource) and source.table is not None and not source.patterns
    }


def with_places(loaded: LoadedPipeline, places: Mapping[str, str]) -> LoadedPipeline:
    """Return a copy of a pipeline in which sources of catalog tables have their paths.

    Args:
        loaded: The pipeline.
        places: Folder or metadata file of a source's table, absolute or a URL, by name of the
            source.
    """
    sources = [
        source.model_copy(update={"path": places[source.name]}) if source.name in places else source
        for source in loaded.pipeline.sources
    ]
    return replace(loaded, pipeline=loaded.pipeline.model_copy(update={"sources": sources}))


def with_planned_places(loaded: LoadedPipeline, generation: Generation) -> LoadedPipeline:
    """Return a copy of a pipeline whose named tables have the paths that the plan recorded.

    The same pipeline if it has no such table; without a plan nothing is changed.

    Raises:
        StateError: The plan is damaged, or of an unknown version.
        UnavailableError: The state's store does not answer.
    """
    named = {source.name for source in loaded.pipeline.file_sources if source.is_placed_by_plan}
    if not named or (plan := find_plan(generation)) is None:
        return loaded
    places = {part.source: part.table for part in plan.files if part.table}
    for part in [*plan.files, *([] if plan.folder is None else [plan.folder])]:
        if part.source in named and (position := position_after(generation, [part])) is not None:
            places[part.source] = position.place
    return with_places(loaded, places)
