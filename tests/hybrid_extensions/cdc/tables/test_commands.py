"""A command on a file with `tables` acts on the pipelines of all its tables."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from hybrid_extensions.cdc.tables import commands, table_pipelines
from hybrid_extensions.cdc.tables.template import FoundTable, Template
from orchestration.cli.output import answer
from sources.errors import RunError
from tests.hybrid_extensions.cdc.tables.test_template import template
from tests.services.processes import wait_for

TABLES = [f"public.t{number}" for number in range(6)]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Template:
    found = template(tmp_path)
    for table in TABLES:
        found.write(FoundTable(table, {"id": "bigint"}, ["id"], []))
    monkeypatch.setattr(table_pipelines, "copy", lambda _template, _tell: None)
    return found


def table_of(words: list[str]) -> str:
    return next(Path(word).stem.removeprefix("shop.") for word in words if ".yaml" in word)


def in_command(run: Callable[[list[str]], None]) -> commands.Run:
    """Return the status of a command's end, as the program does."""

    def end(words: list[str]) -> int:
        try:
            run(words)
        except typer.Exit as end:
            return end.exit_code
        return 0

    return end


@pytest.mark.parametrize("command", ["run", "resume", "drain"])
def test_commands_that_wait_act_on_four_tables_at_a_time_and_keep_their_answers_apart(
    file: Template, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    together = threading.Barrier(4, timeout=30)
    first = iter(range(len(TABLES)))

    def run(words: list[str]) -> int:
        sys.stdout.write(f"begins {table_of(words)}\n")
        if next(first) < 4:
            together.wait()
        sys.stdout.write(f"ends {table_of(words)}\n")
        return 1 if table_of(words) == "public.t4" else 0

    assert commands.act([command, str(file.path)], run) == 1
    lines = capsys.readouterr().out.splitlines()
    blocks = {lines[at]: lines[at + 1 : at + 3] for at in range(0, len(lines), 3)}
    assert blocks == {table: [f"begins {table}", f"ends {table}"] for table in TABLES}


def test_other_commands_act_on_one_table_after_the_other_in_the_main_thread(
    file: Template,
) -> None:
    acted: list[str] = []

    def run(words: list[str]) -> int:
        assert threading.current_thread() is threading.main_thread()
        acted.append(table_of(words))
        return 0

    assert commands.act(["pause", str(file.path)], run) == 0
    assert acted == TABLES


def test_lines_of_tables_that_are_started_together_name_their_table(
    file: Template, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(words: list[str]) -> None:
        with answer(as_json=False):
            typer.echo("history: done", err=True)
            message = "The driver ended.\nIts last line."
            raise RunError(message, "Run it again.")

    with pytest.raises(typer.Exit):
        run([])
    alone = capsys.readouterr().err.splitlines()
    assert commands.act(["run", str(file.path)], in_command(run)) == 1
    lines = capsys.readouterr().err.splitlines()
    for table in TABLES:
        assert [line for line in lines if line.startswith(f"{table}: ")] == [
            f"{table}: {line}" for line in alone
        ]
    assert len(lines) == len(TABLES) * len(alone)


def test_an_interrupt_ends_what_is_under_way_before_the_command_ends(
    file: Template, capsys: pytest.CaptureFixture[str]
) -> None:
    together = threading.Barrier(4, timeout=60)
    begun: set[str] = set()
    ended: set[str] = set()

    def run(words: list[str]) -> None:
        with answer(as_json=False):
            try:
                begun.add(table_of(words))
                if together.wait() == 0:
                    os.kill(os.getpid(), signal.SIGINT)
                wait_for(lambda: False, "an interrupt", 60)
            except KeyboardInterrupt:
                ended.add(table_of(words))
                raise

    assert commands.act(["run", str(file.path)], in_command(run)) == 130
    assert ended == begun
    assert len(begun) == 4
    assert "Interrupted: what is under way is ended first." in capsys.readouterr().err


def test_an_interrupt_of_a_command_on_one_table_after_the_other_ends_the_command(
    file: Template,
) -> None:
    acted: list[str] = []

    def run(words: list[str]) -> None:
        acted.append(table_of(words))
        with answer(as_json=False):
            raise KeyboardInterrupt

    assert commands.act(["stop", str(file.path)], in_command(run)) == 130
    assert acted == TABLES[:1]
