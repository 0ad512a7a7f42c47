"""Jobs with a single step and a form: control, generations, backfill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg

from orchestration.defs.keys import PIPELINE_TAG
from sources.config.loader import LoadedPipeline


def job_of(
    loaded: LoadedPipeline,
    name: str,
    op: Callable[..., Any],
    description: str,
    form: Any = None,
) -> dg.JobDefinition:
    """Return a Dagster job with one step, ``do_<name>``, and a launch form.

    Args:
        loaded: The pipeline.
        name: Name of the job.
        op: The function of the step. If its argument ``config`` is annotated with a Dagster
            ``Config``, that is the form.
        description: What the job does, in Markdown.
        form: Schema of the form for a function without that argument; None for no form.
    """
    made = dg.op(name=f"do_{name}", description=description, config_schema=form)(op)

    @dg.job(name=name, description=description, tags={PIPELINE_TAG: loaded.pipeline.name})
    def job() -> None:
        made()

    return job
