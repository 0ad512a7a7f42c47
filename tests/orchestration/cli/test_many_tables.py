"""A command on a file with `tables` acts on the pipelines of all its tables."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from orchestration import table_pipelines
from orchestration.cli import many_tables
from sources.config.table_template import FoundTable, Template
from tests.sources.config.test_table_template import template

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


def test_run_brings_four_tables_at_a_time_to_their_live_run_and_keeps_their_answers_apart(
    file: Template, capsys: pytest.CaptureFixture[str]
) -> None:
    together = threading.Barrier(4, timeout=30)
    first = iter(range(len(TABLES)))

    def run(words: list[str]) -> int:
        sys.stdout.write(f"begins {table_of(words)}\n")
        if next(first) < 4:
            together.wait()
        sys.stdout.write(f"ends {table_of(words)}\n")
        return 1 if table_of(words) == "public.t4" else 0

    assert many_tables.act(["run", str(file.path)], run) == 1
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

    assert many_tables.act(["pause", str(file.path)], run) == 0
    assert acted == TABLES


def test_an_interrupt_does_not_wait_for_the_tables_that_are_being_started(file: Template) -> None:
    forever = threading.Event()

    def run(words: list[str]) -> int:
        if table_of(words) == "public.t1":
            raise KeyboardInterrupt
        forever.wait()
        return 0

    begun = time.monotonic()
    assert many_tables.act(["run", str(file.path)], run) == 130
    assert time.monotonic() - begun < 30
    forever.set()
