"""Supervisor of the live run: when it is restarted, not restarted or given up; alerts."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from orchestration.operations import live_run
from orchestration.remedies import as_commands
from orchestration.supervision.live_look import Look, look_at_live
from orchestration.supervision.refused_restart import RefusedRestart, write_refused
from orchestration.supervision.rules.verdict import RED, Verdict
from orchestration.supervision.watch_memory import Restart, Watch, read_watch, write_watch
from orchestration.supervision.webhook import Alert, alert
from sources.common.durations import span_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.supervision import Supervision
from sources.errors import HybridError, RunError
from sources.kept_definitions import in_service
from sources.planning.context import PipelineContext
from sources.serving import is_replaced
from spark_jobs.launch import run_control
from spark_jobs.launch.launch_record import last_launch_id
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.requested_state import require_requested


class Tick(NamedTuple):
    """Result of one look of the supervisor at the live run.

    Attributes:
        verdict: Health of the live run, and why.
        restart: A restart that the caller has to launch now; it was recorded before, so that no
            later look asks for it again. None if none is due.
        alert_problem: Why the webhook was not reached, as a phrase; the next look tries again. None
            if it was reached, or nothing was to be posted.
    """

    verdict: Verdict
    restart: Restart | None
    alert_problem: str | None


def watched(loaded: LoadedPipeline) -> list[LoadedPipeline]:
    """Return the declarations of the generations whose live runs are supervised, newest first.

    Those that served earlier are not among them.

    Raises:
        InputError: A kept declaration is not valid, or needs an environment variable that is not
            set.
        StateError: The kept declaration is missing, or the state is damaged.
        UnavailableError: The state's store does not answer.
    """
    return [each for each in in_service(loaded) if not is_replaced(loaded, _name_of(each))]


def _name_of(loaded: LoadedPipeline) -> str:
    """Return the name of the generation that a declaration refers to; empty before the first."""
    generation = loaded.open_generation(create=False)
    return "" if generation is None else generation.name


def tick(loaded: LoadedPipeline) -> Tick | None:
    """Inspect the live run, decide on a restart, record the decision, and post alerts.

    Called every few seconds by the sensor. It launches no run: the caller does, with
    :func:`restart`. A connector that failed is started again, where that is declared.

    Returns:
        The outcome; None if nothing was planned yet, or the live run was never requested.

    Raises:
        StateError: The state can't be read or written.
        InputError: A store or a broker refuses, or a cluster's command line tool is missing.
        UnavailableError: A store or a broker does not answer.
    """
    generation = loaded.open_generation(create=False)
    look = None if generation is None else look_at_live(loaded, generation)
    if generation is None or look is None:
        return None
    if look.capture is not None:
        look.capture.keep(generation)
        look.capture.restart_connectors(loaded, generation, look.now_ms)
    watch, restart = decide(look, loaded.pipeline.supervision)
    # The decision is recorded before anything is done.
    write_watch(generation, watch)
    alerted, problem = _alert(loaded, look, watch)
    write_watch(generation, alerted)
    return Tick(look.verdict, restart, problem)


def decide(look: Look, expected: Supervision) -> tuple[Watch, Restart | None]:
    """Return the supervision's new memory, and the restart that is due, if any. A pure function.

    A run that ended is restarted after a wait that grows with each restart within
    ``restarts.within``; a run that is stuck gets ``end_stuck_after`` to recover. A run whose error
    waiting can't mend is not restarted, nor any run beyond ``restarts.limit``, until people act.
    One that was refused before anything was launched does not count: it is tried again without an
    end, after pauses that double up to ``restarts.longest``. While the broker does not answer, or a
    folder that the run writes is full or read-only, nothing is restarted, and nothing counts.

    Args:
        look: The live run as it is now, with the memory of earlier looks.
        expected: The thresholds that the pipeline declares under ``supervision``.

    Returns:
        The memory for the next look, with the restart in it; and the restart, or None if none is
        due.
    """
    verdict, watch, now_ms = look.verdict, look.watch, look.now_ms
    if verdict.down is None or watch.down_since_ms is None or watch.gave_up:
        return watch, None
    if verdict.waits_for is not None:
        # Each attempt would fail, and count: what is over by itself must not need people.
        return watch, None
    kept, refused = watch.restarts, None
    if kept and kept[-1].replaces == watch.launch_id:
        if kept[-1].at_ms == look.refused_restart_ms:
            kept, refused = kept[:-1], kept[-1]
        elif now_ms - kept[-1].at_ms < span_ms(expected.start_within):
            # It is under way.
            return watch, None
    if len(kept) >= expected.restarts.limit:
        return watch.model_copy(update={"gave_up": True}), None
    since_ms, wait_ms = watch.down_since_ms, span_ms(expected.restarts.wait(len(kept)))
    if refused is not None:
        tried_ms = min(refused.at_ms - since_ms, span_ms(expected.restarts.longest))
        since_ms, wait_ms = refused.at_ms, max(wait_ms, tried_ms)
    elif verdict.down == "stuck":
        wait_ms = max(wait_ms, span_ms(expected.end_stuck_after))
    if now_ms - since_ms < wait_ms:
        return watch, None
    restart = Restart(at_ms=now_ms, replaces=watch.launch_id, why=verdict.reason)
    return watch.model_copy(update={"restarts": [*kept, restart]}), restart


def restart(loaded: LoadedPipeline, source: FileSource | KafkaSource) -> Heartbeat:
    """Restart the live run, if that is still requested and needed; called by the supervision.

    A run that is stuck is ended first; one that has recovered in the meantime is left as it is, and
    so is one that was launched after the restart was asked for, however slowly it starts. If
    nothing can be launched, the error is recorded, so that the next look reports it.

    Args:
        loaded: The pipeline.
        source: The last source of the chain.

    Returns:
        The first heartbeat of a run that has committed a batch, or that has nothing to read.

    Raises:
        StateError: People stopped or paused the run in the meantime, nothing was planned, another
            generation serves in this one's place, or another run is active.
        SeamError: The hand-over does not pass its checks; only before the first commit.
        InputError: A topic, a folder or the declaration can't be used as it is.
        UnavailableError: A broker or a cluster does not answer.
        RunError: Spark failed before its first batch, or a stuck run can't be ended.
    """
    generation = loaded.require_generation()
    requested = require_requested(generation)
    before = last_launch_id(generation)
    asked = read_watch(generation, requested.at_ms).restarts
    try:
        look = look_at_live(loaded, generation)
        is_asked_for = not asked or asked[-1].replaces == before
        if look is not None and look.verdict.down == "stuck" and is_asked_for:
            run_control.stop(generation, source.name)
        return live_run.resume(PipelineContext(loaded, generation), source)
    # Whatever it is, the next look has to know that the restart is not under way.
    except Exception as error:
        # A driver that was launched reports for itself.
        if last_launch_id(generation) == before:
            text = f"The restart failed: {type(error).__name__}: {error}."
            unknown = RunError(text, "It is tried again; correct what the message names.")
            refused = RefusedRestart(
                requested_ms=requested.at_ms,
                launch_id=before,
                report=(error if isinstance(error, HybridError) else unknown).report(),
                restart_ms=asked[-1].at_ms if asked else None,
            )
            # Where the state can't be written, the error itself says so.
            with contextlib.suppress(HybridError):
                write_refused(generation, refused)
        raise


def _alert(loaded: LoadedPipeline, look: Look, watch: Watch) -> tuple[Watch, str | None]:
    """Post a change from or to red to the webhook.

    Returns:
        What is to be remembered, and why the webhook was not reached, if it was not.
    """
    verdict, before, problem = look.verdict, watch.alerted, None
    health = verdict.health
    is_declared = loaded.pipeline.supervision.webhook_url is not None
    # The outcome of a launch is posted once it is known.
    if not is_declared or health in ("starting", before):
        return watch, None
    if health in RED or before in RED:
        reason = as_commands(verdict.reason, str(loaded.folder / loaded.path.name))
        text = f"The live run is {health}. {reason}"
        figures = (verdict.failure, verdict.numbers)
        problem = alert(loaded, Alert(text, health, before, reason, look.now_ms, *figures))
    return (watch if problem else watch.model_copy(update={"alerted": health})), problem
