"""Remedies: commands in messages as data, P for the pipeline, which each front end renders.

A text holds a remedy as "`hybrid run P --until caught-up`", where P stands for the
pipeline. So it passes through logs, heartbeats and kept states; whoever shows the text renders it:
the command line as a command that can be pasted, Dagster as the job or asset that does the same.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_PIPELINE = "P"
_BEGIN = "`hybrid "
_PROGRAM = "hybrid"
_ON_A_RUN = ("logs", "stop", "pause", "resume", "drain", "rate")


@dataclass(frozen=True)
class Remedy:
    """Command on a pipeline, as a remedy that a message names.

    Attributes:
        action: Name of the command, such as ``run`` or ``generation list``.
        options: The words after the pipeline, such as ``("--until", "caught-up")``.
    """

    action: str
    options: tuple[str, ...] = ()

    def command(self, pipeline: str, variables: Mapping[str, str] | None = None) -> str:
        """Return the command line, quoted for a shell, as code in Markdown.

        Args:
            pipeline: Path of the pipeline's file.
            variables: Environment variables to set for it, before the command; None for none.
        """
        given = [f"{name}={shlex.quote(value)}" for name, value in (variables or {}).items()]
        words = shlex.join([program(), *self.action.split(), pipeline, *self.options])
        return f"`{' '.join([*given, words])}`"


def render(text: str, show: Callable[[Remedy], str]) -> str:
    """Return a text with each remedy (``hybrid ... P`` in backticks) as a front end renders it.

    Commands in backticks that name no pipeline ``P`` stay as they are.

    Args:
        text: An error's message or hint, or the reason of a verdict.
        show: Returns the text that takes the place of a remedy, backticks included.
    """
    first, *rest = text.split(_BEGIN)
    shown = [first]
    for each in rest:
        command, mark, after = each.partition("`")
        found = _parse(command) if mark else None
        shown.append(f"{_BEGIN}{each}" if found is None else f"{show(found)}{after}")
    return "".join(shown)


def as_commands(text: str, pipeline: str) -> str:
    """Return a text whose remedies name the pipeline's file, to be pasted into a shell.

    Args:
        text: An error's message or hint, or the reason of a verdict.
        pipeline: Path of the pipeline's file, which replaces ``P``; it is quoted for the shell.
    """
    return render(text, lambda remedy: remedy.command(pipeline))


def for_generation(text: str, generation: str) -> str:
    """Return a text whose remedies on a run name the generation, unless they name one already.

    For what is told of a generation that does not serve: without its name a command acts on the one
    that does.

    Args:
        text: An error's message or hint, or the reason of a verdict.
        generation: Name of the generation, such as ``g2``.
    """

    def named(remedy: Remedy) -> str:
        is_named = remedy.action not in _ON_A_RUN or "--generation" in remedy.options
        options = remedy.options if is_named else (*remedy.options, "--generation", generation)
        return f"{_BEGIN}{' '.join([remedy.action, _PIPELINE, shlex.join(options)]).strip()}`"

    return render(text, named)


def program() -> str:
    """Return how to call ``hybrid`` in a shell: its name if that is on ``PATH``, else its path.

    The path is that of the program next to the running Python.
    """
    own = Path(sys.executable).with_name(_PROGRAM)
    on_path = shutil.which(_PROGRAM)
    if not own.exists() or (on_path is not None and own.samefile(on_path)):
        return _PROGRAM
    return str(own)


def _parse(command: str) -> Remedy | None:
    """Return the remedy of the words after the program; None for one that names no pipeline."""
    try:
        words = shlex.split(command)
        at = words.index(_PIPELINE)
    except ValueError:
        return None
    return Remedy(" ".join(words[:at]), tuple(words[at + 1 :]))
