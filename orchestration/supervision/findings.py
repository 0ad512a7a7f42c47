"""What is expected of a live run that works, each by itself: pure functions."""

from __future__ import annotations

from orchestration.supervision.catching_up import Behind
from orchestration.supervision.observation import Seen, SlotSeen
from orchestration.supervision.verdict import Finding
from sources.common.positions import seconds, span_ms
from sources.config.supervision import Supervision
from sources.databases.replication_slot import NEW_SNAPSHOT


def lag(seen: Seen, expected: Supervision) -> Finding:
    """Judge how much input waits; unknown does not pass."""
    if seen.lag is None:
        why = "nothing was read yet" if seen.beat is None else "the broker does not answer"
        text = f"How much input waits is unknown: {why}."
        return Finding(name="lag", passed=False, text=text)
    text = f"{seen.lag:,} records or splits wait"
    if expected.lag is not None:
        text += f"; up to {expected.lag:,} may"
    passed = expected.lag is None or seen.lag <= expected.lag
    return Finding(name="lag", passed=passed, text=f"{text}.")


def waiting_time(seen: Seen, expected: Supervision, now_ms: int) -> Finding:
    """Judge how long input waits; a run that works and catches up only warns."""
    late: list[str] = []
    due = seen.beat.listing_due_ms if seen.beat is not None else None
    if due is not None and now_ms - due > span_ms(expected.freshness):
        late.append(f"The folder was due to be listed {seconds(now_ms - due)} ago, and was not.")
    elif seen.lag == 0:
        return Finding(name="waiting_time", passed=True, text="All input is committed.")
    if seen.behind_since_ms is not None:
        still = now_ms - seen.behind_since_ms
        pace = seen.beat.pace_ms if seen.beat is not None else 0
        if still > span_ms(expected.freshness) + pace:
            late.append(f"Input waits, and nothing was committed for {seconds(still)}.")
    reached = seen.beat.event_time_ms if seen.beat is not None else None
    if expected.event_time_lag is not None and reached is not None:
        behind = now_ms - reached
        if behind > span_ms(expected.event_time_lag):
            late.append(f"The highest event time read is {seconds(behind)} behind.")
    if seen.beat is None:
        return Finding(name="waiting_time", passed=False, text="Nothing was read yet.")
    is_catching_up = False
    if seen.behind is not None and not late:
        late, is_catching_up = _behind(seen.behind, seen.lag, expected, seen.beat.pace_ms)
    if late:
        text = " ".join(late)
        return Finding(name="waiting_time", passed=False, is_pending=is_catching_up, text=text)
    return Finding(name="waiting_time", passed=True, text="Input waits for a short time only.")


def _behind(
    behind: Behind, lag: int | None, expected: Supervision, pace_ms: int
) -> tuple[list[str], bool]:
    """Return what is to be said about a run that is behind, and whether it only catches up."""
    waits = "Input waits" if lag is None else f"{lag:,} records or splits wait"
    limit_ms = span_ms(expected.caught_up_within) + pace_ms
    if behind.waiting_ms <= limit_ms and (behind.left_s or 0) * 1000 <= limit_ms:
        return [], False
    since = f"the first of them for {seconds(behind.waiting_ms)} at least"
    if behind.is_less is False and behind.waiting_ms > span_ms(expected.late_after) + pace_ms:
        period = seconds(span_ms(expected.late_after))
        return [f"{waits}, {since}, and they have not become fewer within {period}."], False
    left = "an unknown time" if behind.left_s is None else f"about {behind.left_s:,.0f} s"
    return [f"The live run is catching up: {waits}, {since}; {left} left."], True


def slot(slot: SlotSeen, expected: Supervision, now_ms: int) -> Finding:
    """Judge whether changes still come through the replication slot."""
    if slot.gone is not None:
        text = f"{slot.gone[0].upper()}{slot.gone[1:].rstrip('.')}. {NEW_SNAPSHOT}"
        return Finding(name="slot", passed=False, text=text)
    if slot.unknown is not None:
        text = f"The state of the slot is unknown: {slot.unknown.rstrip('.')}."
        return Finding(name="slot", passed=False, is_pending=True, text=text)
    if slot.idle_since_ms is not None:
        idle = now_ms - slot.idle_since_ms
        text = f"No connector has read the slot for {seconds(idle)}. Start the connector again."
        is_long = idle > span_ms(expected.freshness)
        return Finding(name="slot", passed=False, is_pending=not is_long, text=text)
    return Finding(name="slot", passed=True, text="A connector reads the slot.")
