"""Supervision of each pipeline in Dagster: the sensor that looks every 10 s, and checks by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from orchestration.capture.slot_state import has_slot
from orchestration.defs.jobs.approval_waits import after_approval
from orchestration.defs.jobs.finish_switch import broken_off, finish_request
from orchestration.defs.keys import (
    DECLARATION_TAG,
    GENERATION_TAG,
    RESTART_TAG,
    live_key,
)
from orchestration.defs.show import metadata, reports
from orchestration.defs.show.dagster_failures import failures
from orchestration.defs.show.dagster_remedies import verdict_in_dagster
from orchestration.defs.show.failed_look import alert_once, failed_look
from orchestration.defs.show.reports import Cursor, Reports
from orchestration.supervision import supervisor
from orchestration.supervision.live_look import look_at_live
from orchestration.supervision.rules.verdict import Finding, expected_findings
from orchestration.supervision.webhook import Alert, alert
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.hybrid import Boundedness
from sources.serving import Switch, pending_switch

LOOK_S = 10
"""Seconds between two looks; with ``stuck_after`` and the look itself well within a minute."""


def has_live_run(loaded: LoadedPipeline) -> bool:
    """Return whether a pipeline ends in an unbounded source, so that it may have a live run."""
    return loaded.pipeline.sources[-1].boundedness is Boundedness.CONTINUOUS_UNBOUNDED


def live_checks(loaded: LoadedPipeline) -> dg.AssetChecksDefinition:
    """Return the checks of the live run's asset, to be run by hand: one for each expectation.

    They look at the live run at that moment. The check ``slot`` is there only if the pipeline
    declares a replication slot, ``wrong_rows`` only if it mirrors a table.
    """
    key = live_key(loaded)
    expected = expected_findings(
        has_slot=has_slot(loaded),
        is_mirror=bool(loaded.pipeline.mirrors_that_leave_out_changes),
    )

    @dg.multi_asset_check(
        name=f"{loaded.pipeline.name}_live_checks",
        specs=[
            dg.AssetCheckSpec(name, asset=key, description=text) for name, text in expected.items()
        ],
    )
    def checks() -> Iterator[dg.AssetCheckResult]:
        with failures(loaded):
            fresh = load_pipeline(loaded.path)
            look = look_at_live(fresh, fresh.require_generation())
        never = [
            Finding(
                name=name, passed=False, is_pending=True, text="The live run was never started."
            )
            for name in expected
        ]
        findings = never if look is None else verdict_in_dagster(look.verdict, fresh).findings
        for found in findings:
            yield metadata.finding(found)

    return checks


def supervision_sensor(loaded: LoadedPipeline, jobs: Sequence[Any]) -> dg.SensorDefinition:
    """Return the sensor that supervises a pipeline every 10 s: observes, judges, restarts, alerts.

    While a newer generation waits for its promotion, it supervises the live runs of both. While a
    promotion or rollback is pending, it only requests the run that completes it, once no process is
    at work on it, and reports that it broke off. A look that fails reports the checks ``alive`` and
    ``healthy`` as failed, so that no earlier result stays in place; after a minute of such looks
    the webhook is told. It keeps the card of the table up to date, and continues a run that waited
    for an approval.

    Args:
        loaded: The pipeline.
        jobs: Definitions of the chain's job, which a restart launches, and of the job that
            completes an interrupted promotion.
    """
    name = loaded.pipeline.name

    @dg.sensor(
        name=f"{name}_supervision",
        jobs=jobs,
        minimum_interval_seconds=LOOK_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Watches the pipeline: shows how it is, restarts the live run after a transient "
            "failure, and goes on after an approval."
        ),
    )
    def supervision(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        cursor = Cursor.model_validate_json(context.cursor) if context.cursor else Cursor()
        found = list[tuple[LoadedPipeline, supervisor.Tick]]()
        try:
            fresh = load_pipeline(loaded.path)
            if (switch := pending_switch(fresh)) is not None:
                return _finish_switch(context, fresh, switch, cursor)
            found += (
                (each, tick)
                for each in supervisor.watched(fresh)
                if (tick := supervisor.tick(each)) is not None
            )
            resumed = after_approval(context.instance, fresh)
            shown = reports.reports(context.instance, fresh, found, cursor)
        except Exception as error:
            # If a look fails, the verdict of the one before must not stay in place.
            context.log.exception("The pipeline can't be looked at; its state is unknown.")
            is_live = has_live_run(loaded)
            shown = failed_look(context.instance, loaded, error, cursor, is_live=is_live)
            shown, problem = alert_once(loaded, shown)
            _warn(context, problem)
            # A restart that was decided counts, and the next look takes it for under way.
            return _result(shown, [_restart(loaded, *each) for each in found if each[1].restart])
        for _, tick in found:
            _warn(context, tick.alert_problem)
        if cursor.alerted:
            health = found[-1][1].verdict.health if found else "none"
            text = "The pipeline can be looked at again."
            problem = alert(fresh, Alert(text, health, "unknown", text, now_ms()))
            _warn(context, problem)
            known = shown.cursor.model_copy(update={"alerted": problem is not None})
            shown = shown._replace(cursor=known)
        runs = [*resumed, *(_restart(loaded, each, tick) for each, tick in found if tick.restart)]
        return _result(shown, runs)

    return supervision


def _warn(context: dg.SensorEvaluationContext, problem: str | None) -> None:
    """Write to the sensor's log why the webhook was not reached, if it was not."""
    if problem is not None:
        context.log.warning(
            f"The alert did not reach `supervision.webhook_url`: {problem}. The next look posts it "
            "again."
        )


def _result(shown: Reports, runs: list[dg.RunRequest]) -> dg.SensorResult:
    if not runs and not shown.events:
        return dg.SensorResult(skip_reason=shown.text, cursor=shown.cursor.model_dump_json())
    return dg.SensorResult(
        run_requests=runs, asset_events=shown.events, cursor=shown.cursor.model_dump_json()
    )


def _restart(
    loaded: LoadedPipeline, acting: LoadedPipeline, tick: supervisor.Tick
) -> dg.RunRequest:
    assert tick.restart is not None
    name = loaded.pipeline.name
    return dg.RunRequest(
        run_key=f"{name}:{_name(acting)}:{tick.restart.at_ms}",
        job_name=name,
        asset_selection=[live_key(loaded)],
        # The next look evaluates them; until then the last evaluation stands.
        asset_check_keys=[],
        tags={
            RESTART_TAG: tick.restart.replaces or "none",
            DECLARATION_TAG: str(acting.path),
            GENERATION_TAG: _name(acting),
        },
    )


def _finish_switch(
    context: dg.SensorEvaluationContext, loaded: LoadedPipeline, switch: Switch, cursor: Cursor
) -> dg.SensorResult | dg.SkipReason:
    """Request the completion of an interrupted promotion, and report it; wait for a running one."""
    if (request := finish_request(loaded, switch)) is None:
        return dg.SkipReason(f"Generation {switch.to} is replacing {switch.past} in the target.")
    error, is_live = broken_off(switch), has_live_run(loaded)
    shown = failed_look(context.instance, loaded, error, cursor, is_live=is_live)
    shown, problem = alert_once(loaded, shown)
    _warn(context, problem)
    return _result(shown, [request])


def _name(loaded: LoadedPipeline) -> str:
    return loaded.require_generation().name
