"""Command `hybrid metrics`, which serves the metrics of pipelines to Prometheus until Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.interrupts import sigterm_interrupts
from orchestration.cli.output import NOTHING_CHANGED, answer, load

app = typer.Typer()


@app.command(rich_help_panel=panels.LOOK)
def metrics(
    pipelines: Annotated[
        list[Path], typer.Argument(help="The pipelines' YAML files.", metavar="PIPELINE…")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for a free one.")] = 9464,
    host: Annotated[
        str, typer.Option(help="Address to listen on; this machine only by default.")
    ] = "127.0.0.1",
) -> None:
    """Serve `/metrics` for Prometheus until Ctrl-C: what `hybrid status` says, as numbers.

    Each scrape looks at the state of the pipelines, and asks their brokers for the lag.
    """
    with answer(as_json=False, effect=NOTHING_CHANGED):
        from hybrid_extensions.metrics.server import serve

        with serve(each_once(pipelines), host, port) as url, sigterm_interrupts():
            typer.echo(f"Metrics are at {url}; Ctrl-C ends it.", err=True)
            threading.Event().wait()


def each_once(paths: Sequence[Path]) -> list[Path]:
    """Return the files of pipelines without those that are named again, in another way or the same.

    Prometheus refuses a page that has a series twice.

    Args:
        paths: The files.

    Raises:
        InputError: A file can't be read or is invalid, or two files have pipelines of one name.
    """
    from sources.errors import InputError

    files = dict[str, Path]()
    for path in paths:
        name = load(path).pipeline.name
        if not files.setdefault(name, path).samefile(path):
            message = f"{files[name]} and {path} both declare a pipeline `{name}`."
            hint = "Rename one of them, or serve its metrics by a command of its own (`--port`)."
            raise InputError(message, hint, pipeline=name)
    return list(files.values())
