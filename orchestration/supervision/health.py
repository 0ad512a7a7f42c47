"""How well the live run does: one rule, from what is seen and what is expected. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sources.common.positions import iso, span_ms
from sources.config.supervision import Supervision
from sources.databases.replication_slot import NEW_SNAPSHOT
from spark_jobs.run_state.heartbeat import Heartbeat

Health = Literal[
    "healthy",
    "starting",
    "paused",
    "stopped",
    "dead",
    "stuck",
    "late",
    "cut-off",
    "crash-looping",
]
_LAUNCH_MS = 40_000  # from the wish to a process; short, as until then nothing is red
FindingName = Literal["alive", "lag", "freshness", "slot"]
FINDINGS: dict[FindingName, str] = {
    "alive": "The live run is there and commits what comes in.",
    "lag": "No more input waits than the pipeline allows.",
    "freshness": "Input does not wait longer than the pipeline allows.",
    "slot": "The database keeps its log for the connector, and the connector reads it.",
}
RED: frozenset[Health] = frozenset({"dead", "stuck", "late", "cut-off", "crash-looping"})


@dataclass(frozen=True)
class SlotSeen:
    """What is seen of the replication slot that a topic's changes come through.

    Attributes:
        gone: That it is or was gone, so that changes are missing for good; None if it never was.
        idle_since_ms: Since when no connector reads it; None if one does.
        unknown: Why nothing can be told of it; None if it can.
        retained_bytes: Log that the database keeps for it; None if that is not known.
    """

    gone: str | None = None
    idle_since_ms: int | None = None
    unknown: str | None = None
    retained_bytes: int | None = None


@dataclass(frozen=True)
class Seen:
    """What is seen of a live run that people once asked for.

    Attributes:
        wanted_ms: Since when it is wanted; None if people stopped it.
        is_alive: Whether a launch or a driver of it is there, or nobody can tell.
        launched_ms: When its last launch was made; None if none was.
        beat: The last word of that launch; None if it said nothing yet.
        ended: How a driver on a cluster ended, as the cluster tells it.
        lag: Records or splits that wait; None if that can't be told.
        behind_since_ms: Since when input waits while nothing is committed; None if none does.
        restarts: How many times it was started again within the window.
        last_failure: Why it was last started again.
        gave_up: Whether it is not started again any more.
        paused_ms: Since when it is paused, not stopped; None if it is not.
        paused_why: What people said of that; empty if nothing.
        obstacle: Why its state can't be written; None if it can.
        slot: Where its changes come from; None if that is not declared.
    """

    wanted_ms: int | None
    is_alive: bool
    launched_ms: int | None
    beat: Heartbeat | None
    lag: int | None
    behind_since_ms: int | None
    ended: str | None = None
    restarts: int = 0
    last_failure: str | None = None
    gave_up: bool = False
    paused_ms: int | None = None
    paused_why: str = ""
    obstacle: str | None = None
    slot: SlotSeen | None = None


def expected_findings(*, has_slot: bool) -> dict[FindingName, str]:
    """Those of :data:`FINDINGS` that a pipeline has; by name, in words."""
    return {name: text for name, text in FINDINGS.items() if has_slot or name != "slot"}


class Finding(BaseModel):
    """One thing that is expected of the live run, and whether it holds.

    Attributes:
        name: One of :data:`FINDINGS`.
        passed: Whether it holds.
        is_pending: It does not hold yet, as a launch is coming up.
        text: What was found, in words.
    """

    model_config = ConfigDict(frozen=True)

    name: FindingName
    passed: bool
    is_pending: bool = False
    text: str


class Verdict(BaseModel):
    """How well the live run does.

    Attributes:
        health: In one word.
        reason: Why, in words.
        down: What is wrong with the process, if a restart would mend it.
        error: Why it last failed, be it up again.
        findings: What is expected of it, one by one.
        numbers: The figures behind it; what is not known is left out.
    """

    model_config = ConfigDict(frozen=True)

    health: Health
    reason: str
    down: Literal["dead", "stuck"] | None = None
    error: str | None = None
    findings: list[Finding] = Field(default_factory=list)
    numbers: dict[str, int | float] = Field(default_factory=dict)

    @property
    def is_red(self) -> bool:
        """Whether people have to know."""
        return self.health in RED


def behind_since(
    beat: Heartbeat | None, lag: int | None, before_ms: int | None, now_ms: int
) -> int | None:
    """Since when input waits while nothing is committed.

    Args:
        beat: The run's last word.
        lag: How much waits; None if that can't be told.
        before_ms: What was answered at the last look, if nothing was committed since.
        now_ms: Now.

    Returns:
        None if nothing waits. A driver that says it has nothing to read is not taken at its word:
        input that is seen to wait counts from the first look on.
    """
    if beat is None or lag == 0:
        return None
    busy_since = beat.advanced_at_ms if beat.state == "running" and not beat.idle else None
    if lag is None and busy_since is None:
        return None
    known = [at for at in (before_ms, busy_since) if at is not None]
    return min([*known, now_ms])


def judge(seen: Seen, expected: Supervision, now_ms: int) -> Verdict:
    """How well the live run does.

    Args:
        seen: What is seen of it.
        expected: The pipeline's thresholds.
        now_ms: Now.
    """
    if seen.wanted_ms is None:
        return _unwanted(seen, expected, now_ms)
    health, down, reason = _process(seen, expected, now_ms)
    lag, freshness = _lag(seen, expected), _freshness(seen, expected, now_ms)
    if _is_looping(seen, expected, is_down=down is not None):
        again = "it is not started again any more" if seen.gave_up else "a crash loop"
        minutes = expected.restarts.within.total_seconds() / 60
        reason = f"started again {seen.restarts} times within {minutes:,.0f} min, {again}: {reason}"
        health = "crash-looping"
    alive = Finding(name="alive", passed=health == "healthy", text=reason)
    if health == "healthy" and not (lag.passed and freshness.passed):
        health = "late"
        reason = "; ".join(found.text for found in (lag, freshness) if not found.passed)
    findings = [alive, lag, freshness]
    if health == "starting":
        findings = [found.model_copy(update={"is_pending": not found.passed}) for found in findings]
    if seen.slot is not None:
        slot = _slot(seen.slot, expected, now_ms)
        findings.append(slot)
        if health in ("healthy", "late") and not (slot.passed or slot.is_pending):
            # Whatever else holds: nothing comes in any more.
            health, reason = "cut-off", slot.text
    return Verdict(
        health=health,
        reason=reason,
        down=down,
        error=_failure_of(seen.beat) or seen.last_failure,
        findings=findings,
        numbers=_numbers(seen, now_ms),
    )


def _unwanted(seen: Seen, expected: Supervision, now_ms: int) -> Verdict:
    """A run that people stopped or paused: not red, whatever waits, and it says so."""
    health: Health = "stopped"
    reason = "it was stopped"
    if seen.paused_ms is not None:
        health = "paused"
        reason = f"paused since {iso(seen.paused_ms)}"
        if seen.paused_why:
            reason += f" ({seen.paused_why})"
        if seen.lag is not None:
            reason += f"; {seen.lag:,} records or splits wait"
    if seen.is_alive:
        reason += ", and its process is still there"
    names = expected_findings(has_slot=False)
    findings = [Finding(name=name, passed=True, text=reason) for name in names]
    if seen.slot is not None:
        findings.append(_slot(seen.slot, expected, now_ms))
    numbers: dict[str, int | float] = {} if seen.lag is None else {"lag": seen.lag}
    return Verdict(health=health, reason=reason, findings=findings, numbers=numbers)


def _is_looping(seen: Seen, expected: Supervision, *, is_down: bool) -> bool:
    """Whether it ends again and again, be it up at the moment."""
    has_given_up = seen.gave_up and is_down and expected.restarts.limit > 0
    return has_given_up or seen.restarts >= expected.restarts.loop


def _process(
    seen: Seen, expected: Supervision, now_ms: int
) -> tuple[Health, Literal["dead", "stuck"] | None, str]:
    """The run's process by itself: health, what a restart would mend, why."""
    beat, launched, wanted = seen.beat, seen.launched_ms, seen.wanted_ms
    assert wanted is not None
    start_within = span_ms(expected.start_within)
    if not seen.is_alive:
        last = max(launched or 0, 0 if beat is None else beat.at_ms)
        is_asked_for = last < wanted
        if is_asked_for and now_ms - wanted < _LAUNCH_MS:
            return "starting", None, "it was asked for and is about to be launched"
        if beat is not None and beat.failure:
            return "dead", "dead", f"it failed: {beat.failure}"
        if beat is not None and beat.state == "stopped":
            return "dead", "dead", "it ended, and nobody had stopped it"
        if is_asked_for:
            return "dead", "dead", "it was asked for and not launched"
        if seen.obstacle is not None:
            return "dead", "dead", f"its process is gone without a word: {seen.obstacle}"
        if seen.ended:
            return "dead", "dead", f"it ended {seen.ended}"
        return "dead", "dead", "its process is gone without a word; see its log"
    if beat is None or beat.advanced_at_ms is None:
        # Before the first micro-batch a driver may well be silent: it prepares the query.
        worked = 0 if beat is None else beat.worked_at_ms or 0
        age = now_ms - max(launched if launched is not None else wanted, worked)
        if age >= start_within:
            return "stuck", "stuck", f"its first micro-batch is not in after {_s(age)}"
        return "starting", None, "its first micro-batch is not in yet"
    silent = now_ms - beat.at_ms
    if silent >= span_ms(expected.stuck_after):
        return "stuck", "stuck", f"its driver, {beat.pid}, was last heard of {_s(silent)} ago"
    if seen.behind_since_ms is not None:
        still = now_ms - seen.behind_since_ms
        # A micro-batch that takes long is not stuck while tasks of it end.
        idle = min(still, now_ms - (beat.worked_at_ms or 0))
        if idle >= span_ms(expected.stuck_after) + beat.pace_ms:
            waiting = "input" if seen.lag is None else f"{seen.lag:,} records or splits"
            return "stuck", "stuck", f"nothing was committed for {_s(still)} while {waiting} wait"
    return "healthy", None, "it commits what comes in"


