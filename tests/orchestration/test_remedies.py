"""Each command that a message names can be pasted, and is one that the command line has."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from orchestration.cli import shell_remedies as shell
from orchestration.remedies import Remedy, for_generation, program, render
from tests.command_line import commands, invoke
from tests.extensions import whole
from tests.orchestration.supervision.live_case import LiveCase

ROOT = Path(__file__).parents[2]
ROOMS = ("sources", "spark_jobs", "orchestration", "hybrid_extensions")
# They speak about the command itself; none is to be run now.
MENTIONS = {
    "hybrid_extensions/reference/fields.py",
    "hybrid_extensions/starter/written_pipeline.py",
    "hybrid_extensions/metrics/catalog.py",
}


def literals(file: Path) -> Iterator[str]:
    """All texts of a module but its docstrings, with `…` in place of what is filled in."""
    tree = ast.parse(file.read_text())
    prose = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}

    def visit(node: ast.AST) -> Iterator[str]:
        if id(node) in prose:
            return
        if isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.Constant) else "…" for each in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        else:
            for child in ast.iter_child_nodes(node):
                yield from visit(child)

    return visit(tree)


@cache
def told() -> dict[str, list[str]]:
    """Texts that name a command, by the module that has them."""
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    # Parsing takes long: only modules that name the program, behind which a line may end.
    found = {
        str(file.relative_to(ROOT)): [text for text in literals(file) if "`hybrid " in text]
        for file in files
        if "`hybrid" in file.read_text()
    }
    return {file: texts for file, texts in found.items() if texts}


def remedies(text: str) -> list[Remedy]:
    """The remedies in a text, in order."""
    found: list[Remedy] = []

    def keep(remedy: Remedy) -> str:
        found.append(remedy)
        return ""

    render(text, keep)
    return found


def parse(words: list[str]) -> None:
    """Parse a command line as the program does, without running it."""
    command: Any = commands()
    while (found := getattr(command, "commands", {}).get(words[0] if words else "")) is not None:
        command, words = found, words[1:]
    assert not hasattr(command, "commands"), f"there is no command `{words[0]}`"
    command.make_context("hybrid", list(words))


@whole
def test_each_remedy_of_a_message_is_a_command_line_that_the_program_takes() -> None:
    count = 0
    for file, texts in told().items():
        for text in texts:
            for remedy in remedies(text):
                count += 1
                [line] = re.findall("`(.*)`", remedy.command("my shop/orders.yaml"))
                try:
                    parse(shlex.split(line)[1:])
                except Exception as error:
                    pytest.fail(f"{file}: {line}: {error}")
    assert count > 200


def test_no_message_names_a_command_on_a_pipeline_without_the_pipeline() -> None:
    there = commands().commands
    on_a_pipeline = {
        name
        for name, each in [
            *there.items(),
            *((f"generation {name}", each) for name, each in there["generation"].commands.items()),
        ]
        if any(param.name == "pipeline" for param in each.params)
    }
    assert len(on_a_pipeline) > 25
    for file in told().keys() - MENTIONS:
        for text in told()[file]:
            left = render(text, lambda _: "")
            for name in re.findall(r"`hybrid ((?:generation )?[a-z-]+)[^`]*`", left):
                assert name not in on_a_pipeline, f"{file}: {text}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Run `hybrid run P`.", [Remedy("run")]),
        (
            "`hybrid generation compare P --json`",
            [Remedy("generation compare", ("--json",))],
        ),
        ("`a` and `hybrid stop P --generation g2`, b`", [Remedy("stop", ("--generation", "g2"))]),
        ("`hybrid audit P --accept 'the reason'`", [Remedy("audit", ("--accept", "the reason"))]),
        ("Start `hybrid broker`, or see `hybrid --help`; `hybrid run P", []),
        ("`hybrid audit P --accept 'no end`", []),
    ],
)
def test_a_text_holds_its_remedies(text: str, found: list[Remedy]) -> None:
    assert remedies(text) == found
    if not found:
        assert render(text, lambda _: "other") == text


def test_an_error_names_the_file_as_it_was_typed_so_that_the_command_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # The shell of somebody who has not activated the virtual environment.
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    Path("my shop's").mkdir()
    file = LiveCase(tmp_path / "my shop's").loaded.path.relative_to(tmp_path)
    answer = invoke(["logs", str(file)])
    [command] = re.findall(r"Launch a run with `(.*)`\.", answer.stderr)
    assert shlex.split(command) == [program(), "run", str(file)]
    pasted = subprocess.run(
        ["sh", "-c", command.replace(" run ", " validate ")],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
    )
    assert pasted.returncode == 0, pasted.stderr


def test_the_program_is_named_by_its_path_where_a_shell_would_not_find_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = Path(sys.executable).with_name("hybrid")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert program() == str(own)
    monkeypatch.setenv("PATH", f"{own.parent}:/usr/bin")
    assert program() == "hybrid"


def test_documents_for_programs_hold_commands_with_the_real_file() -> None:
    shell.name(Path("a b.yaml"))
    document = {"hint": "`hybrid run P`", "more": [{"text": "`hybrid plan P`"}, 5, None]}
    found = shell.all_in_shell(document)
    assert found["hint"].endswith("hybrid run 'a b.yaml'`")
    assert found["more"][0]["text"].endswith("hybrid plan 'a b.yaml'`")
    assert found["more"][1:] == [5, None]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("See `hybrid logs P`.", "See `hybrid logs P --generation g2`."),
        (
            "See `hybrid logs P --previous`, then `hybrid resume P`.",
            "See `hybrid logs P --previous --generation g2`, then `hybrid resume P "
            "--generation g2`.",
        ),
        ("End it: `hybrid stop P --generation g1`.", "End it: `hybrid stop P --generation g1`."),
        # These act on the newest generation, or on no run.
        ("`hybrid run P`, `hybrid rerun P`", "`hybrid run P`, `hybrid rerun P`"),
    ],
)
def test_what_is_told_of_a_candidate_leads_to_the_candidate(text: str, told: str) -> None:
    assert for_generation(text, "g2") == told
