"""What commands print: a terminal obeys no value of the data."""

from __future__ import annotations

import pytest
import typer
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from orchestration.cli.output import answer, tell
from sources.errors import InputError

# Clears the screen, and writes a line of its own; a title; the clipboard, by 8 bits.
HOSTILE = "id \x1b[2J\x1b[H\x1b[32mAll rows agree.\x1b]0;title\x07 \x9d52;c;eA==\x9c \x7f\r"


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    found = capsys.readouterr()
    return found.out + found.err


def test_control_characters_of_values_are_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("row", width=200)
    table.add_row(escape(HOSTILE))
    with answer(as_json=False) as show:
        show({"ok": True}, Group(table, escape(HOSTILE)))
        show({"ok": True}, HOSTILE)
    tell(HOSTILE)
    with pytest.raises(typer.Exit), answer(as_json=False):
        raise InputError(HOSTILE, HOSTILE)
    text = printed(capsys)
    # Rich itself leaves a bell out of tables.
    assert text.count(r"id \x1b[2J\x1b[H\x1b[32mAll rows agree.\x1b]0;title") == 6
    assert not [each for each in text if not each.isprintable() and each != "\n"]


def test_lines_tabs_and_brackets_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    with answer(as_json=False) as show:
        show({"ok": True}, "first\n\tsecond [red]of a log[/]\n")
    assert capsys.readouterr().out.splitlines()[1].split() == ["second", "[red]of", "a", "log[/]"]
