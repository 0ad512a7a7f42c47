"""The tables of docs/versions.md with the names that the project keeps."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ADD = (
    "Add it to docs/versions.md (and what was there before to CHANGELOG.md), or keep the old name."
)
_PAGE = ROOT / "docs" / "versions.md"
_CODE = re.compile(r"`([^`]+)`")

Row = list[list[str]]
"""What each cell of a row has in backticks; of a cell without any, its text."""


def rows(heading: str) -> list[Row]:
    """The rows of the tables below a heading, without their heads."""
    below = _PAGE.read_text().partition(f"\n### {heading}\n")[2]
    text = re.split(r"^##", below, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    assert lines, f"docs/versions.md has no table below `{heading}`"
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [[_CODE.findall(cell) or [cell] for cell in row] for row in cells]


def require_same(what: str, listed: set[str], there: set[str]) -> None:
    """Refuse names that only the page or only the code has."""
    assert sorted(listed - there) == [], f"{what} of docs/versions.md that do not exist any more"
    assert sorted(there - listed) == [], f"{what} that docs/versions.md does not list. {ADD}"
