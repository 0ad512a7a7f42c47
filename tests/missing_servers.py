"""Plugin: tests of a server that this machine can't have are skipped, and the run's end names it.

Such a test, or a fixture of it, raises ``MissingServerError``, as the classes of `services` do.
Where every server has to be there, as in continuous integration, ``HYBRID_REQUIRE_SERVERS=1`` makes
the test fail instead.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator

import pytest

from hybrid_extensions.servers.server_programs import MissingServerError

VARIABLE = "HYBRID_REQUIRE_SERVERS"
_PROPERTY = "missing server"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    try:
        yield
    except MissingServerError as error:
        _skip(item, error)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    try:
        yield
    except MissingServerError as error:
        _skip(item, error)


def _skip(item: pytest.Item, error: MissingServerError) -> None:
    if os.environ.get(VARIABLE) == "1":
        raise error
    # A report has it also when another process ran the test.
    item.user_properties.append((_PROPERTY, [error.server, error.command]))
    pytest.skip(error.message)


# After all other summaries.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    yield
    skipped: list[pytest.TestReport] = terminalreporter.stats.get("skipped", [])
    counts = Counter(
        tuple(map(str, value))
        for report in skipped
        # Modules can be skipped, too.
        for name, value in getattr(report, "user_properties", [])
        if name == _PROPERTY and isinstance(value, list)
    )
    if not counts:
        return
    terminalreporter.section("servers that are missing")
    for (server, command), count in sorted(counts.items()):
        tests = "1 test was" if count == 1 else f"{count} tests were"
        terminalreporter.line(f"{server}: {tests} skipped. Install it: {command}")
