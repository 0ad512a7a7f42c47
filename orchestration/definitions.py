"""Dagster's entry point: a group of assets, and the jobs, of every pipeline that is found.

``HYBRID_PIPELINES`` lists folders and files to search, separated like ``PATH``; the examples are
used if it is not set.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import dagster as dg

from orchestration.pipeline_definitions import pipeline_definitions
from orchestration.template_definitions import template_definitions
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.table_template import Template, is_template

_EXAMPLES = Path(__file__).parent.parent / "examples"
_PLACES = os.environ.get("HYBRID_PIPELINES") or str(_EXAMPLES)


def find_pipelines(places: Iterable[Path]) -> tuple[list[LoadedPipeline], list[Template]]:
    """Return what is declared in these files, and in ``*.yaml`` of these folders.

    Args:
        places: Files and folders; folders below a folder are not searched.

    Returns:
        The pipelines, and the files with `tables`, whose pipelines are not among the former.

    Raises:
        InputError: A file can't be read or is invalid; the message names it.
    """
    files = [
        file.absolute()
        for place in places
        for file in (sorted(place.glob("*.yaml")) if place.is_dir() else [place])
    ]
    templates = [Template(file) for file in files if is_template(file)]
    made = {each.file_of(table) for each in templates for table in each.tables()}
    plain = [file for file in files if file not in made and not is_template(file)]
    return [load_pipeline(file) for file in plain], templates


def find_definitions(places: Iterable[Path]) -> dg.Definitions:
    """Return what Dagster shows of all pipelines in these files and folders.

    Args:
        places: Files and folders, as of :func:`find_pipelines`.

    Raises:
        InputError: A file can't be read or is invalid; the message names it.
        StateError: The file of a table's pipeline can't be written.
    """
    pipelines, templates = find_pipelines(places)
    return dg.Definitions.merge(
        *map(pipeline_definitions, pipelines),
        *map(template_definitions, templates),
        # The steps of a chain run one after another: a process for each would only cost its start.
        dg.Definitions(executor=dg.in_process_executor),
    )


defs = find_definitions([Path(place) for place in _PLACES.split(os.pathsep)])
