"""Report of an audit on a terminal: verdict, counts, examples, hand-over and bad records."""

from __future__ import annotations

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from orchestration.cli.fitting_table import Fitting
from orchestration.comparison.report import AuditReport, BadLine, LedgerLine
from sources.common.counting import counted

_COLOURS = {"agrees": None, "differs": "red", "unknown": "yellow"}
_VERDICTS = {
    "passed": "[green]Passed:[/] the table is proved right.",
    "failed": "[red]Failed:[/] the table, or what the runs say about it, is wrong.",
    "unknown": "[yellow]Unknown:[/] nothing wrong was found, but not everything could be checked.",
}


def audit(report: AuditReport) -> Group:
    """Return an audit's report for the terminal: counts, examples, recounts and notes."""
    names = ("expected", "found", "missing", "duplicated", "different", "unexpected", "ambiguous")
    document = report.to_dict()
    table = Fitting(*names, title=f"Audit of {report.pipeline}")
    table.add_row(*(f"{document[name]:,}" for name in names))
    shown = [
        f"[red]{kind}[/]: {escape(str(row))}"
        for kind, rows in report.examples.items()
        for row in rows
    ]
    parts: list[Table | str] = [table, *shown]
    if report.ledger:
        parts.append(_seam(report.ledger))
    parts.extend(_bad(line) for line in report.bad_records)
    parts.extend(f"[yellow]Not checked:[/] {escape(text)}" for text in report.unchecked)
    parts.extend(f"[yellow]Note:[/] {escape(text)}" for text in report.notes)
    parts.append(_VERDICTS[report.outcome])
    return Group(*parts)


def _bad(line: BadLine) -> str:
    done = "dropped" if line.policy == "drop" else "quarantined"
    by_runs = f"; {line.reason}" if line.policy == "fail" else "; no run has counted"
    if line.counted is not None:
        by_runs = f", {line.counted:,} {done} by the runs"
    lacking = ""
    if line.lacking:
        missing = counted(line.lacking, "is missing", "are missing")
        lacking = f"; {missing} from the quarantine table"
    whats = {"unreadable": "Bad records", "outside": "Event times that don't count"}
    what = whats.get(line.kind, f"Rows that break `{line.kind.partition('.')[2]}`")
    text = f"{what} of `{line.source}`: {line.found:,} found by the audit{by_runs}{lacking}."
    colour = _COLOURS[line.outcome]
    if colour is None:
        return text
    return f"[{colour}]{text}[/]"


def _seam(lines: list[LedgerLine]) -> Table:
    names = ("source", "topic", "partition", "start", "first record", "rows in the seam")
    more = ("also in history", "removed", "from no source", "outcome")
    table = Fitting(*names, *more, title="Hand-over: rows that the audit counts")
    for line in lines:
        place = (line.source, line.topic, line.partition, line.start, line.first_offset)
        counts = (line.seam_rows, line.delivered, line.removed, line.before_start)
        cells = (
            *("" if value is None else str(value) for value in place),
            *("" if value is None else f"{value:,}" for value in counts),
        )
        outcome = line.outcome if line.reason is None else f"{line.outcome}: {line.reason}"
        table.add_row(*cells, escape(outcome), style=_COLOURS[line.outcome])
    return table
