"""Command `hybrid accept`, by which a person accepts changes of the target by others."""

from __future__ import annotations

import typer

from orchestration.cli import panels
from orchestration.cli.output import AsJson, By, PipelineFile, answer, load, person

app = typer.Typer()


@app.command(rich_help_panel=panels.TABLE)
def accept(pipeline: PipelineFile, by: By = None, as_json: AsJson = False) -> None:
    """Accept changes of the target's rows that others made, such as a legal deletion.

    The pipeline then continues with them. A RESTORE can't be accepted.
    """
    with answer(as_json, "No row of the table was changed.") as show:
        from orchestration.supervision.belonging_finding import accept_changes

        accepted = accept_changes(load(pipeline), person(by))
        lines = [f"Accepted version {each.version}: {each.operation}." for each in accepted]
        document = {"ok": True, "accepted": [each.model_dump(mode="json") for each in accepted]}
        show(document, "\n".join(lines) or "Nothing had to be accepted.")
