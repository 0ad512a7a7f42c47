"""Generations in Dagster: a job for each command, and scheduled reruns."""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from orchestration.audit.compare_generations import compare_generations
from orchestration.defs import generation_metadata
from orchestration.defs.failures import failures
from orchestration.defs.jobs import job_of
from orchestration.defs.schedules import schedule
from orchestration.generations import promotion
from orchestration.generations.lifecycle import discard, rerun
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.reruns import Rerun
from sources.generations import begin
from sources.serving import Serving


class Promote(Enum):
    """Choice of the launch form: whether a rerun is promoted without a person."""

    CHECKS = "checks"
    NEVER = "never"


class RerunConfig(dg.Config):
    """Launch form of a rerun."""

    promote: Promote = Field(
        default=Promote.CHECKS,
        description="CHECKS: promote it once it has caught up, is healthy and has enough rows. "
        "NEVER: leave the promotion to a person.",
    )
    rows_at_least: float = Field(
        default=0.99, description="Fewest rows, as a fraction of those of the serving generation."
    )


def generation_jobs(loaded: LoadedPipeline) -> dict[str, dg.JobDefinition]:
    """Return the jobs that correspond to ``hybrid generation …`` and ``hybrid rerun``.

    Returns:
        Jobs by the last part of their names: ``new_generation``, ``compare``, ``promote``,
        ``rollback``, ``abort``, ``discard`` and ``rerun``.
    """
    made: dict[str, Callable[..., None]] = {
        "new_generation": _new(loaded),
        "compare": _compare(loaded),
        "promote": _promote(loaded),
        "rollback": _roll_back(loaded),
        "abort": _abort(loaded),
        "discard": _discard(loaded),
        "rerun": _rerun(loaded),
    }
    return {command: job_of(loaded, command, op) for command, op in made.items()}


def finish_job(loaded: LoadedPipeline) -> dg.JobDefinition:
    """Return the job with which the sensor completes an interrupted promotion or rollback."""

    def finish(context: dg.OpExecutionContext) -> None:
        """Complete an interrupted promotion or rollback. The supervision launches this job."""
        with failures():
            done = promotion.finish(load_pipeline(loaded.path))
        context.log.info("Completed." if done else "No promotion or rollback was under way.")

    return job_of(loaded, "finish", finish)


def rerun_schedules(loaded: LoadedPipeline, job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    """Return the schedules that ``generations.reruns`` declares; empty if there are none.

    Each tick recomputes the whole table as a new generation, or resumes one that waits.

    Args:
        loaded: The pipeline.
        job: The job ``<name>_rerun``.
    """
    return [
        schedule(loaded, each, job, partial(_form, job.name, each))
        for each in loaded.pipeline.generations.reruns
    ]


def _form(job: str, declared: Rerun) -> dict[str, Any]:
    config = {"promote": declared.promote.upper(), "rows_at_least": declared.rows_at_least}
    return {"run_config": {"ops": {f"do_{job}": {"config": config}}}}


def _new(loaded: LoadedPipeline) -> Callable[..., None]:
    def new(context: dg.OpExecutionContext) -> None:
        """Begin a new generation with the present pipeline file. The serving one is not touched."""
        with failures():
            made = begin(load_pipeline(loaded.path))
        context.log.info(
            f"Generation {made.name} has begun. Materialize the chain to compute its table, "
            f"compare the table (job `{loaded.pipeline.name}_compare`), then promote it (job "
            f"`{loaded.pipeline.name}_promote`)."
        )

    return new


def _compare(loaded: LoadedPipeline) -> Callable[..., None]:
    def compare(context: dg.OpExecutionContext) -> None:
        """Compare the newest generation's table with that of the serving one, row by row."""
        with failures():
            found = compare_generations(load_pipeline(loaded.path))
        context.add_output_metadata(generation_metadata.comparison(found))
        context.log.info(
            f"{found.candidate} compared with {found.serving}, which serves: {found.missing:,} "
            f"rows missing, {found.added:,} added, {found.changed:,} changed."
        )

    return compare


def _promote(loaded: LoadedPipeline) -> Callable[..., None]:
    def promote(context: dg.OpExecutionContext) -> None:
        """Switch readers to the newest generation, in one commit."""
        with failures():
            _say(context, promotion.promote(load_pipeline(loaded.path)))

    return promote


def _roll_back(loaded: LoadedPipeline) -> Callable[..., None]:
    def roll_back(context: dg.OpExecutionContext) -> None:
        """Switch readers back to the generation that served before."""
        with failures():
            _say(context, promotion.roll_back(load_pipeline(loaded.path)))

    return roll_back


def _abort(loaded: LoadedPipeline) -> Callable[..., None]:
    def abort(context: dg.OpExecutionContext) -> None:
        """Give up a promotion or rollback that is not committed; what it stopped starts again."""
        with failures():
            switch = promotion.abort(load_pipeline(loaded.path))
        context.log.info(
            "No promotion or rollback is under way."
            if switch is None
            else f"The {switch.kind} of generation {switch.to} is given up; {switch.past} serves."
        )

    return abort


def _discard(loaded: LoadedPipeline) -> Callable[..., None]:
    def remove(context: dg.OpExecutionContext) -> None:
        """Stop the newest generation, which was never promoted, and delete it with its table."""
        with failures():
            name = discard(load_pipeline(loaded.path))
        context.log.info(f"Generation {name} was deleted.")

    return remove


def _rerun(loaded: LoadedPipeline) -> Callable[..., None]:
    def again(context: dg.OpExecutionContext, config: RerunConfig) -> None:
        """Rebuild the table as a new generation, catch up, compare, and promote it."""
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
    back = f" A rollback returns to {before[-1]}." if before else ""
    context.log.info(f"Readers see generation {serving.generation}.{back}")
