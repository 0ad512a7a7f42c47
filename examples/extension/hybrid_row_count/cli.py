"""The command `hybrid count`."""

from __future__ import annotations

import typer

from orchestration.cli.output import AsJson, PipelineFile, answer, load

app = typer.Typer()


@app.command(name="count")
def count_rows(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Count the rows of a pipeline's table."""
    with answer(as_json) as show:
        # Imported here, so that other commands start as fast as without this extension.
        from hybrid_row_count.declare import count  # noqa: PLC0415

        rows = count(load(pipeline))
        show({"ok": True, "rows": rows}, f"{rows:,}")
