"""The tables of the docs claim nothing that is not there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.extensions import whole

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "conformance.md"
SOURCES = ROOT / "docs" / "sources.md"
CHANGES = ROOT / "docs" / "cdc.md"
HEADS = [
    ["behaviour", "here", "held by"],
    ["source", "what its plan knows", "its end position", "held by"],
    ["case", "known from", "held by"],
    ["what was done", "PostgreSQL", "MariaDB and MySQL", "held by"],
]
OPEN = re.compile(r"(can't occur|not here yet): \S.*")
TESTS = re.compile(r"`([^`]+)`(?:<br>|$)")


def tables_of(text: str) -> list[list[list[str]]]:
    """The tables that name tests, as rows of cells; the first one of each is its head."""
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    tables = [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        for block in blocks
    ]
    return [[head, *rows] for head, _, *rows in tables if head[-1] == "held by"]


def rows_of(text: str) -> list[list[str]]:
    """The cells of all rows of these tables, without their heads."""
    return [row for _, *rows in tables_of(text) for row in rows]


@cache
def claimable(file: Path) -> dict[str, bool]:
    """Tests of a file by name, with their class if they have one; whether each is to pass."""
    found: dict[str, bool] = {}

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                collect(node.body, f"{prefix}{node.name}::")
            elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                marks = " ".join(ast.unparse(mark) for mark in node.decorator_list)
                found[prefix + node.name] = "xfail" not in marks

    collect(ast.parse(file.read_text()).body, "")
    return found


def faults(row: list[str]) -> Iterator[str]:
    """What is wrong with a row."""
    if len(row) not in map(len, HEADS) or not all(row):
        yield f"not as many cells as its head: {row}"
        return
    behaviour, *_, held = row
    if OPEN.fullmatch(held):
        return
    if not TESTS.match(held) or TESTS.sub("", held):
        yield f"neither tests nor a reason: {behaviour}: {held}"
    for name in TESTS.findall(held):
        path, _, test = name.partition("::")
        file = ROOT / path
        if not path.startswith("tests/") or not file.is_file():
            yield f"no such file: {name}"
        elif test not in claimable(file):
            yield f"no such test: {name}"
        elif not claimable(file)[test]:
            yield f"expected to fail: {name}"


@whole
@pytest.mark.parametrize("page", [PAGE, SOURCES, CHANGES])
def test_every_row_is_held_by_tests_that_exist_or_says_why_not(page: Path) -> None:
    assert [fault for row in rows_of(page.read_text()) for fault in faults(row)] == []


def test_every_kind_of_source_has_its_row() -> None:
    assert len(rows_of(SOURCES.read_text())) > 10


def test_each_part_of_the_page_is_a_table_that_names_tests() -> None:
    text = PAGE.read_text()
    assert len(tables_of(text)) == len(re.findall("^## ", text, re.MULTILINE)) == 5
    assert len(rows_of(text)) > 80


def test_the_page_of_captured_tables_names_the_tests_of_altered_tables() -> None:
    assert len(rows_of(CHANGES.read_text())) > 5


@pytest.mark.parametrize("page", [PAGE, SOURCES, CHANGES])
def test_tables_that_name_tests_have_the_heads_that_are_known(page: Path) -> None:
    assert [head for head, *_ in tables_of(page.read_text()) if head not in HEADS] == []


GOOD = "`tests/test_conformance.py::test_every_kind_of_source_has_its_row`"


@pytest.mark.parametrize(
    ("held", "fault"),
    [
        ("", "not as many cells"),
        ("of course", "neither tests nor a reason"),
        ("can't occur", "neither tests nor a reason"),
        ("not here yet:", "neither tests nor a reason"),
        (f"{GOOD} and can't occur: so there", "neither tests nor a reason"),
        ("`tests/test_conformance.py::test_of_nothing`", "no such test"),
        (f"{GOOD}<br>`tests/test_nowhere.py::test_it`", "no such file"),
        ("`orchestration/chain.py::test_it`", "no such file"),
    ],
)
def test_a_row_without_support_is_found(held: str, fault: str) -> None:
    (found,) = faults(["behaviour", "here", held])
    assert found.startswith(fault)


@pytest.mark.parametrize("held", [GOOD, f"{GOOD}<br>{GOOD}", "can't occur: no", "not here yet: x"])
def test_a_row_with_support_passes(held: str) -> None:
    assert list(faults(["behaviour", "here", held])) == []
