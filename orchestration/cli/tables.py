"""Answers of commands as tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from orchestration.progress import forecast
from sources.common.positions import iso
from sources.planning.approval import how_to_approve

if TYPE_CHECKING:
    from orchestration.audit.compare_generations import GenerationComparison
    from orchestration.audit.report import AuditReport, BadLine, LedgerLine
    from orchestration.generations.lifecycle import GenerationLine
    from orchestration.progress.plan_preview import Preview
    from orchestration.supervision.status import Status
    from sources.planning.plan import Plan
    from sources.planning.topic_plan import TopicPlan


def plan(made: Plan, seen: Preview) -> Group:
    """Show a plan: what is read, how long it takes, and where the topic is expected to start."""
    names = ("source", "splits", "bytes", "rows", "event time", "complete through")
    files = Table(*names, "out-of-orderness", title=f"Plan of {made.pipeline}")
    for part in made.files:
        files.add_row(
            part.source,
            f"{part.splits:,}",
            f"{part.bytes:,}",
            "unknown" if part.rows is None else f"{part.rows:,}",
            f"{iso(part.event_min_ms)} … {iso(part.end.event_time_ms)}",
            iso(part.end.complete_through_ms),
            f"{part.disorder_ms / 1000:,.0f} s",
        )
    if (folder := made.folder) is not None:
        rows = "unknown" if folder.rows is None else f"{folder.rows:,}"
        sizes = (f"{folder.splits:,}", f"{folder.bytes:,}", rows)
        files.add_row(folder.source, *sizes, "so far", "never", "")
    parts: list[Table | str] = [files, f"Estimate: {escape(forecast.describe(seen.estimate))}."]
    parts.append(_schemas(seen))
    for topic in made.topics:
        parts.append(_starts(topic))
        parts.append(
            f"Duplicates between {topic.source} and history are removed by: {topic.seam_rule}."
        )
        parts.extend(f"Retention: {room}." for room in topic.headroom[:1])
    if seen.previous is not None:
        parts.append(_changes(seen))
    parts.extend(
        f"[yellow]Warning {number} of {len(made.warnings)}:[/] {text}"
        for number, text in enumerate(made.warnings, 1)
    )
    return Group(*parts)


def _schemas(seen: Preview) -> Table:
    sources = dict.fromkeys(source for of in seen.schemas.values() for source in of)
    table = Table("column", *sources, title="Columns, source by source")
    for name, of in seen.schemas.items():
        table.add_row(name, *(of.get(source, "") for source in sources))
    return table


def _changes(seen: Preview) -> Table | str:
    if not seen.changes:
        return f"Nothing differs from the plan of {seen.previous}."
    table = Table("source", "figure", "before", "now", title=f"Changes since {seen.previous}")
    for change in seen.changes:
        table.add_row(change.source, change.what, escape(change.before), escape(change.now))
    return table


def _starts(topic: TopicPlan) -> Table:
    starts = Table("topic", "partition", "log start", "start", "until", "log end", "why")
    starts.title = f"{topic.source}: expected start"
    for at, part in sorted(topic.expected_start.partitions.items()):
        starts.add_row(
            at.topic,
            str(at.partition),
            str(part.log_start),
            str(part.start),
            "" if topic.range is None else str(topic.range.ends[at]),
            str(part.log_end),
            part.reason,
        )
    return starts


def status(found: Status) -> Group:
    """Show the state of each source, and the same of the serving generation if that is another."""
    serving = [] if found.served_by is None else [_status(found.served_by)]
    return Group(_status(found), *serving)


def _status(found: Status) -> Table:
    table = Table("source", "state", "batch", "splits", "lag", "rows/s", "event time", "time left")
    is_serving = found.generation in (None, found.serving)
    role = "" if is_serving else f" ({found.serving} is serving)"
    table.title = f"{found.pipeline}, generation {found.generation or 'none yet'}{role}"
    counts = [source.heartbeat.bad_records if source.heartbeat else 0 for source in found.sources]
    if any(counts):
        table.add_column("bad records")
    for source, bad in zip(found.sources, counts, strict=True):
        beat = source.heartbeat
        splits = f"{beat.splits_done}/{beat.splits_total}" if beat and beat.splits_total else ""
        table.add_row(
            source.source,
            source.state,
            "" if beat is None or beat.batch_id is None else str(beat.batch_id),
            splits,
            "" if source.lag is None else f"{source.lag:,}",
            "" if beat is None or beat.rows_per_s is None else f"{beat.rows_per_s:,.0f}",
            "" if beat is None or beat.event_time_ms is None else iso(beat.event_time_ms),
            "" if source.eta_s is None else forecast.duration(source.eta_s),
            *([f"{bad:,}"] if any(counts) else []),
        )
        if beat is not None and beat.failure:
            table.caption = escape(str(beat.failure))
    if (live := found.live) is not None:
        is_waiting = live.health in ("starting", "paused")
        colour = "red" if live.is_red else "yellow" if is_waiting else "green"
        table.caption = f"[{colour}]{live.health}[/]: {escape(live.reason)}"
    if found.waits_for_approval:
        table.caption = f"[yellow]{how_to_approve(found.pipeline)}[/]"
    if (changed := found.transform_changed) is not None:
        before = f"{table.caption}\n" if table.caption else ""
        table.caption = f"{before}[yellow]Warning:[/] {escape(changed)}"
    return table


def audit(report: AuditReport) -> Group:
    """Show the counts of an audit, examples of what differs, and its recounts and notes."""
    names = ("expected", "found", "missing", "duplicated", "different", "unexpected")
    document = report.to_dict()
    table = Table(*names, title=f"Audit of {report.pipeline}")
    table.add_row(*(f"{document[name]:,}" for name in names))
    shown = [
        f"[red]{kind}[/]: {row}" for kind, rows in document["examples"].items() for row in rows
    ]
    parts: list[Table | str] = [table, *shown]
    if report.ledger:
        parts.append(_seam(report.ledger))
    parts.extend(_bad(line) for line in report.bad_records)
    parts.extend(f"[yellow]Note:[/] {text}" for text in report.notes)
    return Group(*parts)


def generations(lines: list[GenerationLine]) -> Table:
    """Show a pipeline's generations, a row for each: role, times and table."""
    table = Table("generation", "role", "begun", "until", "table")
    for line in lines:
        until = "" if line.until_ms is None else iso(line.until_ms)
        style = "green" if line.role == "serving" else None
        table.add_row(line.name, line.role, iso(line.begun_ms), until, line.table, style=style)
    return table


