"""Command `hybrid export feast`: entities, feature view and source, for a Feast repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.output import AsJson, PipelineFile, answer, load_acting

app = typer.Typer()
_export = typer.Typer(no_args_is_help=True, help="Describe the table for other tools.")
app.add_typer(_export, name="export", rich_help_panel=panels.MORE)


@_export.callback()
def _of_tools() -> None:
    """Describe the table for other tools."""


@_export.command()
def feast(
    pipeline: PipelineFile,
    out: Annotated[
        Path, typer.Option(help="Folder of the Feast repository, made if it is not there.")
    ] = Path("feature_repo"),
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="Column that identifies what features are of; may be repeated. "
            "Else those of `sink.key` that are no times."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write entities, feature view and source of the table, and the settings of a Feast store.

    Feast then reads the Delta table itself for training. `feast apply` registers what was written.
    """
    with answer(as_json, "The table was not changed.") as show:
        from hybrid_extensions.feast.feature_view import view_of
        from hybrid_extensions.feast.repository import write_repository
        from sources.errors import leaving

        with leaving("Nothing was written."):
            view = view_of(load_acting(pipeline, None, as_kept=True), key or [])
        files = write_repository(view, out)
        lines = [f"Written: {', '.join(map(str, files))}.", *view.notes]
        lines.append(
            f"Register it: `feast -c {out} apply`. For serving bring values into Feast's online "
            f"store: `feast -c {out} materialize-incremental $(date -u +%FT%TZ)`; what `feeds` "
            "writes has another form."
        )
        document = {"ok": True, "files": [str(each) for each in files], "notes": view.notes}
        show(document, "\n".join(lines))
