"""What becomes of tests whose server is missing, in test runs of their own."""

from __future__ import annotations

import pytest

from tests.missing_servers import VARIABLE

TESTS = """
import pytest
from hybrid_extensions.servers.server_programs import MissingServerError

@pytest.fixture(scope="session")
def oracle():
    raise MissingServerError("Oracle", "There is none.", "get oracle")

def test_setup(oracle): ...
def test_again(oracle): ...

def test_call():
    raise MissingServerError("Db2", "There is none.", "get db2")

def test_other(): ...
"""


@pytest.mark.parametrize("processes", ["-n0", "-n1"])
def test_tests_of_a_missing_server_are_skipped_and_the_summary_names_the_command(
    pytester: pytest.Pytester, processes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    pytester.makepyfile(TESTS)
    ran = pytester.runpytest_inprocess("-ra", "-p", "tests.missing_servers", processes)
    ran.assert_outcomes(skipped=3, passed=1)
    assert ran.ret == pytest.ExitCode.OK
    ran.stdout.fnmatch_lines(
        [
            "*short test summary info*",
            "Db2: 1 test was skipped. Install it: get db2",
            "Oracle: 2 tests were skipped. Install it: get oracle",
            "*3 skipped*",
        ]
    )


def test_tests_of_a_missing_server_fail_where_every_server_is_required(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    pytester.makepyfile(TESTS)
    ran = pytester.runpytest_inprocess("-p", "tests.missing_servers")
    ran.assert_outcomes(errors=2, failed=1, passed=1)
    assert ran.ret == pytest.ExitCode.TESTS_FAILED
    ran.stdout.fnmatch_lines(["*MissingServerError: Oracle is not available. There is none.*"])
    assert "skipped" not in ran.stdout.str()


def test_a_run_that_lacks_no_server_does_not_mention_any(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\ndef test_other():\n    pytest.skip('for another reason')\n")
    ran = pytester.runpytest_inprocess("-p", "tests.missing_servers")
    ran.assert_outcomes(skipped=1)
    assert "missing" not in ran.stdout.str()
