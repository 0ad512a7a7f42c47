"""The rooms of ``rooms.toml``: modules that are mutated, with the tests that should notice."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_FILE = Path(__file__).with_suffix(".toml")


class Room(NamedTuple):
    """Some modules and their tests, as patterns and paths relative to the repository.

    Attributes:
        modules: Patterns of the modules' files.
        tests: Folders and files of tests.
    """

    modules: list[str]
    tests: list[str]

    def files(self) -> list[str]:
        """Return the modules' files, relative to the repository."""
        found = {path for pattern in self.modules for path in ROOT.glob(pattern)}
        return sorted(str(path.relative_to(ROOT)) for path in found)


def read_rooms() -> dict[str, Room]:
    """Return the rooms by their names."""
    return {name: Room(**room) for name, room in tomllib.loads(_FILE.read_text()).items()}
