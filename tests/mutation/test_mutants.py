"""Mutants: what is changed and what is not, in trees and never in files."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import dedent
from types import FunctionType

import pytest

from tests.mutation.forks import Work, each_in_a_copy
from tests.mutation.operators import Function, Mutant, mutants_of, mutated_code
from tests.mutation.plugin import Fate
from tests.mutation.rooms import ROOT, read_rooms
from tests.mutation.run import survivors, table

MODULE = dedent(
    '''
    """A module."""

    LIMIT = 5


    class Log:
        """Offsets."""

        def __init__(self, end: int) -> None:
            self.end = end

        def has(self, at: int, begin: int = 0) -> bool:
            """Return whether an offset is in the log; -1 is not."""
            assert at is not None, "an offset"
            if at < begin:
                raise ValueError(f"{at - 1} is before {begin}")
            return any(at == each for each in range(self.end) if each != 3)
    '''
)


@pytest.fixture
def mutants(tmp_path: Path) -> list[Mutant]:
    (tmp_path / "log.py").write_text(MODULE)
    return mutants_of(tmp_path, "log.py")


def test_bodies_of_functions_are_changed_and_nothing_that_only_describes_them(
    mutants: list[Mutant],
) -> None:
    assert [each.change for each in mutants] == [
        "`self.end = end` → `pass`",
        "`at < begin` → `at <= begin`",
        "`at < begin` → `at >= begin`",
        "`raise ValueError(f'{at - 1} is before {begin}')` → `pass`",
        "`return any((at == each for each in range(self.end) if each !…` → `return None`",
        "`any((at == each for each in range(self.end) if each != 3))` → "
        "`all((at == each for each in range(self.end) if each != 3))`",
        "`at == each` → `at != each`",
        "`each != 3` → `each == 3`",
        "`3` → `4`",
        "`3` → `2`",
    ]
    assert {each.function.name for each in mutants} == {"Log.__init__", "Log.has"}


def test_each_mutant_does_something_else_than_the_function_and_the_file_stays(
    mutants: list[Mutant], tmp_path: Path
) -> None:
    def answers(mutant: Mutant | None) -> list[object]:
        names: dict[str, object] = {}
        exec(compile(MODULE, str(tmp_path / "log.py"), "exec"), names)
        log = names["Log"]
        if mutant is not None:
            function = vars(log)[mutant.function.name.removeprefix("Log.")]
            assert isinstance(function, FunctionType)
            found = Function(function.__code__.co_qualname, function.__code__.co_firstlineno)
            assert found == mutant.function
            function.__code__ = mutated_code(tmp_path, mutant)
        got: list[object] = []
        for at in (-1, 0, 2, 3, 4, 5):
            try:
                got.append(log(5).has(at))  # type: ignore[operator]
            except (ValueError, AttributeError) as error:
                got.append(type(error))
        return got

    unchanged = answers(None)
    assert unchanged == [ValueError, True, True, False, True, False]
    assert all(answers(each) != unchanged for each in mutants)
    assert (tmp_path / "log.py").read_text() == MODULE


def test_work_in_copies_leaves_nothing_and_one_that_hangs_is_ended() -> None:
    def hang() -> None:
        while True:
            pass

    def fail() -> None:
        message = "no copy"
        raise OSError(message)

    works = [
        Work("done", lambda: os.environ.update(COPIED="1") or os.getpid(), 60),
        Work("hangs", hang, 0.5),
        Work("fails", fail, 60),
    ]
    ended = {done.name: done for done in each_in_a_copy(works, 2)}
    assert ended["done"].result not in (None, os.getpid())
    assert "COPIED" not in os.environ
    assert ended["hangs"].is_late
    assert "no copy" in ended["fails"].error


def test_what_no_test_noticed_is_told_and_counted(mutants: list[Mutant]) -> None:
    kinds = ["killed", "timed out", "survived", "not reached"]
    fates = [Fate(mutant, kind) for mutant, kind in zip(mutants, kinds, strict=False)]
    assert [line.split(": ")[:2] for line in survivors(fates)] == [
        [f"log.py:{mutants[2].line}", "survived"],
        [f"log.py:{mutants[3].line}", "not reached"],
    ]
    assert table(fates)[-1] == "| all | 4 | 1 | 1 | 1 | 1 | 50% |"


def test_rooms_name_what_is_there() -> None:
    for room in read_rooms().values():
        for pattern in room.modules:
            assert list(ROOT.glob(pattern)), pattern
        for test in room.tests:
            assert (ROOT / test).exists(), test
