"""Command `hybrid audit`: compare a table with all input, or accept a failure (`--accept`)."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.output import (
    NOTHING_CHANGED,
    AsJson,
    By,
    GenerationName,
    PipelineFile,
    answer,
    load_acting,
    person,
    tell,
)

app = typer.Typer()


@app.command(rich_help_panel=panels.TABLE)
def audit(
    pipeline: PipelineFile,
    generation: GenerationName = None,
    accept: Annotated[
        str | None,
        typer.Option(help="Audit nothing: accept that the last audit failed, for this reason."),
    ] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Compare a generation's table with an independent computation over all input.

    The verdict is kept: `hybrid status` and Dagster show one that failed as red until another audit
    passes, or somebody accepts it.
    """
    with answer(as_json, NOTHING_CHANGED) as show:
        from hybrid_extensions.audit.acceptance import accept_audit
        from hybrid_extensions.audit.run import audit as compare_with_input
        from hybrid_extensions.comparison import terminal as comparison_terminal
        from hybrid_extensions.comparison.compared_tables import of_one_generation
        from hybrid_extensions.comparison.keeping_audits import keep_audit
        from sources.serving import declared_generation, generation_with_role

        loaded = load_acting(pipeline, generation)
        if accept is not None:
            accepted = accept_audit(loaded, accept, person(by))
            show({"ok": True, **accepted.model_dump(mode="json")}, accepted.text)
            return
        loaded = of_one_generation(loaded)
        report = compare_with_input(loaded)
        typer.echo(f"Audit of generation {generation_with_role(loaded)}.", err=True)
        show(
            {"generation": declared_generation(loaded), **report.to_dict()},
            comparison_terminal.audit(report),
        )
        for note in keep_audit(loaded, report).notes[len(report.notes) :]:
            tell(note)
