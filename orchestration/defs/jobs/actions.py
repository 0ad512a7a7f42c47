"""Actions that a pipeline's control job can be launched with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import dagster as dg

from sources.config.loader import LoadedPipeline

Act = Callable[[dg.OpExecutionContext, LoadedPipeline, Any], None]
"""What an action does: it gets the run's context, the pipeline, and the values of the form."""


class Action(NamedTuple):
    """Action of a pipeline's control job, from the core or an extension.

    Attributes:
        act: The function that does it; called in the job with context, pipeline and form.
        text: What the action does, as a clause that begins with a verb in the third person.
        fields: Fields of the form that belong to it by name, each with a default.
    """

    act: Act
    text: str
    fields: Mapping[str, dg.Field]
