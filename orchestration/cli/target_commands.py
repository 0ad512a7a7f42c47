"""Commands about a pipeline's target table: rebuild it, accept changes of it."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.interrupts import sigterm_interrupts
from orchestration.cli.output import (
    AsJson,
    By,
    PipelineFile,
    answer,
    load,
    person,
    tell,
)

app = typer.Typer()


@app.command(rich_help_panel=panels.TABLE)
def accept(
    pipeline: PipelineFile,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Accept changes of the target's rows that others made, such as a legal deletion.

    The pipeline then continues with them. A RESTORE can't be accepted.
    """
    with answer(as_json) as show:
        from orchestration.supervision.belonging_finding import accept_changes

        loaded = load(pipeline)
        accepted = accept_changes(loaded, person(by))
        lines = [f"Accepted version {each.version}: {each.operation}." for each in accepted]
        document = {"ok": True, "accepted": [each.model_dump(mode="json") for each in accepted]}
        show(document, "\n".join(lines) or "Nothing had to be accepted.")


@app.command(rich_help_panel=panels.TABLE)
def rerun(
    pipeline: PipelineFile,
    promote: Annotated[bool, typer.Option(help="Promote it if it passes.")] = True,
    rows_at_least: Annotated[
        float,
        typer.Option(help="Its rows divided by those of the serving table, at least.", min=0),
    ] = 0.99,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Recompute the whole table as a new generation, then let readers see it.

    The old table serves until the new one has caught up and has enough rows.
    """
    with answer(as_json) as show, sigterm_interrupts():
        from orchestration.generations.lifecycle import rerun as recompute

        served = recompute(
            load(pipeline),
            promote=promote,
            rows_at_least=rows_at_least,
            say=tell,
            by=person(by),
        )
        document = {"ok": True, "serving": served.generation}
        show(document, f"Readers see generation {served.generation}.")
