"""Commands about a pipeline's target table: compare it, rebuild it, accept changes of it."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.interrupts import sigterm_interrupts
from orchestration.cli.output import (
    AsJson,
    By,
    GenerationName,
    PipelineFile,
    answer,
    load,
    load_acting,
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


@app.command(rich_help_panel=panels.TABLE)
def compare(
    pipeline: PipelineFile, generation: GenerationName = None, as_json: AsJson = False
) -> None:
    """Compare a generation's table with the database table that it captures, row by row.

    Rows that differ are looked at again until changes on their way to the table have arrived; those
    that differ then turn `hybrid status` red, and the exit status is 1.
    """
    with answer(as_json) as show:
        from orchestration.audit.database.compare_source import compare_with_source
        from orchestration.audit.database.compare_whole import compared_in_words, keep_compared
        from orchestration.supervision.live_run_state import look_at_run
        from sources.common.positions import now_ms
        from sources.databases.altered_table import withdraw_alteration
        from sources.databases.table_watch import observe_anew
        from sources.planning.context import PipelineContext
        from sources.serving import declared_generation, generation_with_role

        loaded = load_acting(pipeline, generation)
        context = PipelineContext.find(loaded)
        # Before the rows are read: what is altered after that is found later.
        seen = None if context is None else observe_anew(context.loaded, context.generation)
        begun_ms = now_ms()
        found = compare_with_source(loaded)
        is_withdrawn, again = False, None
        if context is not None:
            again = keep_compared(context, found, begun_ms, lambda: look_at_run(loaded), tell)
            if seen is not None and found.ok:
                withdraw_alteration(context.generation, seen)
                is_withdrawn = True
        is_equal = found.ok or (again is not None and again.differing == 0)
        lines = [
            f"Generation {generation_with_role(loaded)}.",
            *compared_in_words(found, again),
            *(
                ["The table was altered, and no row differs: `hybrid resume P` if its run stopped."]
                * is_withdrawn
            ),
        ]
        document = {"generation": declared_generation(loaded), **found.to_dict(), "ok": is_equal}
        show(document, "\n".join(lines))
