"""Command `hybrid try`, which runs a pipeline on a sample of its keys and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.interrupts import sigterm_interrupts
from orchestration.cli.output import NOTHING_CHANGED, AsJson, PipelineFile, answer, load

app = typer.Typer()


@app.command(name="try", rich_help_panel=panels.START)
def try_(  # noqa: PLR0913, PLR0917 - each is an option
    pipeline: PipelineFile,
    keys: Annotated[str, typer.Option(help="Which part of the keys to read, such as `1%`.")],
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Column whose values are the keys; may be repeated. Else the pipeline's `key`."
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="First event time: a date, or a time with a zone.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="First event time after the sample.")] = None,
    keep: Annotated[
        Path | None, typer.Option(help="New folder to keep the table in; else it is removed.")
    ] = None,
    rows: Annotated[int, typer.Option(min=0, help="Number of rows to show.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Try a pipeline, as its file is now, on a sample of its keys; nothing of it is touched.

    Files and topic are read by one query, as in a real run, into a table that is removed
    afterwards. It is compared with the audit's computation over the same sample, and with the table
    that serves. Exit status 1 if the audit fails.
    """
    with answer(as_json, NOTHING_CHANGED) as show, sigterm_interrupts():
        from hybrid_extensions.trial import tables as sample_tables
        from hybrid_extensions.trial.run import try_sample
        from hybrid_extensions.trial.sample_pipeline import SampleOptions, parse_share
        from orchestration.cli import console
        from sources.common.fields import parse_instant

        options = SampleOptions(
            share=parse_share(keys),
            by=tuple(by or []),
            since=None if since is None else parse_instant(since),
            until=None if until is None else parse_instant(until),
            keep=keep,
        )
        loaded = load(pipeline)
        with console.progress(loaded) as observer:
            found = try_sample(loaded, options, observer, rows)
        show(found.to_dict(), sample_tables.sample(found))
