"""Paths of tables declared by catalog names, looked up while planning; refused without one."""

from __future__ import annotations

from sources.config.loader import LoadedPipeline
from sources.config.requirements import require_extras
from sources.errors import InputError, error_of
from sources.files.tables.lake import lake_of
from sources.planning.files.table_places import (
    PlacesAnswer,
    PlacesRequest,
    tables_by_name,
    with_places,
)
from spark_jobs.launch.questions.spark_process import SparkProcess


def find_places(loaded: LoadedPipeline, process: SparkProcess) -> LoadedPipeline:
    """Look up the paths of tables that are declared by name, and return the pipeline with them.

    Delta tables are looked up in the catalog of Spark's session, Iceberg tables in their own.
    Called while planning.

    Args:
        loaded: The pipeline; one without tables by name is returned as it is.
        process: The Spark process to ask.

    Raises:
        InputError: A table does not exist, is a view or of another format; or Spark can't run on
            this machine, or a package for a table or its store is not installed.
        UnavailableError: The catalog does not answer.
    """
    named = tables_by_name(loaded.pipeline)
    if not named:
        return loaded
    require_extras(loaded.pipeline, loaded.sections)
    lakes = {name: each for name, each in named.items() if each.format != "delta"}
    found = {name: lake_of(each).find_place(each) for name, each in lakes.items()}
    loaded = with_places(loaded, found)
    tables = {name: str(source.table) for name, source in named.items() if source.format == "delta"}
    if not tables:
        return loaded
    text = process.ask(PlacesRequest(tables=tables).model_dump_json())
    answer = PlacesAnswer.model_validate_json(text) if text else PlacesAnswer()
    if answer.refusal is not None:
        raise error_of(answer.refusal)
    if answer.places is None:
        source, name = next(iter(tables.items()))
        message = (
            f"Source `{source}`: the folder of table {name} can't be looked up in the catalog, "
            f"because Spark can't run on this machine: {process.reason}. Nothing was planned."
        )
        hint = (
            "Make Spark run here (`hybrid validate P` says what it needs), or declare the table's "
            "folder as `path`, which needs no catalog."
        )
        raise InputError(message, hint, source=source, table=name)
    placed = with_places(loaded, answer.places)
    require_extras(placed.pipeline, placed.sections)
    return placed
