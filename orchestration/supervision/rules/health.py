"""Health of a live run: when it is starting, dead, failed, stuck, late; what outweighs what."""

from __future__ import annotations

from typing import Literal, NamedTuple

from orchestration.capture.slot_state import SlotSeen
from orchestration.display import ended_in_words
from orchestration.supervision.late_row_findings import late_rows
from orchestration.supervision.observation import Seen
from orchestration.supervision.rules import findings
from orchestration.supervision.rules.verdict import Finding, Health, Verdict, expected_findings
from sources.common.counting import counted
from sources.common.durations import duration
from sources.config.supervision import Supervision
from sources.errors import ErrorReport, StateError
from spark_jobs.run_state.heartbeat import Heartbeat

_NEW = "`hybrid generation new P`"
_RUN, _RESUME = "`hybrid run P`", "`hybrid resume P`"
_AGAIN = f" If nothing starts it again, {_RESUME} does."
"""Without Dagster's supervision nobody restarts it."""
_WORKING = ("healthy", "catching-up", "late")
_LAUNCH_MS = 40_000  # from the request to a process; short, as nothing is red until then


class _Process(NamedTuple):
    """The run's process by itself.

    Attributes:
        health: As of the process alone.
        reason: Why, in sentences.
        down: What is wrong with it, if a restart may help.
        failure: The error that ended it.
        still_s: Seconds without a sign of work: a commit while input waits, or else a heartbeat;
            None if there was never one.
        limit_s: How many may pass; None if no limit applies.
    """

    health: Health
    reason: str
    down: Literal["dead", "stuck"] | None = None
    failure: ErrorReport | None = None
    still_s: float | None = None
    limit_s: float | None = None


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
    if not seen.requested.is_requested:
        return _not_requested(seen, expected, now_ms)
    process = _process(seen, expected, now_ms)
    health, reason, failure = process.health, process.reason, process.failure
    outage = _outage(seen)
    waits_for = (outage or _blocked(seen)) if process.down else None
    if waits_for is not None:
        why = "" if waits_for.message in reason else f" {waits_for.message}"
        until = "it can be written" if outage is None else "the broker answers"
        reason = f"{reason}{why} A restart waits until {until}."
    lag = findings.lag(seen, expected, now_ms)
    waiting_time = findings.waiting_time(seen, expected, now_ms)
    late = late_rows(seen.late, expected.late_rows)
    if health != "failed" and _is_looping(seen, expected, is_down=process.down is not None):
        again = "and is not restarted any more" if seen.gave_up else "which is a crash loop"
        minutes = expected.restarts.within.total_seconds() / 60
        often = counted(seen.restarts, "time")
        times = f"The live run was restarted {often} within {minutes:,.0f} min"
        reason = f"{times}, {again}. {reason}"
        health = "crash-looping"
    alive = Finding(
        name="alive",
        passed=health == "healthy",
        is_pending=health == "catching-up",
        text=reason,
        value=process.still_s,
        limit=process.limit_s,
        unit="" if process.still_s is None else "s",
    )
    behind = [each for each in (lag, waiting_time) if not each.passed]
    if health in ("healthy", "catching-up") and behind:
        health = "catching-up" if all(each.is_pending for each in behind) else "late"
        reason = " ".join(each.text for each in behind)
    if health in _WORKING and not (late.passed or late.is_pending):
        health, reason = "dropping-rows", late.text
    found = [alive, lag, waiting_time, late]
    if health == "starting":
        found = [each.model_copy(update={"is_pending": not each.passed}) for each in found]
    if seen.wrong_rows is not None:
        wrong = findings.wrong_rows(seen.wrong_rows)
        found.append(wrong)
        if health in (*_WORKING, "dropping-rows") and not wrong.passed:
            health, reason = "wrong-rows", wrong.text
    if seen.slot is not None:
        slot = findings.slot(seen.slot, expected, now_ms)
        found.append(slot)
        if (worse := _by_slot(health, seen.slot, slot)) is not None:
            health, reason = worse, slot.text
    return Verdict(
        health=health,
        reason=reason,
        down=process.down,
        waits_for=waits_for,
        failure=failure,
        error=seen.last_failure if failure is None else str(failure),
        findings=found,
        numbers=_numbers(seen, now_ms),
    )


def _outage(seen: Seen) -> ErrorReport | None:
    """Return why the broker does not answer, so that a restart would only fail again; else None."""
    return seen.lag_error if seen.lag_error is not None and seen.lag_error.transient else None


def _blocked(seen: Seen) -> ErrorReport | None:
    """Return which folder can't be written, so that a restart would only fail again; else None."""
    if seen.obstacle is None:
        return None
    message = f"{seen.obstacle[0].upper()}{seen.obstacle[1:]}."
    return ErrorReport(kind=StateError.kind, message=message, transient=True)


