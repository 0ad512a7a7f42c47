"""Dagster's entry point: every pipeline found becomes a group of assets and its jobs.

``HYBRID_PIPELINES`` lists folders and files, separated as ``PATH`` is; the examples otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

from orchestration.defs.assets import find_pipelines
from orchestration.pipeline_definitions import pipeline_definitions

_EXAMPLES = Path(__file__).parent.parent / "examples"
_PLACES = os.environ.get("HYBRID_PIPELINES") or str(_EXAMPLES)

defs = dg.Definitions.merge(
    *(
        pipeline_definitions(loaded)
        for loaded in find_pipelines(map(Path, _PLACES.split(os.pathsep)))
    ),
    # The steps of a chain follow each other: a process for each would only cost its start.
    dg.Definitions(executor=dg.in_process_executor),
)
