"""The pages of rooms and modules in docs, made of docstrings; run as a module, they are written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "rooms.md"
MODULES = ROOT / "docs" / "modules.md"
_PACKAGES = ("sources", "spark_jobs", "orchestration", "hybrid_extensions", "hybrid_testing")
_OLD = "Old name of "
_BELONGS = "Belongs here: "
_ROLE = re.compile(r":\w+:`+~?([^`]+)`+")
_HEAD = """# Rooms

Which folder decides what. Search this page for the words of a rule, then [modules.md](modules.md),
which has the first line of each module. `python -m tests.rooms_page` writes both pages from the
docstrings.

[architecture.md](architecture.md) shows how the parts work together, [ten-files.md](ten-files.md)
which ten files to read first.
"""

_HEAD_OF_MODULES = """# Modules

What each module decides, by its first line: to find the one for a rule, search this page for its
words. [rooms.md](rooms.md) says what belongs in which folder. `python -m tests.rooms_page` writes
both pages.
"""


def docstring(room: str) -> str:
    """The docstring of a package, without its code being run."""
    return _told(ROOT / room / "__init__.py")


def _told(file: Path) -> str:
    return ast.get_docstring(ast.parse(file.read_text())) or ""


def _shown(text: str) -> str:
    return _ROLE.sub(r"`\1`", text).replace("``", "`").replace("|", "\\|")


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
    return f"| `{room}` | {_shown(told)} |"


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for package in _PACKAGES:
        lines = [row(room) for room in rooms(package)]
        parts += [f"\n## {package}\n\n| room | what is decided there |\n| --- | --- |", *lines]
    return "\n".join(parts).replace(_HEAD + "\n", _HEAD) + "\n"


def modules_page() -> str:
    """The page of modules: each with the first line of its docstring, by room."""
    parts = [_HEAD_OF_MODULES]
    for room in every_room():
        files = [each for each in sorted((ROOT / room).glob("*.py")) if each.stem != "__init__"]
        if files:
            parts.append(f"\n## {room}\n\n| module | what it decides |\n| --- | --- |\n")
            parts += [
                f"| `{each.stem}` | {_shown(_told(each).partition(chr(10))[0])} |\n"
                for each in files
            ]
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
    MODULES.write_text(modules_page())
