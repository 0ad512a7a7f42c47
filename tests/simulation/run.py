"""Many schedules, by a process for each core; the rate, and a digest of all that happened.

python -m tests.simulation.run --schedules 10000 --seed 1

One schedule, with its trace: ``--schedules 1 --trace``.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from tests.simulation.kernel import BEGIN_US, MS
from tests.simulation.product import Product, simulated
from tests.simulation.schedule import Schedule
from tests.simulation.store import TEMPORARY

_TOLD_S = 10.0
_DAY_MS = 86_400_000
_SHOWN = 5
_AT_ONCE = 5


class Result(NamedTuple):
    """What became of a schedule.

    Attributes:
        seed: Its seed.
        digest: Digest of all that happened.
        wrong: What is wrong, in words; empty if nothing is.
        trace: What happened; empty unless something is wrong, or it was asked for.
    """

    seed: int
    digest: str
    wrong: str
    trace: tuple[str, ...] = ()


@contextmanager
def product() -> Iterator[Product]:
    """Put the simulation in place in the body of ``with``."""
    begin_ms = BEGIN_US // MS - _DAY_MS
    with (
        tempfile.TemporaryDirectory(prefix=TEMPORARY) as folder,
        simulated(Path(folder), begin_ms) as made,
    ):
        yield made


def run(made: Product, seed: int, *, is_traced: bool = False) -> Result:
    """Run the schedule of a seed."""
    schedule, wrong = Schedule(made, seed), ""
    try:
        # What drivers say to nobody.
        with redirect_stderr(StringIO()):
            schedule.run()
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    trace = tuple(schedule.kernel.events) if wrong or is_traced else ()
    return Result(seed, schedule.kernel.digest, wrong, trace)


_STACK = ExitStack()
_MADE: list[Product] = []


def _begin() -> None:
    _MADE.append(_STACK.enter_context(product()))
    # Modules and the pipeline stay; a sixth of the time went into looking through them for garbage.
    gc.collect()
    gc.freeze()


def _one(seed: int) -> Result:
    return run(_MADE[0], seed)


def main() -> int:
    """Run schedules from a seed on; print progress, the rate, what is wrong and the digest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.schedules)
    digest, wrong, begun = hashlib.sha256(), 0, time.monotonic()
    told = begun
    say = sys.stdout.write
    if options.trace:
        with product() as made:
            results = [run(made, seed, is_traced=True) for seed in seeds]
        for each in results:
            say("\n".join([f"seed {each.seed}", *each.trace, each.wrong, ""]))
        return int(any(each.wrong for each in results))
    with get_context("fork").Pool(options.processes, _begin) as pool:
        for done, each in enumerate(pool.imap(_one, seeds, chunksize=_AT_ONCE), 1):
            digest.update(f"{each.seed} {each.digest}\n".encode())
            if each.wrong:
                wrong += 1
                if wrong <= _SHOWN:
                    say("\n".join(["", f"seed {each.seed} is wrong:", *each.trace, each.wrong, ""]))
                say(f"again: make simulate SEED={each.seed} SCHEDULES=1 TRACE=--trace\n")
            if time.monotonic() - told > _TOLD_S:
                told = time.monotonic()
                rate = done / (told - begun) * 3600
                say(f"{done:,} schedules, {wrong} wrong, {rate:,.0f} an hour\n")
                sys.stdout.flush()
    rate = len(seeds) / (time.monotonic() - begun) * 3600
    say(f"{len(seeds):,} schedules from seed {options.seed}: {wrong} wrong; {rate:,.0f} an hour\n")
    say(f"digest {digest.hexdigest()}\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
