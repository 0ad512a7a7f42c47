"""Answers of commands on a terminal: plan, status and history as tables; colours of a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from orchestration.capture.slot_state import unread_of
from orchestration.cli.fitting_table import Fitting
from orchestration.display import time_left
from orchestration.progress.in_words import changes_in_words
from orchestration.progress.plan_tables import PlanTable, plan_tables
from sources.common.times import iso, now_ms
from sources.planning.approval import HOW_TO_APPROVE

_SHORT = len("30 Sep 2024 00:00")
"""Cells of a plan up to this length, times among them, stay on one line."""

if TYPE_CHECKING:
    from orchestration.progress.plan_preview import Preview
    from orchestration.supervision.source_status import SourceStatus
    from orchestration.supervision.status import Status
    from orchestration.supervision.status_part import StatusPart
    from sources.planning.plan import Plan
    from sources.state.action_log import LoggedAction

_ENDED = {
    "dead": "the driver of `{source}` is gone without a word, as after a kill. What is committed "
    "stays; `hybrid run P` goes on from there, and `hybrid logs P` shows what it printed.",
    "stopped": "`{source}` was ended before its end; `hybrid run P` goes on from there.",
}


def plan(made: Plan, seen: Preview, then: str) -> Group:
    """Return a plan for the terminal: summary, details, the warnings, and, last, what to do next.

    Args:
        made: The plan.
        seen: The preview of the same plan.
        then: The sentence that names the next command.
    """
    title = f"Plan of {made.pipeline}, made at {iso(made.created_ms)}"
    parts: list[Table | str] = [title, escape(seen.summary), ""]
    parts += [_plan_table(table) for table in plan_tables(made, seen)]
    since_ms = now_ms() - made.created_ms
    parts += [
        # A plan that is shown again was made a while ago.
        f"Retention: {room.model_copy(update={'left_ms': room.left_ms - since_ms})}."
        for topic in made.topics
        for room in topic.headroom[:1]
    ]
    if seen.previous is not None and not seen.changes:
        parts.append(f"Files, offsets and columns are those of the plan of {seen.previous}.")
    parts.extend(
        f"[yellow]Warning {number} of {len(made.warnings)}:[/] {escape(text)}"
        for number, text in enumerate(made.warnings, 1)
    )
    return Group(*parts, then)


def _plan_table(shown: PlanTable) -> Table:
    table = Table(title=shown.title.capitalize())
    for name in shown.rows[0]:
        cells = [str(row[name]) for row in shown.rows]
        is_short = max(map(len, cells)) <= _SHORT
        table.add_column(name, no_wrap=is_short and name != "source", overflow="fold")
    for row in shown.rows:
        table.add_row(*(escape(str(cell)) for cell in row.values()))
    return table


def status(found: Status) -> Group:
    """Return a status for the terminal: each source, verdict, warnings, and parts of extensions.

    That of the serving generation follows, if it is another one.
    """
    serving = [] if found.served_by is None else _status(found.served_by)
    return Group(*_status(found), *serving, *(_part(each) for each in found.parts if each.rows))


def _part(found: StatusPart) -> Table:
    """Show an extension's part of the status."""
    table = Fitting(*found.headings)
    for row in found.rows:
        table.add_row(*map(escape, row.cells), style=None if row.is_healthy else "red")
    return table


def outcome(found: Status) -> Group:
    """Return the status of the generation that was run, for the terminal.

    Of another, serving generation only that it is not healthy.
    """
    serving = found.served_by
    own = _status(found.model_copy(update={"served_by": None}))
    if serving is None or serving.healthy:
        return Group(*own)
    health = "failed" if serving.live is None else serving.live.health
    return Group(
        *own,
        f"[yellow]Warning:[/] generation {serving.generation}, which is serving, is {health}: see "
        "`hybrid status P`.",
    )


def _status(found: Status) -> list[Table | str]:
    table = Fitting(
        "source", "state", "batch", "splits", "lag", "rows/s", "event time", "time left"
    )
    is_serving = found.generation in (None, found.serving)
    role = "" if is_serving else f" ({found.serving} is serving)"
    table.title = f"{found.pipeline}, generation {found.generation or 'none yet'}{role}"
    beats = [source.heartbeat for source in found.sources]
    every = {
        "bad records": [beat.bad_records if beat else 0 for beat in beats],
        "outside of event-time bounds": [beat.outside_records if beat else 0 for beat in beats],
        **{
            f"break `{rule}`": [beat.broken_rules.get(rule, 0) if beat else 0 for beat in beats]
            for rule in sorted({rule for beat in beats if beat for rule in beat.broken_rules})
        },
        "late rows": [(beat.late_rows or 0) if beat else 0 for beat in beats],
    }
    counts = {name: numbers for name, numbers in every.items() if any(numbers)}
    for name in counts:
        table.add_column(name, style="red" if name == "late rows" else None)
    for at, source in enumerate(found.sources):
        beat = source.heartbeat
        splits = ""
        if beat and beat.splits_total:
            splits = f"{beat.splits_done or 0:,}/{beat.splits_total:,}"
        table.add_row(
            source.source,
            source.state,
            "" if beat is None or beat.batch_id is None else str(beat.batch_id),
            splits,
            _lag(found, source),
            _rate(source),
            "" if beat is None or beat.event_time_ms is None else iso(beat.event_time_ms),
            time_left(source.eta_s) if source.eta_s else "",
            *(f"{numbers[at]:,}" for numbers in counts.values()),
        )
    return [table, *_lines_below(found)]


