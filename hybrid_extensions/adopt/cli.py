"""Command `hybrid adopt`: a pipeline's first generation begins with an existing table."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.output import AsJson, By, PipelineFile, answer, load, person, tell

app = typer.Typer()


@app.command(rich_help_panel=panels.START)
def adopt(  # noqa: PLR0913, PLR0917 - an option each
    pipeline: PipelineFile,
    from_commits: Annotated[
        bool, typer.Option("--from-commits", help="Go on where the table's commits say.")
    ] = False,
    offsets: Annotated[
        str | None,
        typer.Option(
            help="First offset of each partition whose record is not in the table, such as "
            '`{"0": 17}`.'
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Records from this time on are not in the table, all before are."),
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="Version of the table; by default the newest.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Adopt the table; else only show it.")
    ] = False,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Begin with the table that is at `sink.path`, in place of history, and continue from there.

    The table may be another tool's, or the pipeline's own whose state was lost. Without `--apply`
    nothing is written.
    """
    with answer(as_json) as show:
        from hybrid_extensions.adopt.position import Asked
        from hybrid_extensions.adopt.run import adopt as take
        from hybrid_extensions.adopt.run import look

        asked = Asked.of(offsets, time, version, from_commits=from_commits)
        loaded = load(pipeline)
        found = take(loaded, asked, tell, person(by)) if apply else look(loaded, asked, tell)
        show(found.to_dict(), found.text)
