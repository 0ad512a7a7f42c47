"""Commands `hybrid tables` (a file for each new table) and `hybrid snapshot` (copy into files)."""

from __future__ import annotations

import typer

from orchestration.cli import panels
from orchestration.cli.output import NOTHING_CHANGED, AsJson, PipelineFile, answer, load

app = typer.Typer()


@app.command(rich_help_panel=panels.START)
def tables(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Look for the tables of a file with `tables`, and make a pipeline's file for each new one.

    Exit status 1 if a table can't be captured. Files that were made before stay as they are.
    """
    with answer(as_json, NOTHING_CHANGED) as show:
        from hybrid_extensions.cdc.tables import table_pipelines
        from hybrid_extensions.cdc.tables.template import Template

        found = table_pipelines.find(Template(pipeline))
        known = [f"{table}: has a pipeline." for table in found.known]
        document = {"ok": not found.refused, **found._asdict()}
        show(document, "\n".join([*known, *found.lines()]))


@app.command(rich_help_panel=panels.RUN)
def snapshot(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Copy the database tables that a pipeline starts from into files.

    An interrupted copy resumes where it stopped.
    """
    with answer(as_json) as show:
        from orchestration.chain import ChainRun, SnapshotStep
        from orchestration.cli.console import Lines

        outcome = SnapshotStep(is_whole=True).run(ChainRun(load(pipeline), Lines()))
        show({"ok": True, **outcome.document}, outcome.text)
