"""The lists of which tests run where name tests that exist, and leave none out without a reason."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.sets import COLLECTED, Sets, names_of, read_sets, rotated, skip_if_over

SETS = Sets(
    {"it works": ["tests/a/test_a.py::test_one[x]", "tests/b/test_b.py"]},
    {"a server": ["tests/d/test_d.py"]},
    {"long": ["tests/a/test_a.py::test_two", "tests/c"]},
    {"slow store": "another store"},
    {"tests/a": "variants"},
)


@pytest.mark.parametrize(
    ("test", "is_slow", "marker"),
    [
        ("tests/a/test_a.py::test_one[x]", True, None),
        ("tests/a/test_a.py::test_one[xy]", True, "rest"),
        ("tests/a/test_a.py::test_one", True, "rest"),
        ("tests/a/test_a.py::test_one[y]", False, None),
        ("tests/a/test_a.py::test_two[1]", True, "nightly"),
        ("tests/a/test_a.py::test_two_more", True, "rest"),
        ("tests/b/test_b.py::Group::test_three", True, None),
        ("tests/c/test_c.py::test_four", False, "nightly"),
        ("tests/b/test_b.py::test_five[1-slow store]", True, "nightly"),
        ("tests/b/test_b.py::test_five[1-slow storey]", True, None),
    ],
)
def test_a_slow_test_is_a_promise_or_left_to_later(
    test: str, is_slow: bool, marker: str | None
) -> None:
    assert SETS.marker(test, is_slow=is_slow) == marker


def test_a_test_of_seconds_is_left_out_by_make_fast_alone() -> None:
    test = "tests/d/test_d.py::test_six[1]"
    assert SETS.takes_seconds(test)
    assert SETS.marker(test, is_slow=False) is None
    assert not SETS.takes_seconds("tests/a/test_a.py::test_one[x]")


def test_each_name_finds_a_test(request: pytest.FixtureRequest) -> None:
    tests = [item.nodeid for item in request.config.stash[COLLECTED]]
    partly = {_file(argument) for argument in request.config.args if "::" in argument}
    files = {_file(test) for test in tests} - partly
    # Of a file that is not collected, or not as a whole, nothing is known.
    names = [name for name in read_sets().names() if _file(name) in files]
    assert set(names) - set[str]().union(*map(names_of, tests)) == set()


def test_no_test_is_in_two_lists() -> None:
    names = read_sets().names()
    assert sorted(set(names)) == sorted(names)
    assert [name for name in names if not (names_of(name) - {name}).isdisjoint(names)] == []


def test_each_room_whose_slow_tests_are_left_out_has_a_reason(
    request: pytest.FixtureRequest,
) -> None:
    rooms = read_sets().rest
    tests = request.config.stash[COLLECTED]
    left = [each.nodeid for each in tests if each.get_closest_marker("rest")]
    assert [test for test in left if names_of(test).isdisjoint(rooms)] == []


def _file(name: str) -> str:
    return name.partition("::")[0]


def test_the_rest_begins_with_another_file_each_day_and_keeps_files_together() -> None:
    items: list[Any] = [SimpleNamespace(path=n // 2, number=n) for n in range(14)]
    begun: list[list[Any]] = [[*rotated(items, day)] for day in range(7)]
    assert {each[0].path for each in begun} == {*range(7)}
    for each in begun:
        first = each[0].number
        assert [item.number for item in each] == [(first + n) % 14 for n in range(14)]


@pytest.mark.parametrize(
    ("until", "marker", "is_skipped"),
    [
        ("1", "rest", True),
        ("1", "nightly", False),
        ("99999999999", "rest", False),
        ("", "rest", False),
    ],
)
def test_tests_of_the_rest_are_skipped_once_the_time_of_the_run_is_over(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    until: str,
    marker: str,
    is_skipped: bool,
) -> None:
    monkeypatch.setenv("HYBRID_REST_UNTIL", until)
    item = pytest.Function.from_parent(request.node.parent, name="some", callobj=lambda: None)
    item.add_marker(marker)
    if is_skipped:
        with pytest.raises(pytest.skip.Exception, match="HYBRID_REST_UNTIL"):
            skip_if_over(item)
    else:
        skip_if_over(item)
