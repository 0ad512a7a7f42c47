"""Collected tests, run for each mutant instead of once.

Tests are collected once, and all that they import is imported once. A mutant is a copy of this
process in which one function has other code; files stay as they are.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from types import FunctionType
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings

from sources.common.counting import counted
from tests.mutation.forks import Done, Work, each_in_a_copy
from tests.mutation.operators import Function, Mutant, mutated_code
from tests.mutation.reached_lines import Reached, passes, reached
from tests.mutation.rooms import ROOT

_BASELINE_S = 3600.0
# A busy machine takes a multiple of what a test takes.
_LIMIT_S, _SLOWER = 60.0, 30.0
_TOLD_S = 20.0
_CONTROLS = 20
"""Of so many mutants, the tests of one are run without the change, too, and have to pass."""

Functions = Mapping[tuple[str, Function], list[FunctionType]]


class Fate(NamedTuple):
    """What became of a mutant.

    Attributes:
        mutant: It.
        kind: ``killed``, ``timed out``, ``survived``, or ``not reached`` by any test.
        left_out: How many slower tests reach it, too.
    """

    mutant: Mutant
    kind: str
    left_out: int = 0


class _Trial(NamedTuple):
    """The tests of a mutant; those of a control run without it."""

    mutant: Mutant
    tests: list[Reached]
    left_out: int
    is_control: bool = False


class Mutation:
    """Plugin of pytest.

    Args:
        mutants: The mutants.
        jobs: How many copies of this process run at once.
        budget_s: For how many seconds of tests a mutant runs, the quickest ones first.

    Attributes:
        fates: What became of the mutants, once pytest has ended.
        unusable: Tests that fail or are skipped without any change, and so were left out.
        broken: What went wrong with copies and controls; empty if the fates can be relied on.
    """

    def __init__(self, mutants: list[Mutant], jobs: int, budget_s: float) -> None:
        self._mutants = mutants
        self._jobs = jobs
        self._budget_s = budget_s
        self.fates: list[Fate] = []
        self.unusable: list[str] = []
        self.broken: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Let property tests try the same examples for each mutant, and keep none of them."""
        settings.register_profile(
            "mutants",
            settings.get_profile("default of this project"),
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
            phases=[Phase.explicit, Phase.generate],
        )
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests once to see what they reach, then those of each mutant."""
        for module in {each.module for each in self._mutants}:
            # Some are imported by a command or a driver only when it runs.
            import_module(module.removesuffix(".py").replace("/", "."))
        # What is frozen is not listed.
        gc.unfreeze()
        files = frozenset(str(ROOT / each.module) for each in self._mutants)
        functions = _functions(files)
        tests = list(self._baseline(session.items, files))
        self.unusable = sorted(each.test for each in tests if not each.is_good)
        items = {item.nodeid: item for item in session.items}
        works = []
        for trial in self._trials(tests):
            limit_s = _LIMIT_S + _SLOWER * sum(each.seconds for each in trial.tests)
            chosen = [items[each.test] for each in trial.tests]
            works.append(Work(trial, partial(_try, trial, functions, chosen), limit_s))
        self._run(works)
        return True

    def _baseline(self, items: list[pytest.Item], files: frozenset[str]) -> Iterator[Reached]:
        # Tests of a file share fixtures.
        by_file: defaultdict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            by_file[item.nodeid.partition("::")[0]].append(item)
        tell(f"{counted(len(items), 'test')} once, to see what each of them reaches")
        works = [
            Work(file, partial(reached, part, files), _BASELINE_S) for file, part in by_file.items()
        ]
        for done in each_in_a_copy(works, self._jobs):
            if done.result is None:
                self.broken.append(f"{done.name} did not end: {done.error}")
            for each in done.result or []:
                yield Reached(*each)

    def _trials(self, tests: list[Reached]) -> Iterator[_Trial]:
        for count, mutant in enumerate(self._mutants):
            found = sorted(_tests_of(mutant, tests), key=lambda each: each.seconds)
            chosen = _within(found, self._budget_s)
            if not chosen:
                self.fates.append(Fate(mutant, "not reached"))
                continue
            yield _Trial(mutant, chosen, len(found) - len(chosen))
            if count % _CONTROLS == 0:
                yield _Trial(mutant, chosen, 0, is_control=True)

    def _run(self, works: list[Work]) -> None:
        begin = told = time.monotonic()
        for count, done in enumerate(each_in_a_copy(works, self._jobs), 1):
            self._note(done, done.name)
            if time.monotonic() - told > _TOLD_S:
                told = time.monotonic()
                tell(f"{count} of {counted(len(works), 'trial')} in {told - begin:.0f} s")

    def _note(self, done: Done, trial: _Trial) -> None:
        mutant = trial.mutant
        if done.error or (trial.is_control and done.result is not True):
            change = "unchanged" if trial.is_control else mutant.change
            why = done.error or f"not all pass of {', '.join(each.test for each in trial.tests)}"
            self.broken.append(f"{mutant.module}:{mutant.line}: {change}: {why}")
        elif not trial.is_control:
            kind = "survived" if done.result is True else "killed"
            self.fates.append(Fate(mutant, "timed out" if done.is_late else kind, trial.left_out))


def _functions(files: frozenset[str]) -> Functions:
    """Return the functions of files, as all modules and classes that use them have them."""
    found = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in files:
            code = each.__code__
            place = Function(code.co_qualname, code.co_firstlineno)
            found[code.co_filename, place].append(each)
    return dict(found)


def _tests_of(mutant: Mutant, tests: list[Reached]) -> Iterator[Reached]:
    file, (first, last) = str(ROOT / mutant.module), mutant.lines
    for each in tests:
        if each.is_good and any(first <= line <= last for line in each.lines.get(file, [])):
            yield each


def _within(tests: list[Reached], budget_s: float) -> list[Reached]:
    taken: list[Reached] = []
    for each in tests:
        if taken and sum(other.seconds for other in taken) + each.seconds > budget_s:
            break
        taken.append(each)
    return taken


def _try(trial: _Trial, functions: Functions, items: list[pytest.Item]) -> bool:
    """Put a mutant in place, unless it is a control; return whether all of its tests pass."""
    if not trial.is_control:
        code = mutated_code(ROOT, trial.mutant)
        for function in functions[str(ROOT / trial.mutant.module), trial.mutant.function]:
            function.__code__ = code
    following = [*items[1:], None]
    return all(passes(*each) for each in zip(items, following, strict=True))


def tell(*lines: str) -> None:
    """Print lines at once, where pytest prints, too."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
