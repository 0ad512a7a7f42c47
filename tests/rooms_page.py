"""The page docs/rooms.md, made of the packages' docstrings; run as a module, it is written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "rooms.md"
_PACKAGES = ("sources", "spark_jobs", "orchestration", "hybrid_extensions", "hybrid_testing")
_OLD = "Old name of "
_BELONGS = "Belongs here: "
_ROLE = re.compile(r":\w+:`+~?([^`]+)`+")
_HEAD = """# Rooms

Which folder decides what. Search this page for the words of a rule, then open the module of that
room whose name fits; its first line says what it decides. `python -m tests.rooms_page` writes this
page from the docstrings of the packages.

[architecture.md](architecture.md) shows how the parts work together, [ten-files.md](ten-files.md)
which ten files to read first.
"""


def docstring(room: str) -> str:
    """The docstring of a package, without its code being run."""
    return ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text())) or ""


def rooms(package: str) -> Iterator[str]:
    """The folders of a package with code, itself first, without old names of others."""
    for file in sorted((ROOT / package).rglob("__init__.py"), key=lambda each: each.parent.parts):
        room = str(file.parent.relative_to(ROOT))
        if not docstring(room).startswith(_OLD):
            yield room


def every_room() -> list[str]:
    """The rooms of all packages."""
    return [room for package in _PACKAGES for room in rooms(package)]


def row(room: str) -> str:
    """A room in the table: its docstring's first sentence, and what belongs there."""
    paragraphs = [" ".join(each.split()) for each in docstring(room).split("\n\n")]
    told = paragraphs[0]
    for each in paragraphs[1:]:
        if _BELONGS in each:
            rules = each.partition(_BELONGS)[2].partition(" Does not belong here: ")[0]
            told = f"{told} {rules[0].upper()}{rules[1:]}"
    text = _ROLE.sub(r"`\1`", told).replace("``", "`").replace("|", "\\|")
    return f"| `{room}` | {text} |"


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for package in _PACKAGES:
        lines = [row(room) for room in rooms(package)]
        parts += [f"\n## {package}\n\n| room | what is decided there |\n| --- | --- |", *lines]
    return "\n".join(parts).replace(_HEAD + "\n", _HEAD) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
