"""Tables of `hybrid try` for the terminal: columns, first rows, and comparisons of a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from hybrid_extensions.comparison import terminal as comparison_terminal
from orchestration.cli.fitting_table import Fitting
from orchestration.comparison.report import example_text
from sources.common.counting import counted
from sources.common.durations import duration

if TYPE_CHECKING:
    from hybrid_extensions.trial.run import SampleRun


def sample(found: SampleRun) -> Group:
    """Return a trial's result for the terminal: columns, first rows, and both comparisons."""
    parts: list[Group | Table | str] = [
        escape(f"{found.pipeline}: {_read(found)}"),
        _columns(found),
    ]
    if found.examples:
        parts.append(_rows(found))
    if found.audit is not None:
        parts.append(comparison_terminal.audit(found.audit))
    else:
        parts.append(f"[yellow]Not audited:[/] {escape(found.not_audited or '')}")
    if found.serving is None:
        why = escape(found.not_compared or "")
        parts.append(f"[yellow]Not compared with the table that serves:[/] {why}")
    else:
        parts.append(escape(f"{found.serving.text[0].upper()}{found.serving.text[1:]}."))
        parts += [
            escape(f"  {kind}: {example}")
            for kind, examples in found.serving.examples.items()
            for example in examples[:3]
        ]
    parts += [f"[yellow]Warning:[/] {escape(text)}" for text in found.plan_warnings]
    kept = "" if found.table is None else f" The table is kept in {found.table}."
    parts.append(escape(f"It took {duration(found.seconds)}.{kept}"))
    return Group(*parts)


def _read(found: SampleRun) -> str:
    declared = found.sample
    what = f"{declared.share * 100:g}% of the values of {', '.join(declared.by)}"
    for word, moment in (("from", declared.since), ("until", declared.until)):
        what += "" if moment is None else f", {word} {moment:%Y-%m-%d %H:%M:%S} UTC"
    sources = ", ".join(f"{count:,} in {name}" for name, count in found.read.items())
    return f"{what}; {f'{sources}; ' if sources else ''}{counted(found.rows, 'row')} in the table."


def _columns(found: SampleRun) -> Table:
    table = Fitting("column", "type", title="Columns")
    for name, kind in found.columns.items():
        table.add_row(escape(name), escape(kind))
    return table


def _rows(found: SampleRun) -> Table:
    table = Fitting(title=f"The first {counted(len(found.examples), 'row')}")
    for name in found.columns:
        table.add_column(escape(name), overflow="fold")
    for row in found.examples:
        table.add_row(*(escape(example_text(value)) for value in row.values()))
    return table
