"""Dagster's side of what people ask of a pipeline that runs: one job each, with its own form."""

from collections.abc import Callable
from enum import Enum
from typing import Any

import dagster as dg
from pydantic import Field, create_model

from orchestration import chain
from orchestration.defs import metadata
from orchestration.defs.assets import APPROVED, failures, plan_key
from orchestration.supervision import controls
from sources.common.fields import parse_duration
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.rate_limit import parse_limit
from sources.hybrid import Boundedness
from sources.planning.approval import approve

_REPORT_EVERY = 20
"""Looks between two lines of a drain's log: each would fill Dagster's event log."""


class PauseConfig(dg.Config):
    """The form of a pause."""

    why: str = Field(default="", description="Shown to everybody for as long as it is paused.")


class DrainConfig(dg.Config):
    """The form of a drain."""

    within: str = Field(
        default="1 h", description="How long to wait, such as 90 s, 10 min or 2 h; then it fails."
    )


class RateConfig(dg.Config):
    """The form of a rate limit; without any number the limit is lifted."""

    # Numbers are judged by `parse_limit`: what Pydantic refuses shows as a stack of Dagster's.
    bytes: str | None = Field(default=None, description="Of files, by second, such as 50MiB.")
    files: int | None = Field(default=None, description="Files by second.")
    rows: int | None = Field(default=None, description="Of Parquet, Delta or ORC, by second.")
    offsets: int | None = Field(default=None, description="Of topics, by second.")


class ApproveConfig(dg.Config):
    """The form of an approval."""

    # A default, so that the Launchpad has the field in place; an empty one is refused.
    by: str = Field(default="", description="Who approves: your name. It is kept with the plan.")


def _rate_config(loaded: LoadedPipeline) -> type[RateConfig]:
    """The form of a rate limit that offers the sources of a pipeline to choose from."""
    sources = Enum("Source", {source.name: source.name for source in loaded.pipeline.sources})  # type: ignore[misc]
    about = f"Which source of the pipeline: {', '.join(each.name for each in sources)}."
    made: type[RateConfig] = create_model(
        "SourceRateConfig", __base__=RateConfig, source=(sources, Field(description=about))
    )
    return made


def control_jobs(loaded: LoadedPipeline) -> list[dg.JobDefinition]:
    """Jobs that stop a pipeline and change its rate; pause and drain one that goes on for ever.

    One that waits for a person's word has a job that gives it.

    They do what the commands of the same names do, and read the pipeline's file again for it.
    To resume is to materialize the live asset alone.
    """
    made = {"stop": _stop, "rate": _rate}
    if loaded.pipeline.sources[-1].boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
        made |= {"pause": _pause, "drain": _drain}
    if loaded.pipeline.approve:
        made |= {"approve": _approve}
    return [job_of(loaded, command, make(loaded)) for command, make in made.items()]


def job_of(loaded: LoadedPipeline, command: str, op: Callable[..., Any]) -> dg.JobDefinition:
    """A job of a pipeline with one step.

    Args:
        loaded: The pipeline.
        command: What the job's name ends in.
        op: What the step does; its docstring describes the job.
    """
    name = f"{loaded.pipeline.name}_{command}"
    made = dg.op(name=f"do_{name}", description=op.__doc__)(op)

    @dg.job(name=name, description=op.__doc__)
    def job() -> None:
        made()

    return job


def _stop(loaded: LoadedPipeline) -> Callable[..., None]:
    def stop(context: dg.OpExecutionContext) -> None:
        """Ends whatever run of the pipeline is there; it stays stopped."""
        with failures():
            stopped = chain.stop(load_pipeline(loaded.path))
        context.log.info(f"Stopped {', '.join(stopped)}" if stopped else "Nothing was running")

    return stop


def _pause(loaded: LoadedPipeline) -> Callable[..., None]:
    def pause(context: dg.OpExecutionContext, config: PauseConfig) -> None:
        """Ends the live run until it is resumed; meanwhile it is shown as paused."""
        with failures():
            was_there = controls.pause(load_pipeline(loaded.path), config.why)
        context.log.info("Paused" if was_there else "Paused; nothing was running")

    return pause


def _drain(loaded: LoadedPipeline) -> Callable[..., None]:
    def drain(context: dg.OpExecutionContext, config: DrainConfig) -> None:
        """Lets the live run commit all that is there now, then stops it."""
        looks = 0

        def report(left: int) -> None:
            nonlocal looks
            if looks % _REPORT_EVERY == 0 or left == 0:
                context.log.info(f"{left:,} left")
            looks += 1

        with failures():
            controls.drain(load_pipeline(loaded.path), parse_duration(config.within), report)

    return drain


def _rate(loaded: LoadedPipeline) -> Callable[..., None]:
    def rate(context: dg.OpExecutionContext, config: Any) -> None:
        """Limits how fast a source is read, by second, also while it is."""
        with failures():
            limit = parse_limit(
                config.bytes, files=config.files, rows=config.rows, offsets=config.offsets
            )
            source = config.source.value
            chain.change_rate(load_pipeline(loaded.path), source, limit)
        context.log.info(f"`{source}`: {limit.model_dump(exclude_none=True) or 'no limit'}")

    # Dagster reads the form off the annotation.
    rate.__annotations__["config"] = _rate_config(loaded)
    return rate


def _approve(loaded: LoadedPipeline) -> Callable[..., None]:
    def approve_plan(context: dg.OpExecutionContext, config: ApproveConfig) -> None:
        """Approves the plan as it stands; then materialize the rest of the chain."""
        with failures():
            given = approve(load_pipeline(loaded.path), config.by)
        # The check is not asked again by itself, and would stay red.
        found = metadata.approval(loaded.pipeline.name, given)
        context.instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=plan_key(loaded),
                check_name=APPROVED,
                passed=found.passed,
                severity=found.severity,
                description=found.description,
                metadata={},
            )
        )
        context.log.info(found.description)

    return approve_plan
