"""The command line, in the process of a test."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import typer
from typer.testing import CliRunner

from orchestration.cli.main import app


class Answer(NamedTuple):
    """What a command has answered.

    Attributes:
        exit_code: Exit status.
        stdout: What it has printed.
        stderr: What it has printed for people beside a document.
        output: Both, in the order in which they were printed.
    """

    exit_code: int
    stdout: str
    stderr: str
    output: str


@cache
def commands() -> Any:
    """All commands of the program, which Typer takes long to build."""
    return typer.main.get_command(app)


def invoke(words: Sequence[str], env: Mapping[str, str] | None = None) -> Answer:
    """Run a command line, without the program's name; what it does not catch is raised.

    Args:
        words: Command, arguments and options.
        env: More environment variables.
    """
    status: Any = None
    with CliRunner(env=env).isolation() as streams:
        try:
            commands()(list(words), prog_name="hybrid")
        except SystemExit as end:
            status = end.code
        sys.stdout.flush()
        sys.stderr.flush()
        printed = [stream.getvalue().decode() for stream in streams]
    return Answer(status or 0, *printed)