def _lag(seen: Seen, expected: Supervision) -> Finding:
    if seen.lag is None:
        unknown = "nothing is read yet" if seen.beat is None else "the broker does not answer"
        text = f"how much waits can't be told: {unknown}"
        return Finding(name="lag", passed=False, text=text)
    text = f"{seen.lag:,} records or splits wait"
    if expected.lag is not None:
        text += f", {expected.lag:,} may"
    return Finding(name="lag", passed=expected.lag is None or seen.lag <= expected.lag, text=text)


def _freshness(seen: Seen, expected: Supervision, now_ms: int) -> Finding:
    late: list[str] = []
    due = seen.beat.listing_due_ms if seen.beat is not None else None
    if due is not None and now_ms - due > span_ms(expected.freshness):
        late.append(f"the folder was to be listed {_s(now_ms - due)} ago, and was not")
    elif seen.lag == 0:
        return Finding(name="freshness", passed=True, text="all input is committed")
    if seen.behind_since_ms is not None:
        still = now_ms - seen.behind_since_ms
        pace = seen.beat.pace_ms if seen.beat is not None else 0
        if still > span_ms(expected.freshness) + pace:
            late.append(f"input waits, and nothing was committed for {_s(still)}")
    reached = seen.beat.event_time_ms if seen.beat is not None else None
    if expected.event_time_lag is not None and reached is not None:
        behind = now_ms - reached
        if behind > span_ms(expected.event_time_lag):
            late.append(f"the highest event time read is {_s(behind)} behind")
    if late:
        return Finding(name="freshness", passed=False, text="; ".join(late))
    if seen.beat is None:
        return Finding(name="freshness", passed=False, text="nothing is read yet")
    return Finding(name="freshness", passed=True, text="what waits, waits for a short time")


