"""Table whose values are never truncated: if it is too wide, each row becomes a block of lines."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

_WIDEST = 10_000


class Fitting(Table):
    """Table that shows each row as a block of lines, one per value, if it is too wide."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the table for a terminal."""
        needed = self.__rich_measure__(console, options.update(max_width=_WIDEST)).maximum
        if needed <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        if self.title:
            yield console.render_str(str(self.title), style="table.title")
        names = [str(column.header) for column in self.columns]
        for at, cells in enumerate(zip(*(column.cells for column in self.columns), strict=True)):
            block = Table.grid(padding=(0, 2))
            block.add_column(no_wrap=True, style="bold")
            block.add_column(overflow="fold")
            for name, cell in zip(names, cells, strict=True):
                if cell != "":
                    block.add_row(Text(name), cell)
            block.style = self.rows[at].style or ""
            yield block
            yield Text()
