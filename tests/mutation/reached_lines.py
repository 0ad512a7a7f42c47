"""Which lines of the mutated modules each test reaches, and how long it takes."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

Lines = Mapping[str, list[int]]


class Reached(NamedTuple):
    """What a test did.

    Attributes:
        test: Its node id.
        is_good: Whether it passed: it ran, and nothing failed.
        seconds: About how long it takes on a machine that is not busy.
        lines: Lines that it reached, by the name of the file.
    """

    test: str
    is_good: bool
    seconds: float
    lines: Lines


def reached(items: list[pytest.Item], files: frozenset[str]) -> list[Reached]:
    """Run tests one after the other, and return what each of them reaches.

    Args:
        items: The tests.
        files: Absolute names of the files whose lines count.
    """
    found = []
    for item, following in zip(items, [*items[1:], None], strict=True):
        begin = time.monotonic()
        with _traced(files) as lines:
            is_good = passes(item, following)
        # As long as it would take on a machine with nothing else to do.
        busy = os.getloadavg()[0] / (os.cpu_count() or 1)
        seconds = (time.monotonic() - begin) / max(busy, 1)
        told = {file: sorted(numbers) for file, numbers in lines.items()}
        found.append(Reached(item.nodeid, is_good, seconds, told))
    return found


def passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Run a test, and return whether it passed; a skipped one did not.

    Args:
        item: The test.
        following: The one that runs next, which may share fixtures with it.
    """
    reports = runtestprotocol(item, log=False, nextitem=following)
    return len(reports) > 2 and all(each.passed for each in reports)


@contextmanager
def _traced(files: frozenset[str]) -> Iterator[Mapping[str, set[int]]]:
    found: defaultdict[str, set[int]] = defaultdict(set)

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            found[frame.f_code.co_filename].add(frame.f_lineno)
        return line

    def call(frame: FrameType, _: str, __: Any) -> Any:
        return line if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    threading.settrace(call)
    sys.settrace(call)
    try:
        yield found
    finally:
        sys.settrace(before)
        threading.settrace(before)
