"""The rule that judges the live run, from what is seen and what is expected. Pure functions."""

from __future__ import annotations

from typing import Literal, NamedTuple

from orchestration.supervision import findings
from orchestration.supervision.late_rows import late_rows
from orchestration.supervision.observation import Seen
from orchestration.supervision.verdict import Finding, Health, Verdict, expected_findings
from sources.common.positions import iso, seconds, span_ms
from sources.config.supervision import Supervision
from sources.errors import ErrorReport

_WORKING = ("healthy", "catching-up", "late")
_LAUNCH_MS = 40_000  # from the request to a process; short, as nothing is red until then


class _Process(NamedTuple):
    """The run's process by itself.

    Attributes:
        health: As of the process alone.
        reason: Why, in sentences.
        down: What is wrong with it, if a restart may help.
        failure: The error that ended it.
    """

    health: Health
    reason: str
    down: Literal["dead", "stuck"] | None = None
    failure: ErrorReport | None = None


def judge(seen: Seen, expected: Supervision, now_ms: int) -> Verdict:
    """Return the verdict on a live run: its health, the reasons, and each expectation by itself.

    A pure function. Of several things that are wrong the health names one: an error that waiting
    can't mend first, then a crash loop, a process that is dead or stuck, a replication slot that no
    longer delivers changes, too many late rows, and input that waits too long.

    Args:
        seen: What one look saw of the run.
        expected: The thresholds that the pipeline declares under ``supervision``.
        now_ms: Time of the look, in ms since 1970.
    """
    if seen.requested_ms is None:
        return _not_requested(seen, expected, now_ms)
    health, reason, down, failure = _process(seen, seen.requested_ms, expected, now_ms)
    lag, waiting_time = findings.lag(seen, expected), findings.waiting_time(seen, expected, now_ms)
    late = late_rows(seen.late, expected.late_rows)
    if health != "failed" and _is_looping(seen, expected, is_down=down is not None):
        again = "and is not restarted any more" if seen.gave_up else "which is a crash loop"
        minutes = expected.restarts.within.total_seconds() / 60
        times = f"The live run was restarted {seen.restarts} times within {minutes:,.0f} min"
        reason = f"{times}, {again}. {reason}"
        health = "crash-looping"
    alive = Finding(name="alive", passed=health == "healthy", text=reason)
    behind = [each for each in (lag, waiting_time) if not each.passed]
    if health == "healthy" and behind:
        health = "catching-up" if all(each.is_pending for each in behind) else "late"
        reason = " ".join(each.text for each in behind)
    if health in _WORKING and not (late.passed or late.is_pending):
        health, reason = "dropping-rows", late.text
    found = [alive, lag, waiting_time, late]
    if health == "starting":
        found = [each.model_copy(update={"is_pending": not each.passed}) for each in found]
    if seen.slot is not None:
        slot = findings.slot(seen.slot, expected, now_ms)
        found.append(slot)
        if health in (*_WORKING, "dropping-rows") and not (slot.passed or slot.is_pending):
            # Whatever else holds: no more changes arrive.
            health, reason = "cut-off", slot.text
    return Verdict(
        health=health,
        reason=reason,
        down=down,
        failure=failure,
        error=seen.last_failure if failure is None else str(failure),
        findings=found,
        numbers=_numbers(seen, now_ms),
    )


def _not_requested(seen: Seen, expected: Supervision, now_ms: int) -> Verdict:
    """Judge a run that people stopped or paused: not red, whatever waits."""
    health: Health = "stopped"
    reason = "The live run was stopped."
    if seen.paused_ms is not None:
        health = "paused"
        why = f" ({seen.paused_why})" if seen.paused_why else ""
        reason = f"The live run has been paused since {iso(seen.paused_ms)}{why}."
        if seen.lag is not None:
            reason += f" {seen.lag:,} records or splits wait."
    if seen.is_alive:
        reason += " The process of the run is still there."
    names = expected_findings(has_slot=False)
    found = [Finding(name=name, passed=True, text=reason) for name in names]
    if seen.slot is not None:
        found.append(findings.slot(seen.slot, expected, now_ms))
    numbers: dict[str, int | float] = {} if seen.lag is None else {"lag": seen.lag}
    return Verdict(health=health, reason=reason, findings=found, numbers=numbers)


def _is_looping(seen: Seen, expected: Supervision, *, is_down: bool) -> bool:
    """Return whether it ends again and again, even if it is up at the moment."""
    has_given_up = seen.gave_up and is_down and expected.restarts.limit > 0
    return has_given_up or seen.restarts >= expected.restarts.loop


