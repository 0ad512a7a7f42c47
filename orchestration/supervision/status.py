"""Where a pipeline stands, from its state folder and the topic; nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

from pydantic import BaseModel

from orchestration import chain
from orchestration.progress.forecast import eta_s
from orchestration.requested_state import Watch, read_wanted, read_watch
from orchestration.supervision.health import Seen, SlotSeen, Verdict, behind_since, judge
from sources.common.positions import now_ms, span_ms
from sources.common.state import Generation
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.databases.replication_slot import SlotGone, ask_slot, slot_gone, watched_slot
from sources.errors import InputError, UnavailableError
from sources.generations import in_service, read_serving
from sources.hybrid import Boundedness, SwitchState
from sources.kafka.client import KafkaLog
from sources.planning.approval import find_approval
from sources.planning.plan import Plan
from spark_jobs.checkpoint.transform_history import last_change
from spark_jobs.launch import process
from spark_jobs.launch.runs import ALIVE, find_run, last_launch, why_ended
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from spark_jobs.run_state.progress_log import read_progress_log

SourceState = Literal[
    "waiting", "starting", "running", "silent", "finished", "stopped", "failed", "dead"
]


class SourceStatus(BaseModel):
    """How far one source is.

    Attributes:
        state: ``waiting`` before its turn; ``dead`` if it should run but its process is gone;
            ``silent`` if that is there, has an end to come to, and says nothing (of one without
            an end, the verdict tells).
        heartbeat: Its run's latest word.
        lag: Unbounded: records of a topic, or splits found in a folder, that are not committed
            yet; None if the broker does not answer.
        eta_s: Seconds until nothing of it is left, at its pace; None if it does not run, or that
            can't be told.
    """

    source: str
    state: SourceState
    heartbeat: Heartbeat | None = None
    lag: int | None = None
    eta_s: float | None = None


class Status(BaseModel):
    """Where a pipeline stands.

    Attributes:
        planned: Whether its plan was made.
        waits_for_approval: Whether that plan waits for a person.
        healthy: False if a run failed, is dead or silent, or the live run is red.
        live: How well the live run does; None if nobody asked for it yet.
        transform_changed: What is told of a transform that changed under the checkpoint.
        serving: Name of the generation whose rows readers see.
        served_by: Where that one stands, if it is not this one; its health counts too.
    """

    pipeline: str
    generation: str | None
    serving: str
    served_by: Status | None = None
    planned: bool
    waits_for_approval: bool = False
    healthy: bool
    sources: list[SourceStatus]
    live: Verdict | None = None
    transform_changed: str | None = None


class Look(NamedTuple):
    """The live run at one moment: how well it does, and what is to be remembered of it."""

    verdict: Verdict
    watch: Watch
    now_ms: int
    slot_gone: SlotGone | None = None


def status(loaded: LoadedPipeline) -> Status:
    """Look at a pipeline's state, its processes and its topic."""
    generation = loaded.open_generation(create=False)
    sources = [
        _source_status(loaded, generation, source.name) for source in loaded.pipeline.sources
    ]
    found = None if generation is None else look_at_live(loaded, generation, sources[-1])
    live = None if found is None else found.verdict
    is_planned = generation is not None and generation.read("plan.json", Plan) is not None
    waits = loaded.pipeline.approve and is_planned
    if waits and generation is not None:
        waits = find_approval(generation) is None
    judged = sources if live is None else sources[:-1]
    others = in_service(loaded)[1:] if loaded.kept is None else []
    served_by = status(others[0]) if others else None
    return Status(
        pipeline=loaded.pipeline.name,
        generation=generation.info.generation if generation else None,
        planned=is_planned,
        waits_for_approval=waits,
        healthy=all(source.state not in ("failed", "dead", "silent") for source in judged)
        and not (live is not None and live.is_red)
        and (served_by is None or served_by.healthy),
        serving=read_serving(loaded).generation,
        served_by=served_by,
        sources=sources,
        live=live,
        transform_changed=None if generation is None else last_change(generation),
    )


