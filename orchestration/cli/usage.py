"""Use of commands: their help, and errors such as unknown options and missing arguments."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from orchestration.cli.output import NOTHING_CHANGED
from sources.extensions import contributions


class Group(TyperGroup):
    """Command group whose help fills the lines of the terminal, not those of the source code."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with a name; None if there is none."""
        found = super().get_command(ctx, cmd_name)
        if found is not None and found.help:
            paragraphs = cleandoc(found.help).split("\n\n")
            found.help = "\n\n".join(each.replace("\n", " ") for each in paragraphs)
        return found


class Commands(Group):
    """Command group that reports usage errors as JSON documents on stdout with ``--json``."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command of a command line; the parameters are those of Typer's own method.

        A command on a file that declares several pipelines is run for each of them, by the
        extension that knows such files; then the process ends, with the status of that.

        Returns:
            The command's result; with ``standalone_mode`` the process ends instead, with status 2
            after an error of use.

        Raises:
            TyperException: An error of use, without ``standalone_mode``.
        """
        given = list(sys.argv[1:] if args is None else args)
        names = (prog_name, complete_var)

        def run(words: list[str]) -> int:
            try:
                return super(Commands, self).main(words, *names, False, windows_expand_args) or 0
            except typer.Exit as end:
                return end.exit_code

        for act in contributions("group_commands"):
            if (status := act(given, run)) is not None:
                sys.exit(status)
        if not standalone_mode or "--json" not in given:
            return super().main(given, *names, standalone_mode, windows_expand_args, **extra)
        try:
            # An answer's status is returned, other results of commands are None.
            sys.exit(super().main(given, *names, False, windows_expand_args, **extra))
        except TyperException as error:
            message = error.format_message()
            hint = "See `--help` of the command for its arguments and options."
            document = {
                "ok": False,
                "kind": "usage",
                "message": message,
                "effect": NOTHING_CHANGED,
                "hint": hint,
                "transient": False,
                "fields": {},
            }
            sys.stdout.write(json.dumps(document) + "\n")
            sys.stderr.write(f"{message} {hint}\n")
            sys.exit(error.exit_code)
