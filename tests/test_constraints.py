"""The lock: one version of each package that is asked for, and nothing of a machine."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LINES = [
    line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")
]


def asked_for() -> Iterator[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    for requirement in (Requirement(text) for group in groups for text in group):
        if requirement.name != project["name"]:
            yield requirement


def test_all_that_is_asked_for_has_a_version_that_fits() -> None:
    versions = {
        canonicalize_name(locked.name): str(locked.specifier).removeprefix("==")
        for locked in map(Requirement, LINES)
    }
    for requirement in asked_for():
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement}: run `make lock`"
        assert requirement.specifier.contains(version), f"{requirement}, not {version}: `make lock`"


def test_lines_are_versions_and_nothing_else() -> None:
    assert LINES
    for line in LINES:
        assert re.fullmatch(r"[\w.-]+==[\w.+!]+( ; [\w.'<>=! ]+)?", line), line
