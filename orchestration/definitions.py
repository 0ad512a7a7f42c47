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
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.table_template import is_template

_EXAMPLES = Path(__file__).parent.parent / "examples"
_PLACES = os.environ.get("HYBRID_PIPELINES") or str(_EXAMPLES)


def find_pipelines(places: Iterable[Path]) -> list[LoadedPipeline]:
    """Return all pipelines that are declared in these files, and in ``*.yaml`` of these folders.

    Args:
        places: Files and folders; folders below a folder are not searched.

    Raises:
        InputError: A file can't be read or is invalid; the message names it.
    """
    files = [
        file
        for place in places
        for file in (sorted(place.glob("*.yaml")) if place.is_dir() else [place])
    ]
    # The pipelines of a file with `tables` have files of their own next to it.
    return [load_pipeline(file) for file in files if not is_template(file)]


defs = dg.Definitions.merge(
    *(
        pipeline_definitions(loaded)
        for loaded in find_pipelines(map(Path, _PLACES.split(os.pathsep)))
    ),
    # The steps of a chain run one after another: a process for each would only cost its start.
    dg.Definitions(executor=dg.in_process_executor),
)
