"""Generations and their comparison as tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from orchestration.cli.fitting_table import Fitting
from sources.common.times import iso

if TYPE_CHECKING:
    from hybrid_extensions.generations.comparison.compare_generations import GenerationComparison
    from hybrid_extensions.generations.overview import GenerationLine


def generations(lines: list[GenerationLine]) -> Table:
    """Return a pipeline's generations as a table: role, times, who promoted each, and its table."""
    table = Fitting("generation", "role", "begun", "until", "by", "table")
    for line in lines:
        until = "" if line.until_ms is None else iso(line.until_ms)
        style = "green" if line.role == "serving" else None
        cells = (
            line.name,
            line.role,
            iso(line.begun_ms),
            until,
            escape(line.by or ""),
            escape(line.table),
        )
        table.add_row(*cells, style=style)
    return table


def comparison(found: GenerationComparison) -> Group:
    """Return a comparison of the newest generation with the serving one, for the terminal."""
    colour = "green" if found.passed else "yellow"
    parts: list[Table | str] = [f"[{colour}]{escape(found.text)}[/]"]
    if found.columns:
        table = Fitting("column", "changed rows", "values")
        for each in found.columns:
            table.add_row(escape(each.column), f"{each.changed:,}", escape(each.moved))
        parts.append(table)
    parts += [escape(f"{kind}: {row}") for kind, rows in found.examples.items() for row in rows]
    if found.audit_misfit is not None:
        parts.append(f"[yellow]An audit would be refused:[/] {escape(found.audit_misfit)}")
    if found.not_ready is not None:
        parts.append(f"[yellow]Compare again later:[/] {escape(found.not_ready)}")
    begin = "To let" if found.not_ready is None else "Once that is done, to let"
    parts.append(
        f"{begin} readers see {found.candidate}: `hybrid generation promote P`; to delete it: "
        "`hybrid generation discard P`."
    )
    return Group(*parts)