def comparison(found: GenerationComparison) -> Group:
    """Show how the newest generation's table differs from the serving one: counts and examples."""
    table = Table("generation", "rows")
    table.title = f"{found.pipeline}: {found.candidate} compared with {found.serving} (serving)"
    for name, rows in found.rows.items():
        table.add_row(name, f"{rows:,}")
    lines = [
        f"Rows of {found.candidate}: {found.missing:,} missing, {found.added:,} added, "
        f"{found.changed:,} changed."
    ]
    lines += [
        f"Columns {what}: {', '.join(names)}."
        for what, names in (("missing", found.columns_missing), ("added", found.columns_added))
        if names
    ]
    shown = [escape(f"{kind}: {row}") for kind, rows in found.examples.items() for row in rows]
    return Group(table, *lines, *shown)


def _bad(line: BadLine) -> str:
    done = "dropped" if line.policy == "drop" else "quarantined"
    counted = "; no run has counted"
    if line.counted is not None:
        counted = f", {line.counted:,} {done} by the runs"
    lacking = f"; {line.lacking:,} are missing from the quarantine table" if line.lacking else ""
    text = f"Bad records of `{line.source}`: {line.found:,} found by the audit{counted}{lacking}."
    return text if line.agrees else f"[red]{text}[/]"


def _seam(lines: list[LedgerLine]) -> Table:
    names = ("source", "topic", "partition", "start", "first record", "rows in the seam")
    more = ("also in history", "removed", "from no source")
    table = Table(*names, *more, title="Hand-over: rows that the audit counts")
    for line in lines:
        values = (
            line.source,
            line.topic,
            line.partition,
            line.start,
            line.first_offset,
            line.seam_rows,
            line.delivered,
            line.removed,
            line.before_start,
        )
        cells = ("" if value is None else str(value) for value in values)
        table.add_row(*cells, style=None if line.agrees else "red")
    return table
