"""How long it takes: from what runs of the same pipeline have told; nothing is invented."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict

from sources.common.positions import Record
from sources.common.state import Folder, Generation
from sources.config.loader import LoadedPipeline
from sources.config.spark_settings import SparkSettings
from sources.errors import StateError
from sources.generations import generations
from sources.hybrid import Boundedness
from sources.planning.plan import Plan
from spark_jobs.run_state.progress_log import ProgressLog, Sample, Unit, progress_log_name

R = TypeVar("R", bound=Record)
_WINDOW_MS = 300_000
"""What a forecast of a run looks back on: older samples say little of its pace now."""
# https://spark.apache.org/docs/latest/running-on-yarn.html and running-on-kubernetes.html
_DEFAULT_EXECUTORS = 2


class Estimate(BaseModel):
    """What the bounded part of a plan will take.

    Attributes:
        seconds: Time to read all that is planned; None if unknown.
        executor_hours: The same times the number of executors; None if either is unknown.
        basis: What it rests on, or why it is unknown, in words.
    """

    model_config = ConfigDict(frozen=True)

    seconds: float | None
    executor_hours: float | None
    basis: str


class Measured(NamedTuple):
    """How fast a source was read.

    Attributes:
        per_s: Units by second, over all of its launches.
        generation: Which one.
    """

    per_s: float
    generation: str


def estimate(loaded: LoadedPipeline, generation: Generation, plan: Plan) -> Estimate:
    """What the bounded sources of a plan will take, by the latest run of each that tells.

    Args:
        loaded: The pipeline.
        generation: The plan's; it and those before it are looked at, the newest first.
        plan: The plan.
    """
    amounts = planned_amounts(plan)
    total, told = 0.0, []
    for source in loaded.pipeline.sources:
        if source.boundedness is not Boundedness.BOUNDED:
            continue
        unit, amount = amounts[source.name]
        found = _measured(loaded, generation, source.name, unit)
        if found is None:
            basis = f"no run has told yet how fast `{source.name}` is read"
            return Estimate(seconds=None, executor_hours=None, basis=basis)
        total += amount / found.per_s
        told.append(f"`{source.name}` at {found.per_s:,.0f} {unit}/s as in {found.generation}")
    if not told:
        return Estimate(seconds=None, executor_hours=None, basis="no source of it has an end")
    executors = executors_of(loaded.pipeline.spark)
    hours = None if executors is None else total / 3600 * executors
    return Estimate(seconds=total, executor_hours=hours, basis=", ".join(told))


def planned_amounts(plan: Plan) -> dict[str, tuple[Unit, int]]:
    """How much is planned of each bounded source, in what its runs are counted in."""
    found: dict[str, tuple[Unit, int]] = {
        part.source: ("splits", part.splits) if part.rows is None else ("rows", part.rows)
        for part in plan.files
    }
    for topic in plan.topics:
        if topic.range is not None:
            found[topic.source] = ("splits", topic.range.batches)
    return found


def executors_of(spark: SparkSettings) -> int | None:
    """How many executors a run has, as declared; None where that changes or is not declared."""
    if spark.master.startswith("local"):
        return 1
    if spark.conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return None
    declared = spark.conf.get("spark.executor.instances", "")
    if declared.isdigit():
        return int(declared)
    return None if spark.master.startswith("spark://") else _DEFAULT_EXECUTORS


def rate(log: ProgressLog) -> float | None:
    """Units by second over all launches, without the time between them; None if unknown."""
    done, spent_ms = 0, 0
    for before, after in _pairs(log.samples):
        done += after.done - before.done
        spent_ms += after.at_ms - before.at_ms
    return done / spent_ms * 1000 if done > 0 and spent_ms > 0 else None


def eta_s(log: ProgressLog | None) -> float | None:
    """Seconds until nothing is left, at the pace of the last minutes of the last launch.

    Returns:
        None if what is left does not get less, or nobody knows how much it is.
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


def duration(seconds: float) -> str:
    """A time as people say it: its two largest units."""
    left = round(seconds)
    parts = []
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2]) or "less than 1 s"


def describe(found: Estimate) -> str:
    """An estimate in one line."""
    if found.seconds is None:
        return f"unknown: {found.basis}"
    hours = "" if found.executor_hours is None else f", {found.executor_hours:,.2f} executor-hours"
    return f"{duration(found.seconds)}{hours} ({found.basis})"


def earlier_generations(loaded: LoadedPipeline, generation: Generation) -> list[Generation]:
    """Generations of a pipeline that are older than one, the newest first."""
    created_ms = generation.info.created_ms
    return [each for each in reversed(generations(loaded)) if each.info.created_ms < created_ms]


def read_earlier(folder: Folder, name: str, kind: type[R]) -> R | None:
    """A document of an earlier generation; None if there is none, or this program can't read it.

    It is looked at for comparison only, so one that another version wrote is no error.
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
    """Each sample of a launch and the next one of the same."""
    for before, after in pairwise(samples):
        if before.launch_id == after.launch_id:
            yield before, after
