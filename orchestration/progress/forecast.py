"""Forecasts of run times, from the progress of earlier runs of the same pipeline only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict

from orchestration.display import duration
from sources.common.positions import Record
from sources.config.loader import LoadedPipeline
from sources.config.spark_settings import SparkSettings
from sources.errors import StateError
from sources.generations import generations
from sources.hybrid import Boundedness
from sources.planning.plan import Plan
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.run_state.progress_log import ProgressLog, Sample, Unit, progress_log_name

R = TypeVar("R", bound=Record)
_WINDOW_MS = 300_000
"""Period that a forecast of a run is based on; older samples say little about its present rate."""
# https://spark.apache.org/docs/latest/running-on-yarn.html and running-on-kubernetes.html
_DEFAULT_EXECUTORS = 2


class Estimate(BaseModel):
    """Estimate of what the bounded sources of a plan will take.

    Attributes:
        seconds: Time to read all that is planned; None if unknown.
        executor_hours: That time multiplied by the number of executors; None if either is unknown.
        basis: What the estimate is based on, or why it is unknown, as a phrase.
    """

    model_config = ConfigDict(frozen=True)

    seconds: float | None
    executor_hours: float | None
    basis: str


class Measured(NamedTuple):
    """Measured rate of a source.

    Attributes:
        per_s: Units per second, over all launches of the source.
        generation: Name of the generation in which it was measured.
    """

    per_s: float
    generation: str


def estimate(loaded: LoadedPipeline, generation: Generation, plan: Plan) -> Estimate:
    """Estimate how long the bounded sources of a plan take, from the latest measured rate of each.

    The estimate is unknown if the rate of one of them was never measured.

    Args:
        loaded: The pipeline.
        generation: The plan's generation; rates are taken from it and from earlier ones, the
            newest first.
        plan: The plan.
    """
    amounts = planned_amounts(plan)
    total, rates = 0.0, []
    for source in loaded.pipeline.sources:
        if source.boundedness is not Boundedness.BOUNDED:
            continue
        unit, amount = amounts[source.name]
        found = _measured(loaded, generation, source.name, unit)
        if found is None:
            basis = f"no run has reported yet how fast `{source.name}` is read"
            return Estimate(seconds=None, executor_hours=None, basis=basis)
        total += amount / found.per_s
        rates.append(f"`{source.name}` at {found.per_s:,.0f} {unit}/s as in {found.generation}")
    if not rates:
        return Estimate(
            seconds=None, executor_hours=None, basis="the pipeline has no bounded source"
        )
    executors = executors_of(loaded.pipeline.spark)
    hours = None if executors is None else total / 3600 * executors
    return Estimate(seconds=total, executor_hours=hours, basis=", ".join(rates))


def planned_amounts(plan: Plan) -> dict[str, tuple[Unit, int]]:
    """Return how much each bounded source has to read: number and unit, by name of the source.

    The unit, that of the source's progress log, is rows where the plan knows them, else splits; a
    topic's splits are the micro-batches that it is read in.
    """
    found: dict[str, tuple[Unit, int]] = {
        part.source: ("splits", part.splits) if part.rows is None else ("rows", part.rows)
        for part in plan.files
    }
    for topic in plan.topics:
        if topic.range is not None:
            found[topic.source] = ("splits", topic.range.batches)
    return found


def executors_of(spark: SparkSettings) -> int | None:
    """Return the number of Spark executors, for the executor-hours of an estimate.

    Returns:
        1 for a local master; ``spark.executor.instances``; 2, Spark's default, if that is left out
        on YARN or Kubernetes; None with dynamic allocation, and on a standalone cluster that does
        not declare it.
    """
    if spark.master.startswith("local"):
        return 1
    if spark.conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return None
    declared = spark.conf.get("spark.executor.instances", "")
    if declared.isdigit():
        return int(declared)
    return None if spark.master.startswith("spark://") else _DEFAULT_EXECUTORS


def rate(log: ProgressLog) -> float | None:
    """Return the units per second that a source was read at, over all launches.

    Time between two launches does not count.

    Returns:
        None if the log has no two samples of one launch with progress between them.
    """
    done, spent_ms = 0, 0
    for before, after in _pairs(log.samples):
        done += after.done - before.done
        spent_ms += after.at_ms - before.at_ms
    return done / spent_ms * 1000 if done > 0 and spent_ms > 0 else None


def eta_s(log: ProgressLog | None) -> float | None:
    """Return the seconds until nothing of a source is left, at the rate of the last five minutes.

    Args:
        log: The source's progress log; only its last launch counts. None if there is no log.

    Returns:
        0 if nothing is left; None if the remaining amount does not decrease, or is unknown.
    """
    if log is None or not log.samples:
        return None
    last = log.samples[-1]
    recent = [
        each
        for each in log.samples
        if each.launch_id == last.launch_id
        and each.left is not None
        and last.at_ms - each.at_ms <= _WINDOW_MS
    ]
    if last.left == 0:
        return 0.0
    if last.left is None or recent[0].left is None:
        return None
    gained, spent_ms = recent[0].left - last.left, last.at_ms - recent[0].at_ms
    return last.left * spent_ms / gained / 1000 if gained > 0 and spent_ms > 0 else None


def describe(found: Estimate) -> str:
    """Return an estimate in words: time, executor-hours where known, and what it is based on."""
    if found.seconds is None:
        return f"unknown: {found.basis}"
    hours = "" if found.executor_hours is None else f", {found.executor_hours:,.2f} executor-hours"
    return f"{duration(found.seconds)}{hours} ({found.basis})"


def earlier_generations(loaded: LoadedPipeline, generation: Generation) -> list[Generation]:
    """Return the generations of a pipeline that are older than the given one, the newest first."""
    created_ms = generation.info.created_ms
    return [each for each in reversed(generations(loaded)) if each.info.created_ms < created_ms]


def read_earlier(folder: Folder, name: str, kind: type[R]) -> R | None:
    """Return a state document of an earlier generation, for a comparison. Raises nothing.

    Args:
        folder: State folder of the generation.
        name: Name of the document, such as ``plan.json``.
        kind: Its type.

    Returns:
        None if it is missing, damaged, or of another version of this package.
    """
    try:
        return folder.read(name, kind)
    except StateError:
        return None


def _measured(
    loaded: LoadedPipeline, generation: Generation, source: str, unit: Unit
) -> Measured | None:
    for folder in [generation, *earlier_generations(loaded, generation)]:
        log = read_earlier(folder, progress_log_name(source), ProgressLog)
        if log is not None and log.unit == unit and (per_s := rate(log)) is not None:
            return Measured(per_s, folder.name)
    return None


def _pairs(samples: list[Sample]) -> Iterator[tuple[Sample, Sample]]:
    """Yield each sample together with the next one of the same launch."""
    for before, after in pairwise(samples):
        if before.launch_id == after.launch_id:
            yield before, after
