"""Control jobs of a pipeline in Dagster: stop, rate, pause, drain, approve; each has a form."""

from collections.abc import Callable
from enum import Enum
from typing import Any

import dagster as dg
from pydantic import Field, create_model

from orchestration import operations
from orchestration.defs import metadata
from orchestration.defs.assets import APPROVED, plan_key
from orchestration.defs.failures import failures
from orchestration.supervision import controls
from sources.common.fields import parse_duration
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.rate_limit import parse_limit
from sources.generations import acting_on
from sources.hybrid import Boundedness
from sources.planning.approval import approve
from sources.serving import described

_REPORT_EVERY = 20
"""Looks between two log lines of a drain: one for each would fill Dagster's event log."""


class GenerationConfig(dg.Config):
    """Launch form of a job that acts on the serving generation, unless it names another one."""

    generation: str = Field(
        default="", description="Name of the generation, such as g2; else the one that serves."
    )


class PauseConfig(GenerationConfig):
    """Launch form of a pause."""

    why: str = Field(default="", description="Reason, shown for as long as the run is paused.")


class DrainConfig(GenerationConfig):
    """Launch form of a drain."""

    within: str = Field(
        default="1 h",
        description="Longest time to wait: 90 s, 10 min or 2 h. Then the job fails.",
    )


class RateConfig(GenerationConfig):
    """Launch form of a rate limit; without any number the limit is removed."""

    # Numbers are validated by `parse_limit`: Pydantic's refusals show as a stack trace.
    bytes: str | None = Field(default=None, description="Bytes of files per second: 50MiB.")
    files: int | None = Field(default=None, description="Files per second.")
    rows: int | None = Field(
        default=None, description="Rows of Parquet, Delta or ORC files per second."
    )
    offsets: int | None = Field(default=None, description="Offsets of topics per second.")


class ApproveConfig(dg.Config):
    """Launch form of an approval."""

    # A default, so that the Launchpad shows the field; an empty one is refused.
    by: str = Field(default="", description="Your name; it is kept with the plan.")


def _rate_config(loaded: LoadedPipeline) -> type[RateConfig]:
    """Return the launch form of a rate limit, with the pipeline's sources to choose from."""
    sources = Enum("Source", {source.name: source.name for source in loaded.pipeline.sources})  # type: ignore[misc]
    about = f"Source of the pipeline: {', '.join(each.name for each in sources)}."
    made: type[RateConfig] = create_model(
        "SourceRateConfig", __base__=RateConfig, source=(sources, Field(description=about))
    )
    return made


def control_jobs(loaded: LoadedPipeline) -> list[dg.JobDefinition]:
    """Return the control jobs of a pipeline: stop and rate, and those that apply to it.

    A pipeline that ends in an unbounded source has pause and drain; one whose plan needs an
    approval has approve. Each does what the command of the same name does, and reads the
    pipeline's file again. All but approve, which is about the declaration, act on the generation
    that serves, unless their form names another one; so does the job ``<pipeline>_resume``.
    """
    made = {"stop": _stop, "rate": _rate}
    if loaded.pipeline.sources[-1].boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
        made |= {"pause": _pause, "drain": _drain}
    if loaded.pipeline.approve:
        made |= {"approve": _approve}
    return [job_of(loaded, command, make(loaded)) for command, make in made.items()]


def job_of(loaded: LoadedPipeline, command: str, op: Callable[..., Any]) -> dg.JobDefinition:
    """Return a Dagster job of a pipeline with one step, named ``<pipeline>_<command>``.

    Args:
        loaded: The pipeline.
        command: Last part of the job's name.
        op: The step; its docstring is the job's description.
    """
    name = f"{loaded.pipeline.name}_{command}"
    made = dg.op(name=f"do_{name}", description=op.__doc__)(op)

    @dg.job(name=name, description=op.__doc__)
    def job() -> None:
        made()

    return job


def _stop(loaded: LoadedPipeline) -> Callable[..., None]:
    def stop(context: dg.OpExecutionContext, config: GenerationConfig) -> None:
        """Stop the Spark run of the serving generation, or of one that is named, until a resume."""
        with failures():
            acting = acting_on(load_pipeline(loaded.path), config.generation, as_kept=True)
            stopped = operations.stop(acting)
            others = operations.others_running(acting)
        what = f"Stopped {', '.join(stopped)}" if stopped else "Nothing was running"
        rest = f" Still running: {', '.join(others)}." if others else ""
        context.log.info(f"{what} (generation {described(acting)}).{rest}")

    return stop


def _pause(loaded: LoadedPipeline) -> Callable[..., None]:
    def pause(context: dg.OpExecutionContext, config: PauseConfig) -> None:
        """Pause the live run until it is resumed. Its state and its position are kept."""
        with failures():
            acting = acting_on(load_pipeline(loaded.path), config.generation, as_kept=True)
            was_there = controls.pause(acting, config.why)
        what = "Paused" if was_there else "Paused; nothing was running"
        context.log.info(f"{what} (generation {described(acting)}).")

    return pause


def _drain(loaded: LoadedPipeline) -> Callable[..., None]:
    def drain(context: dg.OpExecutionContext, config: DrainConfig) -> None:
        """Let the live run commit all input that its topics, or its folder, hold now; stop it."""
        looks = 0

        def report(left: int) -> None:
            nonlocal looks
            if looks % _REPORT_EVERY == 0 or left == 0:
                context.log.info(f"{left:,} records (of a folder: files or splits) are left.")
            looks += 1

        with failures():
            acting = acting_on(load_pipeline(loaded.path), config.generation, as_kept=True)
            controls.drain(acting, parse_duration(config.within), report)
        context.log.info(f"Drained and stopped (generation {described(acting)}).")

    return drain


def _rate(loaded: LoadedPipeline) -> Callable[..., None]:
    def rate(context: dg.OpExecutionContext, config: Any) -> None:
        """Limit how fast a source is read, per second. An active run adopts the new limit."""
        with failures():
            limit = parse_limit(
                config.bytes, files=config.files, rows=config.rows, offsets=config.offsets
            )
            source = config.source.value
            acting = acting_on(load_pipeline(loaded.path), config.generation, as_kept=True)
            operations.change_rate(acting, source, limit)
        given = limit.model_dump(exclude_none=True)
        of = f"`{source}` (generation {described(acting)})"
        context.log.info(f"Rate limit of {of}: {given or 'none'}.")

    # Dagster takes the form from the annotation.
    rate.__annotations__["config"] = _rate_config(loaded)
    return rate


def _approve(loaded: LoadedPipeline) -> Callable[..., None]:
    def approve_plan(context: dg.OpExecutionContext, config: ApproveConfig) -> None:
        """Approve the plan as it is now. Afterwards materialize the rest of the chain."""
        with failures():
            given = approve(load_pipeline(loaded.path), config.by)
        # The check is not evaluated again by itself, and would stay red.
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
