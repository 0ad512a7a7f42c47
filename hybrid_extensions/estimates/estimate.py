"""Estimate of a plan's time: by earlier runs' rates, else a guess by benchmarks and limits.

By the rates of earlier runs of the same pipeline; for a source that has none, a cautious guess by
the speeds that the project's benchmarks measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hybrid_extensions.estimates.benchmarked_speeds import (
    CHANGES_PER_S,
    FILE_SPEEDS,
    MERGED_ROWS_PER_S,
    RECORDS_PER_S,
    SPARK_START_S,
    Work,
)
from hybrid_extensions.estimates.cores import cores_of, executors_of
from orchestration.progress.earlier_generations import earlier_generations, read_earlier
from orchestration.progress.expected_time import Estimate, computes_rows
from orchestration.progress.forecast import rate
from sources.common.counting import counted
from sources.common.durations import duration
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.hybrid import Boundedness
from sources.planning.files.file_plan import FilePlan
from sources.planning.plan import Plan
from sources.planning.topics.topic_plan import RangePlan
from sources.state.generation import Generation
from spark_jobs.run_state.progress_log import ProgressLog, Unit, progress_log_name

_UNKNOWN_CORES = 2
"""Cores that are counted on where the settings of a cluster do not tell how many there are."""


class Measured(NamedTuple):
    """Measured rate of a source.

    Attributes:
        per_s: Units per second, over all launches of the source.
        generation: Name of the generation in which it was measured.
    """

    per_s: float
    generation: str


def estimate(
    loaded: LoadedPipeline, generation: Generation, plan: Plan, batches: Mapping[str, int]
) -> Estimate:
    """Estimate how long a plan's bounded sources take, including Spark's start.

    Without a bounded source its seconds are None. A source for which no earlier run has a rate is
    guessed.

    Args:
        loaded: The pipeline.
        generation: The plan's generation; rates are taken from it and from earlier ones, the newest
            first.
        plan: The plan.
        batches: Number of micro-batches of each bounded file source, by name; they matter only
            where no earlier rate is known.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    pipeline = loaded.pipeline
    amounts = _planned_amounts(plan)
    total, measured, guessed = 0.0, [], []
    for source in pipeline.sources:
        if source.boundedness is not Boundedness.BOUNDED:
            continue
        unit, amount = amounts[source.name]
        found = _measured(loaded, generation, source.name, unit)
        if found is None:
            total += guess(pipeline, plan, source, batches.get(source.name, 1))
            guessed.append(_format_of(source))
        else:
            total += amount / found.per_s
            # Less than half a unit a second is no speed that a person could check.
            speed = f"at {found.per_s:,.0f} {unit}/s " if found.per_s >= 0.5 else ""
            measured.append(f"`{source.name}` {speed}as in {found.generation}")
    reads = len(measured) + len(guessed)
    if not reads:
        return Estimate(
            seconds=None,
            executor_hours=None,
            is_guess=False,
            basis="the pipeline has no bounded source",
        )
    start_s = SPARK_START_S * (1 if pipeline.switch == "warm" else reads)
    total += start_s
    if guessed:
        formats = " and ".join(dict.fromkeys(guessed))
        what = f"a guess from the benchmarks for {formats} on {_cores_in_words(pipeline)}"
        measured.append(what)
    executors = executors_of(pipeline.spark)
    return Estimate(
        seconds=total,
        executor_hours=None if executors is None else total / 3600 * executors,
        is_guess=bool(guessed),
        basis=f"{', '.join(measured)}, with {duration(start_s)} for Spark's start",
    )


def guess(pipeline: Pipeline, plan: Plan, source: FileSource | KafkaSource, batches: int) -> float:
    """Return how many seconds a bounded source takes, by the benchmarks and its declared limits.

    For a source that no earlier run has measured; without Spark's start.

    Args:
        pipeline: The pipeline's declaration.
        plan: The plan, which has the source.
        source: The bounded source.
        batches: Number of its micro-batches, if it reads files.
    """
    if isinstance(source, FileSource):
        part = plan.files_of(source.name)
        return max(_work_of_files(pipeline, plan, part, batches).seconds, _limited(source, part))
    planned = plan.topic_of(source.name).range
    return 0.0 if planned is None else _guess_topic(pipeline, plan, source, planned)


def _work_of_files(pipeline: Pipeline, plan: Plan, part: FilePlan, batches: int) -> Work:
    """Return the work of a file source; its bytes count as rows of the benchmarks' width."""
    speed = FILE_SPEEDS[part.format]
    records = max(part.rows or 0, part.bytes / speed.bytes_per_row)
    per_s = _merged_at_most(pipeline, plan, speed.rows_per_s)
    return Work(records, batches, per_s, _cores(pipeline))


def _limited(source: FileSource, part: FilePlan) -> float:
    """Return the seconds that the declared rate limit of a file source enforces; 0 without one."""
    limit = source.rate
    amounts = ((part.bytes, limit.bytes), (part.splits, limit.files), (part.rows, limit.rows))
    return max((amount / most for amount, most in amounts if amount and most), default=0.0)


def _guess_topic(pipeline: Pipeline, plan: Plan, source: KafkaSource, planned: RangePlan) -> float:
    measured = RECORDS_PER_S if source.value.changes is None else CHANGES_PER_S
    per_s = _merged_at_most(pipeline, plan, measured)
    # One task reads one partition.
    cores = max(min(_cores(pipeline), len(planned.ends)), 1)
    work = Work(planned.offsets, planned.batches, per_s, cores)
    most = source.rate.offsets
    return max(work.seconds, planned.offsets / most if most else 0.0)


def _merged_at_most(pipeline: Pipeline, plan: Plan, per_s: float) -> float:
    """Return the speed with which rows of the input are read and reach the target."""
    is_merged = pipeline.sink.mode == "merge" and not computes_rows(pipeline, plan)
    return min(per_s, MERGED_ROWS_PER_S) if is_merged else per_s


def _format_of(source: FileSource | KafkaSource) -> str:
    if isinstance(source, FileSource):
        return FILE_SPEEDS[source.format].measured
    return f"a topic of {source.value.title}"


def _cores(pipeline: Pipeline) -> int:
    return cores_of(pipeline.spark) or _UNKNOWN_CORES


def _cores_in_words(pipeline: Pipeline) -> str:
    cores = _cores(pipeline)
    declared = "" if cores_of(pipeline.spark) else " (the cluster's are not declared)"
    return f"{counted(cores, 'core')}{declared}"


def _planned_amounts(plan: Plan) -> dict[str, tuple[Unit, int]]:
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


def _measured(
    loaded: LoadedPipeline, generation: Generation, source: str, unit: Unit
) -> Measured | None:
    for folder in [generation, *earlier_generations(loaded, generation)]:
        log = read_earlier(folder, progress_log_name(source), ProgressLog)
        if log is not None and log.unit == unit and (per_s := rate(log)) is not None:
            return Measured(per_s, folder.name)
    return None
