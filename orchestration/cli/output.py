"""How commands answer: words for people, one JSON document for programs, exit statuses."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sources.config.loader import LoadedPipeline

PipelineFile = Annotated[Path, typer.Argument(help="The pipeline's YAML file.", metavar="PIPELINE")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def load(path: Path) -> LoadedPipeline:
    """The pipeline that a command is about."""
    from sources.config.loader import load_pipeline

    return load_pipeline(path)


@contextmanager
def answer(as_json: bool) -> Iterator[Any]:
    """Print one answer in the form asked for; turn errors into words and exit statuses."""
    from sources.errors import HybridError, InputError, SeamError, StateError, UnavailableError

    good = True

    def show(document: dict[str, Any], view: Any) -> None:
        nonlocal good
        good = bool(document["ok"])
        if as_json:
            sys.stdout.write(json.dumps(document) + "\n")
        else:
            from rich.console import Console

            Console().print(view)

    try:
        yield show
    except HybridError as error:
        if as_json:
            sys.stdout.write(json.dumps({"ok": False, "error": str(error)}) + "\n")
        typer.secho(str(error), fg=typer.colors.RED, err=True)
        refused = isinstance(error, InputError | SeamError | StateError | UnavailableError)
        raise typer.Exit(2 if refused else 1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if not good:
        raise typer.Exit(1)