def _by_slot(health: Health, seen: SlotSeen, slot: Finding) -> Health | None:
    """Return the health of a run whose slot does not pass; None if it changes nothing."""
    if slot.passed:
        return None
    if not slot.is_pending:
        if seen.gone is None and seen.misset:
            return "wrong-rows" if health in (*_WORKING, "dropping-rows") else None
        # Whatever else holds: no more changes arrive. Of an unknown slot that is not known.
        is_read = seen.is_read or (seen.gone is None and seen.unknown is not None)
        of_cut_off = () if is_read else ("dropping-rows", "wrong-rows")
        if health in (*_WORKING, *of_cut_off):
            return "late" if is_read else "cut-off"
    is_told = seen.is_read or seen.failure or seen.silent or seen.unknown is not None
    return "catching-up" if health == "healthy" and is_told else None


def _not_requested(seen: Seen, expected: Supervision, now_ms: int) -> Verdict:
    """Judge a run that people stopped or paused: a warning and not red, whatever waits."""
    requested = seen.requested
    health: Health = "paused" if requested.is_paused else "stopped"
    reason = ended_in_words(requested)
    if seen.lag is not None:
        reason += f" {findings.waiting_in_words(seen.lag, seen.unit)}."
    elif seen.lag_error is not None:
        reason += f" How much input waits is unknown: {seen.lag_error.message}"
    elif seen.beat is not None and not seen.is_alive:
        reason += " How much input waits is unknown: nobody looks into the folder meanwhile."
    if seen.is_alive:
        reason += " The process of the run is still there."
    if not seen.is_replaced:
        reason += " To resume it, run `hybrid resume P`."
    found = [
        Finding(name=name, passed=False, is_pending=True, text=reason)
        for name in expected_findings(has_slot=False)
    ]
    if seen.wrong_rows is not None:
        found.append(findings.wrong_rows(seen.wrong_rows))
    if seen.slot is not None:
        found.append(findings.slot(seen.slot, expected, now_ms))
    numbers: dict[str, int | float] = {} if seen.lag is None else {"lag": seen.lag}
    return Verdict(health=health, reason=reason, findings=found, numbers=numbers)


def _is_looping(seen: Seen, expected: Supervision, *, is_down: bool) -> bool:
    """Return whether it ends again and again, even if it is up at the moment."""
    has_given_up = seen.gave_up and is_down and expected.restarts.limit > 0
    return has_given_up or seen.restarts >= expected.restarts.loop


def _process(seen: Seen, expected: Supervision, now_ms: int) -> _Process:
    beat, launched = seen.beat, seen.launched_ms
    if not seen.is_alive:
        silent_s = None if beat is None else _since(beat.at_ms, now_ms)
        return _ended(seen, seen.requested.at_ms, now_ms)._replace(still_s=silent_s)
    if beat is None or beat.advanced_at_ms is None:
        # Before the first micro-batch a driver may well be silent: it prepares the query.
        worked = 0 if beat is None else beat.worked_at_ms or 0
        begun_ms = max(seen.requested.at_ms if launched is None else launched, worked)
        age_s = (now_ms - begun_ms) / 1000
        limit_s = expected.start_within.total_seconds()
        first = "The first micro-batch of the live run is not committed"
        outage = _outage(seen)
        why = "" if outage is None else f" {outage}"
        if age_s >= limit_s:
            reason = f"{first} after {duration(age_s)}.{why}"
            return _Process("stuck", reason, "stuck", still_s=age_s, limit_s=limit_s)
        return _Process("starting", f"{first} yet.{why}", still_s=age_s, limit_s=limit_s)
    silent_s, limit_s = (now_ms - beat.at_ms) / 1000, expected.stuck_after.total_seconds()
    if silent_s >= limit_s:
        driver = f"The driver of the live run, process {beat.pid},"
        reason = f"{driver} wrote its last heartbeat {duration(silent_s)} ago."
        return _Process("stuck", reason, "stuck", still_s=silent_s, limit_s=limit_s)
    if seen.behind_since_ms is not None:
        return _committing(seen, beat, seen.behind_since_ms, expected, now_ms)
    reason = "The live run is up and has nothing to commit."
    if seen.lag is None:
        reason = "The live run is up, and its driver reports nothing to commit."
    if beat.unreachable is not None:
        reason = f"The live run is up. {_reported(beat, beat.unreachable)}"
        return _Process("catching-up", reason, still_s=silent_s, limit_s=limit_s)
    return _Process("healthy", reason, still_s=silent_s, limit_s=limit_s)


