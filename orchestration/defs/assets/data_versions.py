"""Data versions, by which Dagster decides what it marks as out of date ("Unsynced").

A step that is run again, or whose run is reported again, has decided and read nothing else, so what
follows it is not out of date: all steps keep one version, and only the table has versions.
"""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from orchestration.chain import steps_of
from orchestration.defs.assets.upstream import live_upstream
from orchestration.defs.keys import live_key, step_key
from sources.config.loader import LoadedPipeline

_SAME = "INITIAL"
"""Dagster's own version of what none was reported of, such as a topic."""
STEP_VERSION = dg.DataVersion(_SAME)
"""Data version of each step of a chain."""


def live_tags(loaded: LoadedPipeline) -> dict[str, str]:
    """Return the tags of a report of the live run: its version, and those of what is upstream.

    Args:
        loaded: The pipeline, which ends in an unbounded source.
    """
    steps = [step.name for step in steps_of(loaded)]
    before = steps[steps.index(loaded.pipeline.sources[-1].name) - 1]
    return _tags(_SAME, [step_key(loaded, before), *live_upstream(loaded)])


def table_tags(loaded: LoadedPipeline, version: int | None) -> dict[str, str]:
    """Return the tags of a report of the table: its version, and that of the last source.

    Args:
        loaded: The pipeline.
        version: Version of the table; None if it is unknown, which gives no tags.
    """
    return {} if version is None else _tags(str(version), [live_key(loaded)])


def _tags(version: str, upstream: Iterable[dg.AssetKey]) -> dict[str, str]:
    """Return a version with its provenance; without that, Dagster compares times of reports."""
    tags = {
        "dagster/data_version": version,
        # Any text: no asset declares a version of its code, which this would be compared with.
        "dagster/code_version": "reported",
    }
    for key in upstream:
        name = key.to_user_string()
        tags[f"dagster/input_data_version/{name}"] = _SAME
        tags[f"dagster/input_event_pointer/{name}"] = "NULL"
    return tags
