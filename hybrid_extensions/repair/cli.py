"""Command `hybrid repair`, which repairs a captured table in place."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.output import AsJson, By, PipelineFile, answer, load, person, tell

app = typer.Typer()


@app.command(rich_help_panel=panels.TABLE)
def repair(  # noqa: PLR0913, PLR0917 - each is an option
    pipeline: PipelineFile,
    where: Annotated[
        str | None,
        typer.Option(help="Only rows that meet this SQL condition, such as `id IN (3, 5)`."),
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(
            help="Only these keys: a CSV or Parquet file with the columns of the key, or JSON: "
            "`3, 5`, or `[1, 2], [1, 3]`."
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Write the rows; else only show how many.")
    ] = False,
    within: Annotated[
        str,
        typer.Option(help="How long to wait for open transactions, and for the live run."),
    ] = "10 min",
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Write rows of the target that differ from the database table that it captures.

    The live stream continues, and its later changes win. Without `--apply` nothing is written.
    """
    with answer(as_json) as show:
        from hybrid_extensions.repair.result_text import shown
        from hybrid_extensions.repair.run import look
        from hybrid_extensions.repair.run import repair as write
        from sources.common.durations import parse_duration

        loaded, limit = load(pipeline), parse_duration(within)
        found = (
            write(loaded, limit, where, tell, person(by), keys)
            if apply
            else look(loaded, limit, where, tell, keys)
        )
        show(found.to_dict(), shown(found))
