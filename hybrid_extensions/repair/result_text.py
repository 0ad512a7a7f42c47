"""Text of a repair's result for the terminal."""

from __future__ import annotations

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from hybrid_extensions.repair.result import RepairResult
from orchestration.cli.fitting_table import Fitting


def shown(result: RepairResult) -> Group:
    """Return the result of a repair for the terminal: sentences, columns that differ, some keys."""
    parts: list[Table | str] = [escape(result.text)]
    if result.found.columns:
        table = Fitting("column", "rows that differ")
        for name, count in result.found.columns.items():
            table.add_row(escape(name), f"{count:,}")
        parts.append(table)
    parts += map(escape, result.found.keys)
    parts += [escape(f"impossible position {key}") for key in result.found.impossible_keys]
    if result.found.to_repair and not result.is_applied:
        parts.append("Nothing was written: `hybrid repair P --apply` does it.")
    return Group(*parts)