def _process(seen: Seen, requested_ms: int, expected: Supervision, now_ms: int) -> _Process:
    beat, launched = seen.beat, seen.launched_ms
    if not seen.is_alive:
        return _ended(seen, requested_ms, now_ms)
    if beat is None or beat.advanced_at_ms is None:
        # Before the first micro-batch a driver may well be silent: it prepares the query.
        worked = 0 if beat is None else beat.worked_at_ms or 0
        age = now_ms - max(launched if launched is not None else requested_ms, worked)
        if age >= span_ms(expected.start_within):
            reason = f"The first micro-batch of the live run is not committed after {seconds(age)}."
            return _Process("stuck", reason, "stuck")
        return _Process("starting", "The first micro-batch of the live run is not committed yet.")
    silent = now_ms - beat.at_ms
    if silent >= span_ms(expected.stuck_after):
        driver = f"The driver of the live run, process {beat.pid},"
        reason = f"{driver} wrote its last heartbeat {seconds(silent)} ago."
        return _Process("stuck", reason, "stuck")
    if seen.behind_since_ms is not None:
        still = now_ms - seen.behind_since_ms
        # A micro-batch that takes long is not stuck while tasks of it end.
        idle = min(still, now_ms - (beat.worked_at_ms or 0))
        if idle >= span_ms(expected.stuck_after) + beat.pace_ms:
            waits = "input waits" if seen.lag is None else f"{seen.lag:,} records or splits wait"
            reason = f"Nothing was committed for {seconds(still)} while {waits}."
            return _Process("stuck", reason, "stuck")
    return _Process("healthy", "The live run commits what arrives.")


def _ended(seen: Seen, requested_ms: int, now_ms: int) -> _Process:
    """Judge a run without a process: whether a restart may help, and what ended it."""
    beat = seen.beat
    last = max(seen.launched_ms or 0, 0 if beat is None else beat.at_ms)
    is_launch_due = last < requested_ms
    if seen.refused is not None:
        return _failed("The live run could not be started again", seen.refused)
    if is_launch_due and now_ms - requested_ms < _LAUNCH_MS:
        return _Process("starting", "The live run was requested and is about to be launched.")
    if is_launch_due:
        # What the run before the request reported says nothing about this one.
        return _Process("dead", "The live run was requested, but not launched.", "dead")
    if beat is not None and beat.failure is not None:
        return _failed("The live run failed", beat.failure)
    if beat is not None and beat.state == "stopped":
        return _Process("dead", "The live run ended, although nobody stopped it.", "dead")
    if seen.obstacle is not None:
        reason = f"The process of the live run ended without a report: {seen.obstacle}."
    elif seen.ended:
        reason = f"The live run ended {seen.ended.rstrip('.')}."
    else:
        reason = "The process of the live run ended without a report. See its log: `hybrid logs`."
    return _Process("dead", reason, "dead")


def _failed(what: str, failure: ErrorReport) -> _Process:
    """Judge by the error's own word: only a transient one is worth a restart."""
    if failure.transient:
        return _Process("dead", f"{what}: {failure}", "dead", failure)
    reason = (
        f"{what}, and is not restarted, since a restart would fail again: {failure} "
        "Once that is done, start the run with `hybrid resume`."
    )
    return _Process("failed", reason, failure=failure)


def _numbers(seen: Seen, now_ms: int) -> dict[str, int | float]:
    """Return plain numbers, which Dagster plots."""
    beat = seen.beat
    found: dict[str, int | float | None] = {
        "lag": seen.lag,
        "uncommitted_s": _since(seen.behind_since_ms, now_ms) or 0.0,
        "restarts": seen.restarts,
        "slot_retained_bytes": None if seen.slot is None else seen.slot.retained_bytes,
    }
    if seen.behind is not None:
        found |= {
            "waiting_s": seen.behind.waiting_ms / 1000,
            "catch_up_s": seen.behind.left_s,
        }
    if seen.late is not None:
        found |= {
            "late_rows": seen.late.live,
            "late_rows_history": seen.late.history,
            "late_rows_share": seen.late.share,
            "late_rows_unknown_batches": seen.late.unknown_batches,
        }
    if beat is not None:
        found |= {
            "batch": beat.batch_id,
            "input_rows_per_s": beat.input_rows_per_s,
            "processed_rows_per_s": beat.rows_per_s,
            "event_time_lag_s": _since(beat.event_time_ms, now_ms),
            "watermark_ms": beat.watermark_ms,
            "watermark_lag_s": _since(beat.watermark_ms, now_ms),
            "state_rows": beat.state_rows,
            "state_bytes": beat.state_bytes,
            "bad_records": beat.bad_records,
            "outside_records": beat.outside_records,
            "commit_age_s": _since(beat.committed_at_ms, now_ms),
            "heartbeat_age_s": _since(beat.at_ms, now_ms),
        }
    return {name: number for name, number in found.items() if number is not None}


def _since(then_ms: int | None, now_ms: int) -> float | None:
    return None if then_ms is None else (now_ms - then_ms) / 1000
