"""Command `hybrid compare`: whole table and database, row by row; an alteration is withdrawn."""

from __future__ import annotations

import typer

from orchestration.cli import panels
from orchestration.cli.output import (
    NOTHING_CHANGED,
    AsJson,
    GenerationName,
    PipelineFile,
    answer,
    load_acting,
    tell,
)

app = typer.Typer()


@app.command(rich_help_panel=panels.TABLE)
def compare(
    pipeline: PipelineFile, generation: GenerationName = None, as_json: AsJson = False
) -> None:
    """Compare a generation's table with the database table that it captures, row by row.

    Rows that differ are looked at again until changes on their way to the table have arrived; those
    that differ then turn `hybrid status` red, and the exit status is 1.
    """
    with answer(as_json, NOTHING_CHANGED) as show:
        from hybrid_extensions.cdc.databases.altered_table import withdraw_alteration
        from hybrid_extensions.cdc.databases.table_watch import inspect_uncompared
        from hybrid_extensions.compare.compare_source import compare_with_source
        from hybrid_extensions.compare.compare_whole import compared_in_words, keep_compared
        from hybrid_extensions.compare.live_run_state import look_at_run
        from hybrid_extensions.comparison.compared_tables import of_one_generation
        from sources.common.times import now_ms
        from sources.planning.context import PipelineContext
        from sources.serving import declared_generation, generation_with_role

        loaded = of_one_generation(load_acting(pipeline, generation))
        context = PipelineContext.find(loaded)
        # Before the rows are read: what is altered after that is found later.
        seen = None if context is None else inspect_uncompared(context.loaded, context.generation)
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
