"""Supervision of each live run in Dagster: a sensor, and checks to run by hand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from orchestration.defs import metadata
from orchestration.defs.assets import DECLARATION_TAG, RESTART_TAG, live_key
from orchestration.supervision import supervisor
from orchestration.supervision.look import look_at_live
from orchestration.supervision.verdict import FINDINGS, Finding, expected_findings
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.databases.replication_slot import watched_slot
from sources.hybrid import Boundedness
from sources.kept_definitions import in_service
from sources.serving import Switch, pending_switch
from spark_jobs.run_state.lock import is_switching

LOOK_S = 10
"""Seconds between two looks; with ``stuck_after`` and the look itself well within a minute."""
_FINISH_S = 60
"""Seconds between two attempts to complete an interrupted promotion."""
REPORT_S = 60.0
"""Seconds between two equal reports: one for each look would fill Dagster's event log."""


def has_live_run(loaded: LoadedPipeline) -> bool:
    """Return whether a pipeline ends in an unbounded source, so that a live run is supervised."""
    last = loaded.pipeline.sources[-1]
    return last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED


def live_checks(loaded: LoadedPipeline) -> dg.AssetChecksDefinition:
    """Return the checks of the live run's asset, to be run by hand: one for each expectation.

    The check ``slot`` is there only if the pipeline declares a replication slot.
    """
    key = live_key(loaded)
    expected = expected_findings(has_slot=watched_slot(loaded) is not None)

    @dg.multi_asset_check(
        name=f"{loaded.pipeline.name}_live_checks",
        specs=[
            dg.AssetCheckSpec(name, asset=key, description=text) for name, text in expected.items()
        ],
    )
    def checks() -> Iterator[dg.AssetCheckResult]:
        fresh = load_pipeline(loaded.path)
        look = look_at_live(fresh, fresh.require_generation())
        never = [
            Finding(
                name=name, passed=False, is_pending=True, text="The live run was never started."
            )
            for name in expected
        ]
        for found in never if look is None else look.verdict.findings:
            yield metadata.finding(found)

    return checks


def live_sensor(loaded: LoadedPipeline, jobs: Sequence[Any]) -> dg.SensorDefinition:
    """Return the sensor that supervises the live run every 10 s: it observes, judges, restarts.

    While a newer generation waits for its promotion, it supervises the live runs of both. A look
    that fails reports the check ``alive`` as failed, so that no earlier result stays in place.

    Args:
        loaded: The pipeline.
        jobs: Definitions of the chain's job, which a restart launches, and of the job that
            completes an interrupted promotion.
    """
    name = loaded.pipeline.name
    key = live_key(loaded)

    @dg.sensor(
        name=f"{name}_supervision",
        jobs=jobs,
        minimum_interval_seconds=LOOK_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Watches the live run, and restarts it after a transient failure.",
    )
    def supervision(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            fresh = load_pipeline(loaded.path)
            if (switch := pending_switch(fresh)) is not None:
                return _finish_switch(fresh, switch)
            found = [
                (each, tick)
                for each in in_service(fresh)
                if (tick := supervisor.tick(each)) is not None
            ]
        except Exception as error:
            # If a look fails, the verdict of the one before must not stay in place.
            context.log.exception("The live run can't be looked at; its state is unknown.")
            text = f"The live run can't be looked at, so its state is unknown: {error}"
            alive = metadata.evaluation(key, Finding(name="alive", passed=False, text=text))
            return dg.SensorResult(asset_events=[alive], cursor="")
        if not found:
            return dg.SkipReason("There is no live run to watch: it was never started.")
        for _, tick in found:
            if tick.alert_problem is not None:
                context.log.warning(
                    f"The alert did not reach `supervision.webhook_url`: {tick.alert_problem}. The "
                    "next look posts it again."
                )
        events: list[dg.AssetObservation | dg.AssetCheckEvaluation] = []
        findings = _together([(_name(each), tick.verdict.findings) for each, tick in found])
        healths = [tick.verdict.health for _, tick in found]
        seen = [healths, *([each.passed, each.is_pending] for each in findings)]
        cursor = context.cursor
        if _is_due(cursor, seen):
            cursor = json.dumps({"at": time.time(), "seen": seen})
            events = [
                *(
                    dg.AssetObservation(key, metadata=metadata.observation(tick.verdict))
                    for _, tick in reversed(found)
                ),
                *(metadata.evaluation(key, each) for each in findings),
            ]
        runs = [
            dg.RunRequest(
                run_key=f"{name}:{_name(each)}:{restart.at_ms}",
                job_name=name,
                asset_selection=[key],
                # The next look evaluates them; until then the last evaluation stands.
                asset_check_keys=[],
                tags={RESTART_TAG: restart.replaces or "none", DECLARATION_TAG: str(each.path)},
            )
            for each, tick in found
            if (restart := tick.restart) is not None
        ]
        return dg.SensorResult(run_requests=runs, asset_events=events, cursor=cursor)

    return supervision


def _finish_switch(loaded: LoadedPipeline, switch: Switch) -> dg.SensorResult | dg.SkipReason:
    """Request the completion of an interrupted promotion; wait for one that is under way."""
    name = loaded.pipeline.name
    if is_switching(loaded.state):
        return dg.SkipReason(f"Generation {switch.to} is replacing {switch.past} in the target.")
    key = f"{name}:{switch.at_ms}:{int(time.time() // _FINISH_S)}"
    return dg.SensorResult(run_requests=[dg.RunRequest(run_key=key, job_name=f"{name}_finish")])


def _name(loaded: LoadedPipeline) -> str:
    return loaded.require_generation().name


def _together(found: Sequence[tuple[str, Sequence[Finding]]]) -> list[Finding]:
    """Merge the findings of a pipeline's live runs, which share an asset: the worst one counts."""
    if len(found) == 1:
        return list(found[0][1])
    joined = []
    for name in FINDINGS:
        parts = [(who, each) for who, findings in found for each in findings if each.name == name]
        if not parts:
            continue
        worst = min((each for _, each in parts), key=lambda each: (each.passed, each.is_pending))
        text = " ".join(f"{who}: {each.text}" for who, each in parts)
        joined.append(worst.model_copy(update={"text": text}))
    return joined


def _is_due(cursor: str | None, seen: Sequence[object]) -> bool:
    """Return whether to report: what is seen is new, or the last report is old."""
    last = json.loads(cursor) if cursor else {}
    return last.get("seen") != seen or time.time() - last["at"] >= REPORT_S
