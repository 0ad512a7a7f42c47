"""Where the test data of other projects is, and the counts that ``make peers`` prints."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

_COUNTS = pytest.StashKey[dict[str, Counter[str]]]()
_BESIDE = Path(__file__).parents[2].parent / "shared" / "peers"


@pytest.fixture
def peer() -> Callable[[str], Path]:
    """Folder of another project's data by its name; the test is skipped where there is none."""

    def folder(name: str) -> Path:
        found = Path(os.environ.get("PEERS", _BESIDE)) / name
        if not found.is_dir():
            pytest.skip(f"{found} is no folder: PEERS names where the data of other projects is")
        return found

    return folder


@pytest.fixture
def count(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Count what became of one input of a project: ``count("parquet-testing", "right")``."""

    none: dict[str, Counter[str]] = defaultdict(Counter)
    counted = request.config.stash.setdefault(_COUNTS, none)

    def one(project: str, outcome: str) -> None:
        counted[project][outcome] += 1

    return one


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show the counts of each project."""
    for project, counted in sorted(config.stash.get(_COUNTS, {}).items()):
        told = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counted.items()))
        terminalreporter.write_line(f"{project}: {told}")
