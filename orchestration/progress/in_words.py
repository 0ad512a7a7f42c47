"""Texts for cards and logs: progress, what a run waits for, complete-through, people's actions."""

from __future__ import annotations

from orchestration.display import count, second
from sources.common.counting import counted, counted_as
from sources.common.durations import duration
from sources.common.positions import EndPosition
from sources.config.source.file_options import ArrivalOrder
from sources.state.action_log import LoggedAction
from spark_jobs.run_state.heartbeat import Heartbeat

STARTING = "Spark is starting, usually 20 s"
_LINKS = {"new generation": "", "rollback": " to"}


def interval(order: ArrivalOrder) -> str:
    """Return the declared interval of arrival order in words: ``10 min`` or ``1,000 offsets``."""
    if isinstance(order.every, int):
        return counted(order.every, "offset")
    return duration(order.every.total_seconds())


def share_of(beat: Heartbeat) -> tuple[int, int, str] | None:
    """Return amount read, total amount and unit of a run, such as ``(42, 100, "row")``.

    Args:
        beat: A heartbeat of the run.

    Returns:
        Rows (``row``) if their total is known, else splits (``split``); None until either is known.
    """
    for done, total, unit in (
        (beat.rows_done, beat.rows_total, "row"),
        (beat.splits_done, beat.splits_total, "split"),
    ):
        if done is not None and total:
            return done, total, unit
    return None


def progress_parts(beat: Heartbeat, left_s: float | None) -> list[str]:
    """Return the progress as phrases, such as ``42%, 106 k of 252 k rows``, ``about 1 min left``.

    Until something is read it is one phrase: what the run waits for. A share is rounded down, so
    that only all of it is 100%.

    Args:
        beat: A heartbeat of the run.
        left_s: Seconds until nothing is left; None if unknown.
    """
    known = share_of(beat)
    if known is None or not known[0]:
        return [awaited(beat.state)]
    done, total, unit = known
    share = f"{done * 100 // total}%" if done * 100 >= total else "less than 1%"
    parts = [f"{share}, {count(done)} of {count(total)} {counted_as(total, unit)}"]
    return [*parts, f"about {duration(left_s, units=1)} left"] if left_s else parts


def awaited(state: str) -> str:
    """Return what a run that has read nothing yet waits for, as a clause.

    Args:
        state: Its state, by its heartbeat or its source's status; other than ``running`` it is not
            up yet.
    """
    return "Spark works on the first batch" if state == "running" else STARTING


def complete_through(end: EndPosition) -> str:
    """Return a source's complete-through time as text; if it is before the latest row, say why."""
    at = second(end.complete_through_ms)
    earlier_ms = end.event_time_ms - end.complete_through_ms
    if earlier_ms < 1000:
        return at
    return f"{at}, {duration(earlier_ms / 1000)} before its end: rows of then may still come"


def action_in_words(action: LoggedAction) -> str:
    """Return an action of the log as a phrase: what, by whom, changes, outcome.

    Args:
        action: The entry.
    """
    of = f"{_LINKS.get(action.action, ' of')} {action.generation}" if action.generation else ""
    by = f" by {action.by}" if action.by else ""
    ended = "" if action.outcome == "done" else f": {action.outcome}"
    text = "; ".join([*changes_in_words(action), *([action.error] if action.error else [])])
    return f"{action.action}{of}{by}{ended}{f' ({text})' if text else ''}"


def changes_in_words(action: LoggedAction) -> list[str]:
    """Return the changed values of an action, such as ``live run: live → paused``; empty if none.

    A value that is known only before or only after the action, or did not change, stands alone.

    Args:
        action: The entry.
    """
    found = []
    for name in dict.fromkeys([*action.before, *action.after]):
        before, after = action.before.get(name), action.after.get(name)
        if before is None or before == after or after is None:
            found.append(f"{name}: {before if after is None else after}")
        else:
            found.append(f"{name}: {before} → {after}")
    return found
