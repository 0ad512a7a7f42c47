"""Command `hybrid report`, which writes a report as an HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.output import (
    NOTHING_CHANGED,
    AsJson,
    GenerationName,
    PipelineFile,
    answer,
    load_acting,
)

app = typer.Typer()


@app.command(rich_help_panel=panels.LOOK)
def report(
    pipeline: PipelineFile,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write, replaced if it exists; else `<name>-report.html` here."),
    ] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Audit the table now.")] = False,
    generation: GenerationName = None,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page about a pipeline: plan, seam, audit, generations and status, for tickets.

    What is not there yet is named on the page. It has no rows of the table and no credentials.
    """
    with answer(as_json, NOTHING_CHANGED) as show:
        from hybrid_extensions.report.collect import collect
        from hybrid_extensions.report.page import render, require_file, write

        loaded = load_acting(pipeline, generation, as_kept=True)
        path = require_file(out or Path(f"{loaded.pipeline.name}-report.html"))
        write(render(collect(loaded, with_audit=audit), loaded), path)
        show({"ok": True, "file": str(path)}, f"Written: {path}")
