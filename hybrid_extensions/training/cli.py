"""Command that joins labels with what was known at their times."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.output import AsJson, GenerationName, PipelineFile, answer, load_acting

app = typer.Typer()


@app.command(rich_help_panel=panels.MORE)
def training(  # noqa: PLR0913, PLR0917 - each is an option
    pipeline: PipelineFile,
    labels: Annotated[
        Path, typer.Option(help="Parquet file with key, time and label of each row.")
    ],
    out: Annotated[Path, typer.Option(help="Parquet file to write, replaced if it exists.")],
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="Column that labels and table share; may be repeated. Else those of `sink.key`."
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Column with the time of a label; else the event time's name."),
    ] = None,
    known_at: Annotated[
        str | None,
        typer.Option(
            help="Column of the table: when a row became known; else `known_at`, or the event time."
        ),
    ] = None,
    generation: GenerationName = None,
    as_json: AsJson = False,
) -> None:
    """Write labels with the values of the table that were known at their times.

    For training: a label gets the last row of its key that was known at its time, never a later
    one.
    """
    with answer(as_json) as show:
        from hybrid_extensions.training.columns import Asked
        from hybrid_extensions.training.point_in_time import read_labels, training_set, write_rows

        loaded = load_acting(pipeline, generation, as_kept=True)
        made = training_set(loaded, read_labels(labels), Asked(key or None, time, known_at))
        write_rows(made, out)
        counts = {"labels": len(made.rows), "known": made.known}
        text = f"Written: {out}, {len(made.rows):,} labels, {made.known:,} with known values."
        document = {"ok": True, "file": str(out), **counts, "notes": made.notes}
        show(document, "\n".join([text, *made.notes]))
