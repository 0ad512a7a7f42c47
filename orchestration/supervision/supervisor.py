"""Supervision of the live run: what is done about what is seen, one look at a time."""

from __future__ import annotations

from typing import NamedTuple

from orchestration import chain
from orchestration.requested_state import Restart, Watch, require_wanted, write_watch
from orchestration.supervision.health import RED, Verdict
from orchestration.supervision.status import Look, look_at_live
from orchestration.supervision.webhook import post
from sources.common.positions import iso, span_ms
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.config.supervision import Supervision
from sources.databases.replication_slot import keep_gone
from sources.planning.context import PipelineContext
from spark_jobs.launch import process
from spark_jobs.run_state.heartbeat import Heartbeat


class Tick(NamedTuple):
    """What came of one look.

    Attributes:
        verdict: How well the live run does.
        restart: A restart that is due now; written down, so that it is asked for once.
        alert_problem: Why the webhook could not be told; it is tried again at the next look.
    """

    verdict: Verdict
    restart: Restart | None
    alert_problem: str | None


def tick(loaded: LoadedPipeline) -> Tick | None:
    """Look at the live run, decide, and write down what was decided.

    Returns:
        None if nobody asked for it yet.

    Raises:
        StateError: The state can't be read.
    """
    generation = loaded.open_generation(create=False)
    look = None if generation is None else look_at_live(loaded, generation)
    if generation is None or look is None:
        return None
    if look.slot_gone is not None:
        keep_gone(generation, look.slot_gone)
    watch, restart = decide(look, loaded.pipeline.supervision)
    # Before anybody acts on it.
    write_watch(generation, watch)
    told, problem = _alert(loaded, look, watch)
    write_watch(generation, told)
    return Tick(look.verdict, restart, problem)


def decide(look: Look, expected: Supervision) -> tuple[Watch, Restart | None]:
    """Whether a restart is due, and what is to be remembered. Pure.

    An end is answered after a pause that grows with each restart within the window; a run that is
    stuck gets the time to get over it. Beyond the limit nothing is done until people act.
    """
    verdict, watch, now_ms = look.verdict, look.watch, look.now_ms
    if verdict.down is None or watch.gave_up:
        return watch, None
    assert watch.down_since_ms is not None
    count, last = len(watch.restarts), watch.restarts[-1] if watch.restarts else None
    is_under_way = (
        last is not None
        and last.replaces == watch.launch_id
        and now_ms - last.at_ms < span_ms(expected.start_within)
    )
    if is_under_way:
        return watch, None
    if count >= expected.restarts.limit:
        return watch.model_copy(update={"gave_up": True}), None
    wait = expected.restarts.wait(count)
    if verdict.down == "stuck":
        wait = max(wait, expected.end_stuck_after)
    if now_ms - watch.down_since_ms < span_ms(wait):
        return watch, None
    restart = Restart(at_ms=now_ms, replaces=watch.launch_id, why=verdict.reason)
    return watch.model_copy(update={"restarts": [*watch.restarts, restart]}), restart


def restart(loaded: LoadedPipeline, source: FileSource | KafkaSource) -> Heartbeat:
    """Start the live run again, as long as that is wanted and needed.

    A run that is stuck is ended first; one that got over it meanwhile is left alone.

    Raises:
        StateError: It was stopped by people meanwhile.
        RunError: Spark failed before its first batch.
    """
    generation = loaded.require_generation()
    require_wanted(generation)
    look = look_at_live(loaded, generation)
    if look is not None and look.verdict.down == "stuck":
        process.stop(generation, source.name)
    return chain.resume(PipelineContext(loaded, generation), source)


def _alert(loaded: LoadedPipeline, look: Look, watch: Watch) -> tuple[Watch, str | None]:
    """Tell the webhook of a change from or to red; what to remember, and what went wrong."""
    health, before = look.verdict.health, watch.alerted
    url, problem = loaded.pipeline.supervision.webhook_url, None
    # What a launch comes to is told when it is known.
    if url is None or health in ("starting", before):
        return watch, None
    if health in RED or before in RED:
        name = loaded.pipeline.name
        problem = post(
            url,
            {
                "text": f"{name}: the live run is {health}: {look.verdict.reason}",
                "pipeline": name,
                "source": loaded.pipeline.sources[-1].name,
                "health": health,
                "before": before,
                "reason": look.verdict.reason,
                "at": iso(look.now_ms),
                "numbers": look.verdict.numbers,
            },
        )
    return (watch if problem else watch.model_copy(update={"alerted": health})), problem
