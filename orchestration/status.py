"""Where a pipeline stands, from its state folder and the topic; nothing is changed."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from orchestration import chain
from sources.document import LoadedPipeline
from sources.errors import InputError
from sources.hybrid import Boundedness, HybridSplitEnumerator
from sources.kafka import KafkaLog
from sources.kafka_source import KafkaSource
from sources.plan import Plan
from sources.state import Generation
from spark_jobs import process
from spark_jobs.heartbeat import Heartbeat, read_heartbeat
from spark_jobs.launch import ALIVE, find_run

SourceState = Literal["waiting", "starting", "running", "finished", "stopped", "failed", "dead"]


class SourceStatus(BaseModel):
    """How far one source is.

    Attributes:
        state: ``waiting`` before its turn; ``dead`` if it should run but its process is gone.
        heartbeat: Its run's latest word.
        lag: Unbounded: records of a topic, or splits found in a folder, that are not committed
            yet; None if the broker does not answer.
    """

    source: str
    state: SourceState
    heartbeat: Heartbeat | None = None
    lag: int | None = None


class Status(BaseModel):
    """Where a pipeline stands.

    Attributes:
        planned: Whether its plan was made.
        healthy: False if a run failed or is dead.
    """

    pipeline: str
    generation: str | None
    planned: bool
    healthy: bool
    sources: list[SourceStatus]


def status(loaded: LoadedPipeline) -> Status:
    """Look at a pipeline's state, its processes and its topic."""
    generation = loaded.open_generation(create=False)
    sources = [
        _source_status(loaded, generation, source.name) for source in loaded.pipeline.sources
    ]
    return Status(
        pipeline=loaded.pipeline.name,
        generation=generation.info.generation if generation else None,
        planned=generation is not None and generation.read("plan.json", Plan) is not None,
        healthy=all(source.state not in ("failed", "dead") for source in sources),
        sources=sources,
    )


def _source_status(
    loaded: LoadedPipeline, generation: Generation | None, name: str
) -> SourceStatus:
    if generation is None:
        return SourceStatus(source=name, state="waiting")
    beat = read_heartbeat(generation, name)
    source = loaded.pipeline.source(name)
    lag = None
    is_live = source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    if isinstance(source, KafkaSource) and is_live and beat is not None:
        try:
            lag = chain.lag(beat, KafkaLog(source), loaded)
        except InputError:
            lag = None
    elif is_live and beat is not None and beat.splits_total is not None:
        lag = beat.splits_total - (beat.splits_done or 0)
    state = _state(loaded, generation, name, beat)
    return SourceStatus(source=name, state=state, heartbeat=beat, lag=lag)


def _state(
    loaded: LoadedPipeline, generation: Generation, name: str, beat: Heartbeat | None
) -> SourceState:
    enumerator = HybridSplitEnumerator(loaded.pipeline.hybrid_source(), generation)
    if enumerator.end_of(name) is not None:
        return "finished"
    run = find_run(generation, name)
    if run is not None and run.beat() is None:
        return "starting"
    if beat is None:
        return "waiting"
    if beat.state in ALIVE and process.find_running(generation, name) is None:
        return "dead"
    return beat.state
