"""Command `hybrid demo`: pipelines of flights in a folder, with Dagster's UI and a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.output import answer

app = typer.Typer()


@app.command(rich_help_panel=panels.START)
def demo(
    folder: Annotated[
        Path, typer.Option(help="Folder of the demo's pipelines, and of all that they make.")
    ] = Path("hybrid-demo"),
    no_ui: Annotated[
        bool, typer.Option("--no-ui", help="Run both pipelines, audit their tables, and end.")
    ] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Begin again.")] = False,
) -> None:
    """Run the demo: nine months of flights from files, then the feed of a topic, in one table.

    With Dagster's UI, until Ctrl-C; a broker is started for it. Needs the extra `demo`, and Java.
    """
    with answer(as_json=False):
        from spark_jobs.jvm.java import require_java

        # Before Dagster is loaded, which takes seconds.
        require_java()
        from hybrid_demo.demo import start

        status = start(folder, has_ui=not no_ui, reset=reset)
    raise typer.Exit(status)