def _rate(source: SourceStatus) -> str:
    """Return the rate of a running source, in rows a second; empty if it is unknown."""
    beat = source.heartbeat
    # Spark counts none where tasks write the rows, so 0 is not shown as a rate.
    if beat is None or not beat.rows_per_s or source.state != "running":
        return ""
    return f"{beat.rows_per_s:,.0f}"


def _lines_below(found: Status) -> list[str]:
    """Return the lines below the table of a status, in Rich's markup."""
    lines = _verdict(found)
    if (lease := found.lease) is not None and lease.is_valid:
        role = "driver" if lease.is_driven else "launch"
        lines.append(
            f"The {role}, process {lease.pid} on {lease.host}, renewed its lease "
            f"{lease.age_s:.0f} s ago (epoch {lease.epoch})."
        )
    if (audited := found.audit) is not None:
        is_proved = audited.outcome == "passed"
        colour = "red" if audited.is_wrong else "green" if is_proved else "yellow"
        lines.append(f"[{colour}]{escape(audited.text)}[/]")
    unwatched = None
    if found.table_unknown is not None:
        unwatched = f"whether the captured table was altered is unknown: {found.table_unknown}"
    of_sources = [source.note for source in found.sources]
    narrowed = [f"{each}." for each in found.narrowed]
    notes = [
        found.transform_changed,
        found.settings_overruled,
        found.changed_since_launch,
        unwatched,
        *narrowed,
        *of_sources,
        *found.absent,
    ]
    lines += [f"[yellow]Warning:[/] {escape(note)}" for note in notes if note]
    for reading in (source.open_snapshot for source in found.sources):
        if reading is not None:
            lines.append(f"[yellow]{escape(reading[0].upper() + reading[1:])}.[/]")
    if (compared := found.compared) is not None:
        colour = "red" if compared.is_wrong else "green" if compared.is_answered else "yellow"
        lines.append(f"[{colour}]Compared:[/] {escape(compared.text)}")
    return [*lines, *(f"Followed: {escape(str(change))}" for change in found.followed)]


def _verdict(found: Status) -> list[str]:
    """Return how the runs are, in one line; none if nothing is known of them."""
    if found.waits_for_approval:
        return [f"[yellow]{HOW_TO_APPROVE}[/]"]
    if found.refused is not None:
        return [f"[red]failed[/]: {escape(str(found.refused))}"]
    if (live := found.live) is not None:
        is_waiting = live.health in ("starting", "paused", "stopped", "catching-up")
        colour = "red" if live.is_red else "yellow" if is_waiting else "green"
        return [f"[{colour}]{live.health}[/]: {escape(live.reason)}"]
    if all(each.state == "waiting" for each in found.sources):
        before = "" if found.planned else " Before, `hybrid plan P` shows what would be read."
        # Between a plan and the first report of Spark there is no trace of a run.
        return [f"Not started: `hybrid run P` starts it, unless that was just done.{before}"]
    beats = [source.heartbeat for source in found.sources]
    if failures := [str(each.failure) for each in beats if each is not None and each.failure]:
        return [escape(failures[-1])]
    return [
        f"[red]{each.state}[/]: {_ENDED[each.state].format(source=each.source)}"
        for each in found.sources
        if each.state in _ENDED
    ]


def _lag(found: Status, source: SourceStatus) -> str:
    """Return how much waits in the topic, or the folder, and in the database before it."""
    lag = "" if source.lag is None else f"{source.lag:,}"
    is_live = found.live is not None and source is found.sources[-1]
    unread = unread_of(found.live.numbers) if found.live and is_live else None
    return f"{lag} in the topic, {unread}" if unread else lag


def history(actions: list[LoggedAction]) -> Table:
    """Return the log of actions as a table: when, what, by whom, what changed, outcome."""
    table = Fitting("when", "action", "generation", "by", "change", "outcome")
    for each in actions:
        change = escape("\n".join(changes_in_words(each)))
        outcome = escape(each.outcome + (f": {each.error}" if each.error else ""))
        style = {"done": None, "begun": "yellow"}.get(each.outcome, "red")
        cells = (each.action, each.generation or "", escape(each.by), change, outcome)
        table.add_row(iso(each.at_ms), *cells, style=style)
    return table
