"""Dagster's side of generations: a job for each thing people ask, and reruns by the clock."""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from orchestration.audit.compare_generations import compare_generations
from orchestration.defs import metadata
from orchestration.defs.assets import failures
from orchestration.defs.jobs import job_of
from orchestration.defs.schedules import schedule
from orchestration.generations import promotion
from orchestration.generations.lifecycle import discard, rerun
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.reruns import Rerun
from sources.generations import Serving, begin


class Promote(Enum):
    """Whether a rerun is to serve by itself."""

    CHECKS = "checks"
    NEVER = "never"


class RerunConfig(dg.Config):
    """The form of a rerun."""

    promote: Promote = Field(
        default=Promote.CHECKS,
        description="CHECKS: readers get it if it caught up, is healthy and has enough rows; "
        "NEVER: it waits for people.",
    )
    rows_at_least: float = Field(
        default=0.99, description="Its rows over those of the generation that serves."
    )


def generation_jobs(loaded: LoadedPipeline) -> dict[str, dg.JobDefinition]:
    """Jobs that do what the commands ``hybrid generation …`` and ``hybrid rerun`` do, by name."""
    made: dict[str, Callable[..., None]] = {
        "new_generation": _new(loaded),
        "compare": _compare(loaded),
        "promote": _promote(loaded),
        "rollback": _roll_back(loaded),
        "discard": _discard(loaded),
        "rerun": _rerun(loaded),
    }
    return {command: job_of(loaded, command, op) for command, op in made.items()}


def finish_job(loaded: LoadedPipeline) -> dg.JobDefinition:
    """The job that finishes a promotion, or a rollback, that broke off."""

    def finish(context: dg.OpExecutionContext) -> None:
        """Finishes a promotion or a rollback that broke off; asked for by the supervision."""
        with failures():
            done = promotion.finish(load_pipeline(loaded.path))
        context.log.info("Finished" if done else "Nothing was under way")

    return job_of(loaded, "finish", finish)


def rerun_schedules(loaded: LoadedPipeline, job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    """The schedules that a pipeline declares; each makes a new generation."""
    return [
        schedule(loaded, each, job, partial(_form, job.name, each))
        for each in loaded.pipeline.generations.reruns
    ]


def _form(job: str, declared: Rerun) -> dict[str, Any]:
    config = {"promote": declared.promote.upper(), "rows_at_least": declared.rows_at_least}
    return {"run_config": {"ops": {f"do_{job}": {"config": config}}}}


def _new(loaded: LoadedPipeline) -> Callable[..., None]:
    def new(context: dg.OpExecutionContext) -> None:
        """Begins a new generation under the pipeline's file as it is now; the other serves on."""
        with failures():
            made = begin(load_pipeline(loaded.path))
        context.log.info(
            f"Generation {made.name} is begun: materialize the chain to make its table, compare, "
            "then promote"
        )

    return new


def _compare(loaded: LoadedPipeline) -> Callable[..., None]:
    def compare(context: dg.OpExecutionContext) -> None:
        """Compares the newest generation's table with that of the one that serves."""
        with failures():
            found = compare_generations(load_pipeline(loaded.path))
        context.add_output_metadata(metadata.comparison(found))
        context.log.info(
            f"{found.candidate} beside {found.serving}: {found.gone:,} rows gone, "
            f"{found.added:,} added, {found.changed:,} changed"
        )

    return compare


def _promote(loaded: LoadedPipeline) -> Callable[..., None]:
    def promote(context: dg.OpExecutionContext) -> None:
        """Lets readers see the newest generation, in one commit."""
        with failures():
            _say(context, promotion.promote(load_pipeline(loaded.path)))

    return promote


def _roll_back(loaded: LoadedPipeline) -> Callable[..., None]:
    def roll_back(context: dg.OpExecutionContext) -> None:
        """Lets readers see the generation again that served before."""
        with failures():
            _say(context, promotion.roll_back(load_pipeline(loaded.path)))

    return roll_back


def _discard(loaded: LoadedPipeline) -> Callable[..., None]:
    def remove(context: dg.OpExecutionContext) -> None:
        """Ends and removes the newest generation, which was never promoted, and its table."""
        with failures():
            name = discard(load_pipeline(loaded.path))
        context.log.info(f"Generation {name} is removed")

    return remove


def _rerun(loaded: LoadedPipeline) -> Callable[..., None]:
    def again(context: dg.OpExecutionContext, config: RerunConfig) -> None:
        """Makes the table anew as a new generation, catches up, compares, and lets it serve."""
        with failures():
            served = rerun(
                load_pipeline(loaded.path),
                promote=config.promote is Promote.CHECKS,
                rows_at_least=config.rows_at_least,
                say=context.log.info,
            )
            _say(context, served)

    return again


def _say(context: dg.OpExecutionContext, serving: Serving) -> None:
    before = [each.generation for each in serving.before]
    back = f"; {before[-1]} can be gone back to" if before else ""
    context.log.info(f"Readers see generation {serving.generation}{back}")
