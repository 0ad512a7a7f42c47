"""Output of commands: text or one JSON document, exit statuses, control characters made visible."""

from __future__ import annotations

import getpass
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli import shell_remedies

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

    from sources.config.loader import LoadedPipeline

PipelineFile = Annotated[
    Path,
    typer.Argument(
        help="The pipeline's YAML file.", metavar="PIPELINE", callback=shell_remedies.name
    ),
]
GenerationName = Annotated[
    str | None,
    typer.Option("--generation", help="Generation to act on, such as g2; else the serving one."),
]
By = Annotated[
    str | None,
    typer.Option(
        help="Your name; by default that of the user of this machine.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout.")]
INTERRUPTED = 130
"""Exit status of a command that was interrupted, by Ctrl-C."""
NOTHING_CHANGED = "Nothing was changed."
"""What a command leaves if it fails that changes nothing, or has not begun."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def load(path: Path) -> LoadedPipeline:
    """Return the pipeline of a file that a command names, read and validated.

    Args:
        path: The YAML file.

    Raises:
        InputError: The file can't be read or is invalid.
        StateError: The file is the copy of a generation, and the note of its origin is damaged.
    """
    from sources.config.loader import load_pipeline
    from sources.errors import leaving

    with leaving(NOTHING_CHANGED):
        return load_pipeline(path)


def load_acting(path: Path, generation: str | None, *, as_kept: bool = False) -> LoadedPipeline:
    """Return the pipeline by the declaration of the generation that a command works on.

    Args:
        path: The YAML file.
        generation: Name of the generation; None for the serving one.
        as_kept: Use the generation's kept copy of the file if its checkpoint can't follow the file
            any more.

    Raises:
        InputError: The file can't be read or is invalid, or there is no such generation.
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    from sources.errors import leaving
    from sources.generations import acting_on

    with leaving(NOTHING_CHANGED):
        return acting_on(load(path), generation, as_kept=as_kept)


def person(by: str | None) -> str:
    """Return the name that ``--by`` gives, or that of the operating system's user.

    Args:
        by: The option; None if it was not given.

    Returns:
        The name; empty if it was not given and this machine does not know its user.
    """
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run with a number that no user has.
        return ""


def tell(text: str) -> None:
    """Print a line of progress on stderr; stdout is for the answer."""
    typer.echo(visible(shell_remedies.in_shell(text)), err=True)


def visible(text: str) -> str:
    """Return text with its control characters written out, but for tabs and line ends.

    A terminal obeys them: a value of a record could hide or fake what a command prints.
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


@contextmanager
def answer(as_json: bool, effect: str = "") -> Iterator[Any]:
    """Yield a function that prints the answer; errors become text and an exit status.

    The function takes the answer twice: as a JSON object, whose ``ok`` decides the exit status, and
    as what :mod:`rich` prints; a text is printed as it is, without Rich's markup. With ``as_json``
    an error is printed as ``{"ok": false, …}`` with the fields of
    :class:`sources.errors.ErrorReport`.

    Args:
        as_json: Print the JSON object to stdout, not the text.
        effect: What became of the data if the command fails, for errors that do not say it; empty
            if that is not always the same.

    Raises:
        typer.Exit: 1 if the answer is bad or a run failed, 2 if the declaration, the data, the
            state or a service does not allow the command, 130 if it was interrupted.
    """
    from sources.errors import (
        HybridError,
        InputError,
        SeamError,
        StateError,
        UnavailableError,
        leaving,
    )

    good = True

    def show(document: dict[str, Any], view: Any) -> None:
        nonlocal good
        good = bool(document["ok"])
        if as_json:
            sys.stdout.write(json.dumps(shell_remedies.all_in_shell(document)) + "\n")
        else:
            _print(view, is_plain=isinstance(view, str))

    try:
        with leaving(effect):
            yield show
    except HybridError as error:
        if as_json:
            document = {"ok": False, **error.report().model_dump()}
            sys.stdout.write(json.dumps(shell_remedies.all_in_shell(document)) + "\n")
        typer.secho(visible(shell_remedies.in_shell(str(error))), fg=typer.colors.RED, err=True)
        refused = isinstance(error, InputError | SeamError | StateError | UnavailableError)
        raise typer.Exit(2 if refused else 1) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if not good:
        raise typer.Exit(1)


def _print(view: Any, *, is_plain: bool = False) -> None:
    """Print an answer for people: lines of text, for the terminal to wrap, and tables.

    A command that was broken into lines could not be pasted.

    Args:
        view: What is printed.
        is_plain: Whether a text has no markup: brackets in it, as in logs, mean nothing then.
    """
    from rich.console import Console, Group
    from rich.markup import escape

    for each in view.renderables if isinstance(view, Group) else [view]:
        if isinstance(each, Group):
            _print(each)
        elif isinstance(each, str):
            text = visible(shell_remedies.in_shell(each, str if is_plain else escape))
            Console().print(text, soft_wrap=True, markup=not is_plain, emoji=False)
        else:
            Console().print(_Visible(each))


class _Visible:
    """What Rich shows, such as a table, with control characters of its texts written out."""

    def __init__(self, shown: Any) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for each in console.render(self._shown, options):
            yield each if each.control else each._replace(text=visible(each.text))