def _committing(
    seen: Seen, beat: Heartbeat, behind_since_ms: int, expected: Supervision, now_ms: int
) -> _Process:
    """Judge a driver that has input to commit: whether it does so, works on it, or is stuck."""
    still_s = (now_ms - behind_since_ms) / 1000
    limit_s = expected.stuck_after.total_seconds() + beat.pace_ms / 1000
    if still_s < limit_s and beat.unreachable is None:
        reason = "The live run commits what arrives."
        return _Process("healthy", reason, still_s=still_s, limit_s=limit_s)
    if seen.lag is None and (outage := _outage(seen)) is not None:
        # Whether input waits is unknown.
        reason = f"Nothing was committed for {duration(still_s)}. {outage}"
        return _Process("catching-up", reason, still_s=still_s, limit_s=limit_s)
    waits = "input waits" if seen.lag is None else findings.waiting_in_words(seen.lag, seen.unit)
    reason = f"Nothing was committed for {duration(still_s)} while {waits}"
    # A micro-batch that takes long is not stuck while tasks of it end.
    if (now_ms - (beat.worked_at_ms or 0)) / 1000 < limit_s:
        reason += "; the micro-batch is slow, but tasks of it still end."
        return _Process("catching-up", reason, still_s=still_s, limit_s=limit_s)
    reason += "."
    if beat.unreachable is not None:
        reason += f" {_reported(beat, beat.unreachable)}"
        if still_s < limit_s:
            return _Process("catching-up", reason, still_s=still_s, limit_s=limit_s)
    return _Process("stuck", reason, "stuck", still_s=still_s, limit_s=limit_s)


def _reported(beat: Heartbeat, unreachable: ErrorReport) -> str:
    return f"Its driver on {beat.host} reports: {unreachable}"


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
        return _Process("dead", f"The live run was requested, but not launched.{_AGAIN}", "dead")
    if beat is not None and beat.failure is not None:
        # The driver's way out is to run all of it again; of a live run it is the run alone, which
        # also goes on where the newest generation does not serve. There is one command, not two.
        hint = beat.failure.hint.replace(_RUN, _RESUME)
        if beat.failure.transient and (outage := _outage(seen)) is not None:
            # Whatever Spark says about it: this is why.
            reason = f"The live run failed, and its broker does not answer: {outage}"
            return _Process("dead", reason, "dead", beat.failure)
        told = {"hint": hint, "effect": "What it committed stays in the table."}
        return _failed("The live run failed", beat.failure.model_copy(update=told))
    if beat is not None and beat.state == "stopped":
        return _Process("dead", f"The live run ended, although nobody stopped it.{_AGAIN}", "dead")
    if seen.obstacle is not None:
        reason = "The process of the live run ended without a report."
    elif seen.ended:
        reason = f"The live run ended {seen.ended.rstrip('.')}."
    else:
        reason = (
            "The process of the live run ended without a report, so something killed it, such as "
            f"the kernel for want of memory (`dmesg`), or its machine is gone. See `{seen.log}`."
        )
    return _Process("dead", f"{reason}{_AGAIN}", "dead")


def _failed(what: str, failure: ErrorReport) -> _Process:
    """Judge by the error's own word: only a transient one is worth a restart."""
    if failure.transient:
        return _Process("dead", f"{what}: {failure}", "dead", failure)
    # The run of a new generation is another one.
    done = "After another correction" if _NEW in failure.hint else "Once that is done"
    last = "" if _RESUME in failure.hint else f" {done}, start the run with {_RESUME}."
    reason = f"{what}, and is not restarted, since a restart would fail again: {failure}{last}"
    return _Process("failed", reason, failure=failure)


def _numbers(seen: Seen, now_ms: int) -> dict[str, int | float]:
    """Return the figures behind the verdict, by names that programs read."""
    beat = seen.beat
    uncommitted_s = _since(seen.behind_since_ms, now_ms)
    found: dict[str, int | float | None] = {
        "lag": seen.lag,
        "uncommitted_s": uncommitted_s or 0.0,
        # Without a record of when input was first seen: the time that is certain.
        "waiting_s": 0.0 if seen.lag == 0 else uncommitted_s,
        "restarts": seen.restarts,
        "wrong_rows": seen.wrong_rows,
        "slot_retained_bytes": None if seen.slot is None else seen.slot.retained_bytes,
    }
    if seen.slot is not None:
        name = "slot_unconfirmed_bytes" if seen.slot.is_confirmation else "slot_unread_bytes"
        found[name] = seen.slot.unread_bytes
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
            "partition_drift_s": None if beat.drift_ms is None else beat.drift_ms / 1000,
            "held_offsets": beat.held_offsets,
            "state_rows": beat.state_rows,
            "state_bytes": beat.state_bytes,
            "bad_records": beat.bad_records,
            "outside_records": beat.outside_records,
            **{f"broken_rule_{name}": count for name, count in beat.broken_rules.items()},
            "commit_age_s": _since(beat.committed_at_ms, now_ms),
            "heartbeat_age_s": _since(beat.at_ms, now_ms),
        }
    return {name: number for name, number in found.items() if number is not None}


def _since(then_ms: int | None, now_ms: int) -> float | None:
    return None if then_ms is None else (now_ms - then_ms) / 1000
