"""Command `hybrid change-log`: write and serve a change log until Ctrl-C or SIGTERM."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.interrupts import sigterm_interrupts
from orchestration.cli.output import answer, tell

app = typer.Typer()


@app.command("change-log", rich_help_panel=panels.MORE)
def change_log(
    file: Annotated[Path, typer.Argument(help="The log's YAML file.", metavar="FILE")],
) -> None:
    """Write a database's changes to files and serve them as Kafka does, until Ctrl-C or SIGTERM.

    Pipelines read it with its address as `bootstrap_servers`.
    """
    with answer(as_json=False), sigterm_interrupts():
        from hybrid_extensions.change_log.declare import load_log
        from hybrid_extensions.change_log.run import run

        run(load_log(file), tell)
