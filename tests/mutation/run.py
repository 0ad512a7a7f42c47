"""Mutants by chance, each against the fast tests that reach its line; those that survive are told.

python -m tests.mutation.run --mutants 500 --seed 1 --room seam
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest

from tests.mutation.operators import mutants_of
from tests.mutation.plugin import Fate, Mutation, tell
from tests.mutation.rooms import ROOT, read_rooms

KINDS = ("killed", "timed out", "survived", "not reached")


def main() -> int:
    """Run a sample of mutants; 1 if what became of them can't be relied on."""
    rooms = read_rooms()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--room", choices=rooms, action="append")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=5.0, help="of tests, for each mutant")
    given = parser.parse_args()
    chosen = [rooms[name] for name in given.room or rooms]
    every = [
        mutant for room in chosen for file in room.files() for mutant in mutants_of(ROOT, file)
    ]
    count = min(given.mutants, len(every))
    mutants = sorted(random.Random(given.seed).sample(every, count))
    mutation = Mutation(mutants, given.jobs, given.seconds)
    tests = sorted({test for room in chosen for test in room.tests})
    options = [
        "-q",
        "-s",
        "-m",
        "not slow",
        "--timeout=0",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    begin = time.monotonic()
    status = pytest.main([*options, *tests], plugins=[mutation])
    took = time.monotonic() - begin
    tell(*survivors(mutation.fates))
    tell(*table(mutation.fates))
    tell(f"{count} of {len(every)} mutants, seed {given.seed}, in {took:.0f} s")
    for test in mutation.unusable:
        tell(f"left out, as it does not pass here: {test}")
    tell(*mutation.broken)
    return 1 if status or mutation.broken else 0


def survivors(fates: Iterable[Fate]) -> list[str]:
    """Return a line for each mutant that no test noticed, in the order of files and lines."""
    lines = []
    for mutant, kind, left_out in sorted(fates):
        if kind in ("survived", "not reached"):
            slower = f" ({left_out} slower tests left out)" if left_out else ""
            lines.append(
                f"{mutant.module}:{mutant.line}: {kind}{slower}: in {mutant.function.name}: "
                f"{mutant.change}"
            )
    return lines


def table(fates: Iterable[Fate]) -> list[str]:
    """Return the lines of a table in Markdown: numbers by module, and those of all."""
    by_module: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for mutant, kind, _ in fates:
        by_module[mutant.module][kind] += 1
        by_module["all"][kind] += 1
    head = ["module", "mutants", *KINDS, "score"]
    rows = [head, ["---"] * len(head)]
    for module, kinds in sorted(by_module.items(), key=lambda each: (each[0] == "all", each)):
        noticed = kinds["killed"] + kinds["timed out"]
        numbers = [kinds.total(), *(kinds[kind] for kind in KINDS)]
        rows.append([module, *map(str, numbers), f"{noticed / kinds.total():.0%}"])
    return [f"| {' | '.join(row)} |" for row in rows]


if __name__ == "__main__":
    sys.exit(main())
