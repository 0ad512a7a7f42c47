"""Which tests run where, by ``sets.toml``: what is read from it becomes markers of tests."""

from __future__ import annotations

import os
import re
import time
import tomllib
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

_FILE = Path(__file__).with_suffix(".toml")
_STEP = 61
"""Files by which the first one of two days differ; without a common factor with their number."""


class Sets(NamedTuple):
    """The lists.

    Attributes:
        promises: Slow tests of ``make test``, by the promise that they hold.
        seconds: Tests of ``make test`` without Spark that ``make fast`` leaves out, by the reason.
        nightly: Tests that run nightly only, by the reason.
        parameters: Reason for which tests with a word among their parameters run nightly only.
        rest: Reason for which slow tests of a room are not in ``make test``, by the room's folder.
    """

    promises: dict[str, list[str]]
    seconds: dict[str, list[str]]
    nightly: dict[str, list[str]]
    parameters: dict[str, str]
    rest: dict[str, str]

    def marker(self, test: str, *, is_slow: bool) -> str | None:
        """Marker of a test, ``rest`` or ``nightly``; None if it belongs to ``make test``.

        Args:
            test: Node id of the test.
            is_slow: Whether ``make fast`` leaves it out.
        """
        _, _, parameters = test.rstrip("]").partition("[")
        if not set(self.parameters).isdisjoint(parameters.split("-")):
            return "nightly"
        if _is_in(self.nightly, test):
            return "nightly"
        return None if not is_slow or _is_in(self.promises, test) else "rest"

    def names(self) -> list[str]:
        """All names of tests."""
        parts = (self.promises, self.seconds, self.nightly)
        return [name for part in parts for names in part.values() for name in names]

    def takes_seconds(self, test: str) -> bool:
        """Whether ``make fast`` leaves out a test without Spark that ``make test`` runs.

        Args:
            test: Node id of the test.
        """
        return _is_in(self.seconds, test)


def read_sets() -> Sets:
    """The lists of ``sets.toml``."""
    return Sets(**tomllib.loads(_FILE.read_text()))


def names_of(test: str) -> set[str]:
    """Names that a list can have for a test: its folders, its file, its function, and itself.

    Args:
        test: Node id of the test, whose names end before its marks ``/``, ``::`` and ``[``.
    """
    return {test, *(test[: mark.start()] for mark in re.finditer(r"/|::|\[", test))}


def _is_in(lists: dict[str, list[str]], test: str) -> bool:
    return not names_of(test).isdisjoint(chain.from_iterable(lists.values()))


COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""All tests of a run, those that ``-m`` leaves out, too."""


def mark(items: list[pytest.Item]) -> None:
    """Mark what is slow, and what ``make test`` and continuous integration leave out.

    Whatever starts Spark, or is left to the night, is slow; ``-m "not slow"`` must answer quickly.
    """
    sets = read_sets()
    for item in items:
        is_slow = any(item.get_closest_marker(name) is not None for name in ("spark", "slow"))
        marker = sets.marker(item.nodeid, is_slow=is_slow)
        if is_slow or marker is not None or sets.takes_seconds(item.nodeid):
            item.add_marker(pytest.mark.slow)
        if marker is not None:
            item.add_marker(marker)


def rest_until() -> float | None:
    """When no more tests of the rest begin (Unix seconds); None if all of them run.

    Continuous integration sets it, as its machines are not equally fast.
    """
    given = os.environ.get("HYBRID_REST_UNTIL")
    return float(given) if given else None


def rotated(items: list[pytest.Item], day: int) -> list[pytest.Item]:
    """Return tests that begin with another file each day, so that time ends at other ones.

    Args:
        items: The tests, those of a file one after the other.
        day: Number of the day.
    """
    files = list(dict.fromkeys(item.path for item in items))
    first = day * _STEP % len(files) if files else 0
    order = {path: (number - first) % len(files) for number, path in enumerate(files)}
    return sorted(items, key=lambda item: order[item.path])


def skip_if_over(item: pytest.Item) -> None:
    """Skip a test of the rest for which this run has no time left."""
    until = rest_until()
    if until is not None and time.time() >= until and item.get_closest_marker("rest") is not None:
        pytest.skip("the time of this run for the rest of the tests is over (HYBRID_REST_UNTIL)")
