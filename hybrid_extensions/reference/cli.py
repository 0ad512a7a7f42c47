"""Command `hybrid reference`: all fields of a pipeline's file, as Markdown or JSON Schema."""

from __future__ import annotations

import json
import sys

import typer

from orchestration.cli import panels
from orchestration.cli.output import AsJson

app = typer.Typer()


@app.command(rich_help_panel=panels.MORE)
def reference(as_json: AsJson = False) -> None:
    """Print all fields of a pipeline's file as Markdown; with --json as a JSON Schema."""
    from hybrid_extensions.reference.fields import json_schema, markdown

    # Neither is an answer about a pipeline: both go into a file as they are.
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n" if as_json else markdown())
