"""Dagster's watch over each live run: a sensor that supervises it, and checks to run by hand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence

import dagster as dg

from orchestration import metadata, supervisor
from orchestration.assets import RESTART_TAG, live_key
from orchestration.health import FINDINGS, Finding
from orchestration.status import look_at_live
from sources.document import LoadedPipeline, load_pipeline
from sources.hybrid import Boundedness

LOOK_S = 10
"""Between two looks: with ``stuck_after`` and the look itself, well within a minute."""
REPORT_S = 60.0
"""Between two reports of the same: each look would fill Dagster's event log."""


def has_live_run(loaded: LoadedPipeline) -> bool:
    """Whether a pipeline ends in a source without end."""
    last = loaded.pipeline.sources[-1]
    return last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED


def live_checks(loaded: LoadedPipeline) -> dg.AssetChecksDefinition:
    """What is expected of the live run, as checks of its asset."""
    key = live_key(loaded)

    @dg.multi_asset_check(
        name=f"{loaded.pipeline.name}_live_checks",
        specs=[
            dg.AssetCheckSpec(name, asset=key, description=text) for name, text in FINDINGS.items()
        ],
    )
    def checks() -> Iterator[dg.AssetCheckResult]:
        fresh = load_pipeline(loaded.path)
        look = look_at_live(fresh, fresh.require_generation())
        never = [
            Finding(name=name, passed=False, is_pending=True, text="nobody asked for it yet")
            for name in FINDINGS
        ]
        for found in never if look is None else look.verdict.findings:
            yield metadata.finding(found)

    return checks


def live_sensor(loaded: LoadedPipeline) -> dg.SensorDefinition:
    """Supervises the live run: observes it, judges it, asks for it to be started again."""
    name = loaded.pipeline.name
    key = live_key(loaded)

    @dg.sensor(
        name=f"{name}_supervision",
        job_name=name,
        minimum_interval_seconds=LOOK_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Watches the live run, and starts it again if it fails.",
    )
    def supervision(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            found = supervisor.tick(load_pipeline(loaded.path))
        except Exception as error:
            # A look that fails must not leave the answer of the one before in place.
            context.log.exception("The live run can't be judged")
            text = f"it can't be judged: {error}"
            alive = metadata.evaluation(key, Finding(name="alive", passed=False, text=text))
            return dg.SensorResult(asset_events=[alive], cursor="")
        if found is None:
            return dg.SkipReason("Nobody asked for the live run yet.")
        verdict = found.verdict
        if found.alert_problem is not None:
            context.log.warning(f"The webhook was not told: {found.alert_problem}")
        events: list[dg.AssetObservation | dg.AssetCheckEvaluation] = []
        seen = [verdict.health, *([each.passed, each.is_pending] for each in verdict.findings)]
        cursor = context.cursor
        if _is_due(cursor, seen):
            cursor = json.dumps({"at": time.time(), "seen": seen})
            events = [
                dg.AssetObservation(key, metadata=metadata.observation(verdict)),
                *(metadata.evaluation(key, each) for each in verdict.findings),
            ]
        runs: list[dg.RunRequest] = []
        if (restart := found.restart) is not None:
            runs = [
                dg.RunRequest(
                    run_key=f"{name}:{restart.at_ms}",
                    asset_selection=[key],
                    # The next look answers them; until then the last answer stands.
                    asset_check_keys=[],
                    tags={RESTART_TAG: restart.replaces or "none"},
                )
            ]
        return dg.SensorResult(run_requests=runs, asset_events=events, cursor=cursor)

    return supervision


def _is_due(cursor: str | None, seen: Sequence[object]) -> bool:
    """Whether to report: what is seen is new, or the last report is old."""
    last = json.loads(cursor) if cursor else {}
    return last.get("seen") != seen or time.time() - last["at"] >= REPORT_S
