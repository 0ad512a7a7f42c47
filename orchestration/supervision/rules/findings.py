"""Findings about a live run: lag, waiting time, wrong rows, slot; which fail, which only warn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from orchestration.capture.slot_state import SlotSeen, describe_unread
from orchestration.display import count, size
from orchestration.supervision.observation import Seen
from orchestration.supervision.rules.catching_up import Behind
from orchestration.supervision.rules.verdict import FINDINGS, Finding
from sources.common.counting import Noun, counted, counted_as
from sources.common.durations import duration, span_ms
from sources.config.supervision import Supervision

# The log of a busy database is always a bit ahead: one segment of it.
_MUCH_UNREAD = 16 << 20
# Kafka Connect keeps positions once a minute by default, and an idle connector of MariaDB gets
# none for 48 s (`offset.flush.interval.ms`, 0.8 of `connect.keep.alive.interval.ms`).
_CONFIRMS_MS = 120_000


class _Excess(NamedTuple):
    """A time that is longer than allowed; both in ms."""

    text: str
    value_ms: float
    limit_ms: float


def waiting_in_words(lag: int, unit: Noun) -> str:
    """Return the lag, what is not committed yet, as a clause: ``1 record waits``."""
    return f"{count(lag)} {unit.fitting(lag)} {counted_as(lag, 'waits', 'wait')}"


def lag(seen: Seen, expected: Supervision, now_ms: int) -> Finding:
    """Judge how many records or splits wait against ``supervision.lag``. A pure function.

    An unknown number does not pass: it only warns, until it has been unknown for ``late_after``, or
    if its error is not one that passes by itself.

    Args:
        seen: What one look saw of the run.
        expected: The thresholds that the pipeline declares under ``supervision``.
        now_ms: Time of the look, in ms since 1970.
    """
    if seen.lag is None:
        return _unknown_lag(seen, expected, now_ms)
    text = waiting_in_words(seen.lag, seen.unit)
    if seen.beat is not None and seen.beat.held_offsets:
        apart = duration((seen.beat.drift_ms or 0) / 1000)
        text += (
            f", {count(seen.beat.held_offsets)} of them until the slowest partition is as far; the "
            f"fastest is {apart} ahead of it"
        )
    if expected.lag is not None:
        text += f"; up to {count(expected.lag)} may"
    return Finding(
        name="lag",
        passed=expected.lag is None or seen.lag <= expected.lag,
        text=f"{text}.",
        value=seen.lag,
        limit=expected.lag,
        unit=seen.unit.more,
    )


def waiting_time(seen: Seen, expected: Supervision, now_ms: int) -> Finding:
    """Judge how long input waits; a run that catches up only gets a warning. A pure function.

    The finding's number is the time of its first sentence, in seconds: that without a commit and
    its limit ``freshness``, or the one that is too long. While a captured database does not answer,
    it is unknown how long changes wait there: a warning, until it has been for ``late_after``.

    Args:
        seen: What one look saw of the run.
        expected: The thresholds that the pipeline declares under ``supervision``.
        now_ms: Time of the look, in ms since 1970.
    """
    found = _waiting_time(seen, expected, now_ms)
    if seen.silent is None:
        return found
    shard = f"Shard {seen.silent.shard}: " if seen.silent.shard else ""
    text = f"{shard}Whether changes wait in the database is unknown: {seen.silent.why.rstrip('.')}."
    silent_ms = now_ms - seen.silent.since_ms
    is_long = silent_ms > span_ms(expected.late_after)
    if is_long:
        text += f" This has been so for {_span(silent_ms)}."
    if not found.passed:
        text = f"{found.text} {text}"
    is_pending = (found.passed or found.is_pending) and not is_long
    return found.model_copy(update={"passed": False, "is_pending": is_pending, "text": text})


def _waiting_time(seen: Seen, expected: Supervision, now_ms: int) -> Finding:
    beat = seen.beat
    if beat is None:
        return Finding(name="waiting_time", passed=False, text="Nothing was read yet.")
    fresh_ms = span_ms(expected.freshness)
    late: list[_Excess] = []
    due = beat.listing_due_ms
    if due is not None and now_ms - due > fresh_ms:
        text = f"The folder was due to be listed {_span(now_ms - due)} ago, and was not."
        late.append(_Excess(text, now_ms - due, fresh_ms))
    elif seen.lag is None and seen.behind_since_ms is None:
        text = "How long input waits is unknown, as is how much of it does."
        unknown = _unknown_lag(seen, expected, now_ms)
        return unknown.model_copy(update={"name": "waiting_time", "text": text})
    still_ms = 0 if seen.behind_since_ms is None else now_ms - seen.behind_since_ms
    if still_ms > fresh_ms + beat.pace_ms:
        text = f"Nothing was committed for {_span(still_ms)}."
        text = text if seen.lag is None else f"Input waits. {text}"
        late.append(_Excess(text, still_ms, fresh_ms + beat.pace_ms))
    is_waiting = seen.lag != 0
    if is_waiting and expected.event_time_lag is not None and beat.event_time_ms is not None:
        behind_ms, limit_ms = now_ms - beat.event_time_ms, span_ms(expected.event_time_lag)
        if behind_ms > limit_ms:
            text = f"The highest event time read is {_span(behind_ms)} behind."
            late.append(_Excess(text, behind_ms, limit_ms))
    is_catching_up = False
    if seen.behind is not None and not late:
        late, is_catching_up = _behind(seen, seen.behind, expected, beat.pace_ms)
    text = "Input waits for a short time only." if is_waiting else "All input is committed."
    first = late[0] if late else _Excess(text, still_ms, fresh_ms + beat.pace_ms)
    return Finding(
        name="waiting_time",
        passed=not late,
        is_pending=is_catching_up,
        text=" ".join(each.text for each in late) or text,
        value=first.value_ms / 1000,
        limit=first.limit_ms / 1000,
        unit="s",
    )


def _behind(
    seen: Seen, behind: Behind, expected: Supervision, pace_ms: int
) -> tuple[list[_Excess], bool]:
    """Return what is to be said about a run that is behind, and whether it only catches up."""
    waits = "Input waits" if seen.lag is None else waiting_in_words(seen.lag, seen.unit)
    limit_ms = span_ms(expected.caught_up_within) + pace_ms
    left_ms = (behind.left_s or 0) * 1000
    if behind.waiting_ms <= limit_ms and left_ms <= limit_ms:
        return [], False
    since = f"the first of them for {_span(behind.waiting_ms)} at least"
    late_ms = span_ms(expected.late_after) + pace_ms
    if behind.is_less is False and behind.waiting_ms > late_ms:
        period = _span(span_ms(expected.late_after))
        text = f"{waits}, {since}, and they have not become fewer within {period}."
        return [_Excess(text, behind.waiting_ms, late_ms)], False
    left = "an unknown time" if behind.left_s is None else f"about {duration(behind.left_s)}"
    text = f"The live run is catching up: {waits}, {since}; {left} left."
    return [_Excess(text, max(behind.waiting_ms, left_ms), limit_ms)], True


def _unknown_lag(seen: Seen, expected: Supervision, now_ms: int) -> Finding:
    """Return that the lag is unknown: a warning, until it has been for ``late_after``."""
    unknown = "How much input waits is unknown"
    if seen.beat is None:
        return Finding(name="lag", passed=False, text=f"{unknown}: nothing was read yet.")
    error = seen.lag_error
    text = f"{unknown}: {'the run has not reported it yet.' if error is None else error}"
    since_ms = seen.lag_unknown_since_ms
    is_long = since_ms is not None and now_ms - since_ms > span_ms(expected.late_after)
    if since_ms is not None and is_long:
        text += f" This has been so for {_span(now_ms - since_ms)}."
    is_passing = error is None or error.transient
    return Finding(name="lag", passed=False, is_pending=is_passing and not is_long, text=text)


def wrong_rows(count: int) -> Finding:
    """Judge whether rows of a mirror are stale or missing because of unreadable changes.

    Args:
        count: Number of such rows; passes only if 0.
    """
    text = "Every change was read, or a later one of the same row."
    if count:
        rows = counted(count, "row is", "rows are")
        text = (
            f"{rows} stale or missing, as a change could not be read: a record was dropped or "
            "quarantined, and no later change of the same key came. Change these rows again in the "
            "database (`UPDATE … SET column = column`), or begin a new generation with a new "
            "snapshot."
        )
    return Finding(
        name="wrong_rows", passed=not count, text=text, value=count, limit=0, unit="rows"
    )


def slot(slot: SlotSeen, expected: Supervision, now_ms: int) -> Finding:
    """Judge whether the replication slot still delivers changes and has a reader. A pure function.

    The finding's number is the time without a reader, or without progress of it, in seconds; its
    limit is ``freshness``. A shorter time only warns, and so does a state that has been unknown for
    up to ``late_after``.

    Args:
        slot: The slot as one look saw it.
        expected: The thresholds that the pipeline declares under ``supervision``.
        now_ms: Time of the look, in ms since 1970.
    """
    found = _slot(slot, expected, now_ms)
    if not slot.shard:
        return found
    return found.model_copy(update={"text": f"Shard {slot.shard}: {found.text}"})


def _slot(slot: SlotSeen, expected: Supervision, now_ms: int) -> Finding:
    if slot.gone is not None:
        return Finding(name="slot", passed=False, text=slot.gone)
    if slot.misset and not slot.failure:
        return Finding(name="slot", passed=False, text=slot.misset)
    if slot.unknown is not None:
        text = f"The state of the slot is unknown: {slot.unknown.rstrip('.')}."
        unknown_ms = 0 if slot.unknown_since_ms is None else now_ms - slot.unknown_since_ms
        is_long = unknown_ms > span_ms(expected.late_after)
        if is_long:
            text += f" This has been so for {_span(unknown_ms)}."
        return Finding(name="slot", passed=False, is_pending=not is_long, text=text)
    idle_ms, limit_ms = 0, span_ms(expected.freshness)
    text = "A connector reads the slot."
    if slot.idle_since_ms is not None:
        idle_ms = now_ms - slot.idle_since_ms
        text = f"No connector has read the slot for {_span(idle_ms)}. Start the connector again."
        if slot.silent:
            text = (
                f"No connector has read the slot for {_span(idle_ms)}, and nothing is known of "
                f"{slot.connector}: {slot.silent.rstrip('.')}. No change comes until it runs. If "
                "Kafka Connect has ended, such as for want of memory, its own log says why: start "
                "it again."
            )
        if slot.failure:
            text = (
                f"Connector {slot.connector} is FAILED ({slot.failure}), as seen for "
                f"{_span(idle_ms)}: no change comes until it is started again. Correct the cause, "
                f"then run `{slot.restart_command}`. "
            )
            text += (
                "The supervision does that, too, as often as `supervision.restarts` allows."
                if slot.is_restarted
                else "With `snapshot.restart_connector: true` the supervision does it."
            )
    behind_ms = 0
    if slot.unread_bytes:
        text += f" {describe_unread(slot.unread_bytes, is_confirmation=slot.is_confirmation)}"
        if slot.unread_since_ms is not None and slot.idle_since_ms is None:
            behind_ms = now_ms - slot.unread_since_ms
            limit_ms = max(limit_ms, _CONFIRMS_MS) if slot.is_confirmation else limit_ms
        text += f", the first of it for {_span(behind_ms)} at least." if behind_ms else "."
    if slot.retained_bytes is not None:
        text += f" The database keeps {size(slot.retained_bytes)} of its log for it."
    is_much = (slot.unread_bytes or 0) > _MUCH_UNREAD and not slot.is_confirmation
    is_behind = behind_ms > limit_ms or is_much
    idle_ms = max(idle_ms, behind_ms)
    return Finding(
        name="slot",
        passed=slot.idle_since_ms is None and not is_behind,
        is_pending=idle_ms <= limit_ms and (not slot.failure or slot.is_restarted),
        text=text,
        value=idle_ms / 1000,
        limit=limit_ms / 1000,
        unit="s",
    )


def _span(ms: float) -> str:
    return duration(ms / 1000)


def merge_findings(found: Sequence[tuple[str, Sequence[Finding]]]) -> list[Finding]:
    """Merge the findings of live runs that are shown as one: one for each check, the worst one.

    In the order of ``FINDINGS``, with the texts of all; those of a single run are returned as they
    are.

    Args:
        found: By live run: the name of its generation, and its findings.
    """
    if len(found) < 2:
        return [each for _, findings in found for each in findings]
    joined = []
    for name in FINDINGS:
        parts = [(who, each) for who, findings in found for each in findings if each.name == name]
        if not parts:
            continue
        worst = min((each for _, each in parts), key=lambda each: (each.passed, each.is_pending))
        text = " ".join(f"{who}: {each.text}" for who, each in parts)
        joined.append(worst.model_copy(update={"text": text}))
    return joined