def look_at_live(
    loaded: LoadedPipeline, generation: Generation, found: SourceStatus | None = None
) -> Look | None:
    """Look at the live run alone; None if nobody asked for it yet.

    Args:
        loaded: The pipeline.
        generation: Its state.
        found: How far its source is; looked up if left out.
    """
    if (wanted := read_wanted(generation)) is None:
        return None
    name, expected = loaded.pipeline.sources[-1].name, loaded.pipeline.supervision
    lag = (found or _source_status(loaded, generation, name)).lag
    # After the look at the broker, which takes its time.
    looked_ms = now_ms()
    launch = last_launch(generation)
    launch = launch if launch is not None and launch.source == name else None
    running = process.find_running(generation, name)
    beat = running or read_heartbeat(generation, name)
    if running is None and beat is not None and launch is not None:
        # What an earlier launch said last says nothing of this one.
        beat = beat if beat.launch_id == launch.launch_id else None
    launch_id = beat.launch_id if beat is not None else launch and launch.launch_id
    batch_id = beat.batch_id if beat is not None else None

    watch = read_watch(generation, wanted.at_ms)
    is_where_it_was = (watch.launch_id, watch.batch_id) == (launch_id, batch_id)
    before_ms = watch.behind_since_ms if is_where_it_was else None
    behind_ms = behind_since(beat, lag, before_ms, looked_ms)
    window_ms = looked_ms - span_ms(expected.restarts.within)
    restarts = [restart for restart in watch.restarts if restart.at_ms > window_ms]
    gone, slot = _look_at_slot(loaded, generation, watch.slot_idle_since_ms, looked_ms)
    is_alive = running is not None or find_run(generation, name) is not None
    seen = Seen(
        wanted_ms=wanted.at_ms if wanted.is_wanted else None,
        is_alive=is_alive,
        launched_ms=None if launch is None else launch.at_ms,
        beat=beat,
        lag=lag,
        behind_since_ms=behind_ms,
        ended=None if is_alive else why_ended(generation, name),
        restarts=len(restarts),
        last_failure=restarts[-1].why if restarts else None,
        gave_up=watch.gave_up,
        paused_ms=wanted.at_ms if wanted.is_paused else None,
        paused_why=wanted.why,
        obstacle=generation.obstacle(),
        slot=slot,
    )
    verdict = judge(seen, expected, looked_ms)
    down_ms = None
    if verdict.down is not None:
        known_ms = watch.down_since_ms if watch.launch_id == launch_id else None
        down_ms = looked_ms if known_ms is None else known_ms
    changes = {
        "launch_id": launch_id,
        "batch_id": batch_id,
        "behind_since_ms": behind_ms,
        "down_since_ms": down_ms,
        "restarts": restarts,
        "slot_idle_since_ms": None if slot is None else slot.idle_since_ms,
    }
    return Look(verdict, watch.model_copy(update=changes), looked_ms, gone)


def _look_at_slot(
    loaded: LoadedPipeline, generation: Generation, idle_since_ms: int | None, looked_ms: int
) -> tuple[SlotGone | None, SlotSeen | None]:
    """What is to be remembered and what is seen of the slot that changes come through.

    Args:
        loaded: The pipeline.
        generation: Remembers that the slot was gone.
        idle_since_ms: Since when it was seen idle, if it was at the last look.
        looked_ms: Now.
    """
    if (options := watched_slot(loaded)) is None:
        return None, None
    slot = ask_slot(options)
    gone = slot_gone(generation, options, slot)
    seen = SlotSeen(gone=None if gone is None else str(gone))
    if isinstance(slot, str):
        return gone, replace(seen, unknown=slot, idle_since_ms=idle_since_ms)
    is_idle = slot.state == "idle"
    return gone, replace(
        seen,
        idle_since_ms=(idle_since_ms or looked_ms) if is_idle else None,
        retained_bytes=slot.retained_bytes,
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
        except (InputError, UnavailableError):
            lag = None
    elif is_live and beat is not None and beat.splits_total is not None:
        lag = beat.splits_total - (beat.splits_done or 0)
    state = _state(loaded, generation, name, beat)
    left = eta_s(read_progress_log(generation, name)) if state == "running" else None
    return SourceStatus(source=name, state=state, heartbeat=beat, lag=lag, eta_s=left)


def _state(
    loaded: LoadedPipeline, generation: Generation, name: str, beat: Heartbeat | None
) -> SourceState:
    enumerator = SwitchState(loaded.pipeline.hybrid_source(), generation)
    if enumerator.end_of(name) is not None:
        return "finished"
    run = find_run(generation, name)
    if run is not None and run.beat() is None:
        return "starting"
    if beat is None:
        return "waiting"
    if beat.state in ALIVE and process.find_running(generation, name) is None:
        return "dead"
    is_bounded = loaded.pipeline.source(name).boundedness is Boundedness.BOUNDED
    is_silent = now_ms() - beat.at_ms >= span_ms(loaded.pipeline.supervision.stuck_after)
    if is_bounded and beat.state in ALIVE and is_silent:
        return "silent"
    return beat.state