def _slot(slot: SlotSeen, expected: Supervision, now_ms: int) -> Finding:
    if slot.gone is not None:
        return Finding(name="slot", passed=False, text=f"{slot.gone}. {NEW_SNAPSHOT}")
    if slot.unknown is not None:
        text = f"how the slot is can't be told: {slot.unknown}"
        return Finding(name="slot", passed=False, is_pending=True, text=text)
    if slot.idle_since_ms is not None:
        idle = now_ms - slot.idle_since_ms
        text = f"no connector has read the slot for {_s(idle)}: start it again"
        is_long = idle > span_ms(expected.freshness)
        return Finding(name="slot", passed=False, is_pending=not is_long, text=text)
    return Finding(name="slot", passed=True, text="a connector reads the slot")


def _numbers(seen: Seen, now_ms: int) -> dict[str, int | float]:
    """Plain numbers, which Dagster plots."""
    beat = seen.beat
    found: dict[str, int | float | None] = {
        "lag": seen.lag,
        "uncommitted_s": _since(seen.behind_since_ms, now_ms) or 0.0,
        "restarts": seen.restarts,
        "slot_retained_bytes": None if seen.slot is None else seen.slot.retained_bytes,
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
            "commit_age_s": _since(beat.committed_at_ms, now_ms),
            "heartbeat_age_s": _since(beat.at_ms, now_ms),
        }
    return {name: number for name, number in found.items() if number is not None}


def _since(then_ms: int | None, now_ms: int) -> float | None:
    return None if then_ms is None else (now_ms - then_ms) / 1000


def _s(ms: int) -> str:
    return f"{ms / 1000:,.0f} s"


def _failure_of(beat: Heartbeat | None) -> str | None:
    return None if beat is None or beat.failure is None else str(beat.failure)
