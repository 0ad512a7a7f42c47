"""One simulated world of processes, by one seed: whose turn it is, what time it is, who dies.

A process is one or more fibers, which run until they wait. All waiting is simulated, so nothing but
the seed decides what comes after what.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from threading import get_ident
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from tests.machine.interrupts import KilledError

MS, S = 1_000, 1_000_000
"""A millisecond and a second in the simulation's unit of time, the microsecond."""
BEGIN_US = 1_704_067_200 * S


class StuckError(AssertionError):
    """The world did not come to rest: something waits for what never comes."""


@dataclass
class Host:
    """A machine with a clock of its own.

    Attributes:
        name: Its name.
        ahead_us: How far its clock is ahead of the true time.
    """

    name: str
    ahead_us: int = 0


@dataclass
class Process:
    """A process on a host, as others see it.

    Attributes:
        name: What it does, for the trace.
        host: Where it runs.
        pid: Its number.
        is_dead: Whether it was killed; nothing that it does has an effect then.
        frozen_until_us: Until when it is suspended.
        status: Its exit status; None while it runs.
        on_term: Called by SIGTERM.
    """

    name: str
    host: Host
    pid: int
    is_dead: bool = False
    frozen_until_us: int = 0
    status: int | None = None
    on_term: Callable[[], None] | None = None
    fibers: list[Fiber] = field(default_factory=list)

    @property
    def is_running(self) -> bool:
        """Whether it is there, suspended or not."""
        return self.status is None


class Fiber:
    """A line of execution in a process.

    Args:
        process: The process.
        work: What it does.
        hub: Where it returns to when it waits.
    """

    def __init__(self, process: Process, work: Callable[[], None], hub: greenlet) -> None:
        self.process = process
        self.turn = 0
        self.joined: list[Fiber] = []
        self.let = greenlet(work, hub)


class Kernel:
    """Runs fibers one at a time, in the order of their simulated times.

    Args:
        seed: Decides everything.
        begin_us: The true time at the beginning.
        first_pid: Number of the first process.

    Attributes:
        random: The only source of chance.
        now_us: The true time.
        events: What happened, in words, with times relative to the beginning.
        thread: The thread that it runs in, with all that is simulated.
        kills, freezes: How often a process is killed or suspended, as a share of requests.
    """

    def __init__(self, seed: int, begin_us: int = BEGIN_US, first_pid: int = 1000) -> None:
        self.random = Random(seed)
        self.begin_us = self.now_us = begin_us
        self._first_pid = first_pid
        self.current: Fiber | None = None
        self.events: list[str] = []
        self.kills = 0.0
        self.freezes = 0.0
        self.processes: dict[int, Process] = {}
        self._digest = hashlib.sha256()
        self._queue: list[tuple[int, int, Fiber | Callable[[], None], int]] = []
        self._number = 0
        self._hub = getcurrent()
        self.thread = get_ident()
        self._steps = 0
        self._until: Callable[[], bool] = lambda: True
        self._limit_us = self._most_steps = 0

    # What happened.

    def tell(self, text: str) -> None:
        """Add an event to the trace."""
        name = "world" if self.current is None else self.current.process.name
        line = f"{(self.now_us - self.begin_us) / S:8.3f} s  {name}: {text}"
        self.events.append(line)
        self._digest.update(line.encode())

    @property
    def digest(self) -> str:
        """A digest of all that happened so far."""
        return self._digest.hexdigest()

    # Processes.

    def start(self, name: str, host: Host, work: Callable[[Process], int]) -> Process:
        """Start a process, which runs at the next wait; what it returns is its exit status."""
        self._number += 1
        made = Process(name, host, self._first_pid + self._number)
        self.processes[made.pid] = made

        def main() -> None:
            status = 1
            try:
                status = work(made)
            finally:
                if made.status is None:
                    made.status = -9 if made.is_dead else status

        self.fork(made, main)
        return made

    def fork(self, process: Process, work: Callable[[], None]) -> Fiber:
        """Start a further fiber of a process."""

        def body() -> None:
            try:
                work()
            except (KilledError, GreenletExit):
                pass
            finally:
                process.fibers.remove(fiber)
                for each in fiber.joined:
                    self._wake(each)

        fiber = Fiber(process, body, self._hub)
        process.fibers.append(fiber)
        self._push(self.now_us, fiber)
        return fiber

    def kill(self, process: Process) -> None:
        """End a process as SIGKILL does."""
        if process.status is None:
            process.is_dead, process.status = True, -9
            self.tell(f"kill -9 {process.name}")
            for each in process.fibers:
                if each is not self.current:
                    self._wake(each)

    def crash_maybe(self) -> None:
        """Kill or suspend this process now, by chance; called between any two requests."""
        chance = self.random.random()
        if chance < self.kills:
            self.kill(self.me)
            raise KilledError(self.me.name)
        if chance - self.kills < self.freezes:
            us = self.random.choice([5, 20, 60, 200]) * self.random.randrange(S, 2 * S)
            self.tell(f"is suspended for {us / S:.0f} s")
            self.me.frozen_until_us = self.now_us + us
            self.sleep(0)

    @property
    def me(self) -> Process:
        """The process whose turn it is."""
        assert self.current is not None
        return self.current.process

    # Waiting.

    def sleep(self, us: int) -> None:
        """Let others run for a time.

        Raises:
            KilledError: The process was killed meanwhile.
        """
        assert self.current is not None
        at_us = self.now_us + max(us, 0)
        if self._is_next(at_us):
            # Nobody's turn comes before: what `run` would do, without a switch to it and back.
            self.current.turn += 1
            self._number += 1
            self._steps += 1
            self.now_us = at_us
            return
        self._push(at_us, self.current)
        self._switch()

    def _is_next(self, at_us: int) -> bool:
        """Return whether nothing happens before a time but what this fiber does then."""
        assert self.current is not None
        process = self.current.process
        if process.is_dead or process.frozen_until_us > at_us or at_us > self._limit_us:
            return False
        if self._steps >= self._most_steps or (self._queue and self._queue[0][0] <= at_us):
            return False
        return not self._until()

    def park(self, until_us: int | None = None) -> None:
        """Wait to be woken up, or for a time."""
        assert self.current is not None
        self.current.turn += 1
        if until_us is not None:
            self._push(until_us, self.current, is_new=False)
        self._switch()

    def wake(self, fiber: Fiber) -> None:
        """Let a fiber that is parked go on."""
        self._wake(fiber)

    def later(self, us: int, effect: Callable[[], None]) -> None:
        """Let something happen outside of all processes, as a request that is on its way does."""
        self._push(self.now_us + us, effect)

    def _wake(self, fiber: Fiber) -> None:
        self._push(self.now_us, fiber)

    def _push(self, at_us: int, what: Fiber | Callable[[], None], *, is_new: bool = True) -> None:
        turn = 0
        if isinstance(what, Fiber):
            what.turn += is_new
            turn = what.turn
        self._number += 1
        heappush(self._queue, (at_us, self._number, what, turn))

    def _switch(self) -> None:
        fiber = self.current
        assert fiber is not None
        if fiber.process.is_dead:
            # What cleans up after a kill has no effect, and takes no time.
            raise KilledError(fiber.process.name)
        self._hub.switch()
        if fiber.process.is_dead:
            raise KilledError(fiber.process.name)

    def run(self, until: Callable[[], bool], limit_us: int, steps: int = 60_000) -> None:
        """Let the world go on until a condition holds, looked at after each turn.

        Args:
            until: The condition.
            limit_us: True time by which it has to hold.
            steps: Most turns of all runs together; a person who is refused each time gives up
                after some 35,000, and says by what.

        Raises:
            StuckError: It did not hold by the time limit, or nothing happens any more.
        """
        self._until, self._limit_us, self._most_steps = until, limit_us, steps
        while not until():
            if not self._queue:
                raise StuckError("nothing happens any more")
            at_us, _, what, turn = heappop(self._queue)
            if isinstance(what, Fiber) and (turn != what.turn or what.let.dead):
                continue
            if at_us > limit_us:
                heappush(self._queue, (at_us, 0, what, turn))
                raise StuckError(f"it takes longer than {(limit_us - self.begin_us) / S:,.0f} s")
            self._steps += 1
            if self._steps > steps:
                raise StuckError(f"it takes more than {steps:,} turns")
            self.now_us = max(self.now_us, at_us)
            if not isinstance(what, Fiber):
                what()
                continue
            if what.process.frozen_until_us > self.now_us and not what.process.is_dead:
                self._push(what.process.frozen_until_us, what)
                continue
            self.current = what
            try:
                # An error that nobody handles ends the run: it is a finding.
                what.let.switch()
            finally:
                self.current = None

    def close(self) -> None:
        """End all fibers."""
        for process in list(self.processes.values()):
            process.is_dead = True
            process.status = -9 if process.status is None else process.status
            for each in list(process.fibers):
                self.current = each
                if each.let:
                    each.let.throw(KilledError("the end"))
                self.current = None


_active: list[Kernel] = []


def active() -> Kernel:
    """Return the kernel that runs at present."""
    return _active[-1]


def in_simulation() -> bool:
    """Return whether a simulated process asks, and no thread of something else."""
    return bool(_active) and _active[-1].current is not None and get_ident() == _active[-1].thread


@contextmanager
def running(kernel: Kernel) -> Iterator[Kernel]:
    """Make a kernel the active one in the body of ``with``."""
    _active.append(kernel)
    try:
        yield kernel
    finally:
        kernel.close()
        _active.pop()


# What the module `threading` has, for fibers.


class SimulatedLock:
    """A lock of fibers, which its holder may take again."""

    def __init__(self) -> None:
        self._holder: Fiber | None = None
        self._depth = 0
        self._waiting: list[Fiber] = []

    def __enter__(self) -> bool:
        kernel = active()
        me = kernel.current
        assert me is not None
        while self._holder not in (None, me):
            self._waiting.append(me)
            kernel.park()
        self._holder = me
        self._depth += 1
        return True

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._holder = None
            for each in self._waiting:
                active().wake(each)
            self._waiting.clear()


class SimulatedEvent:
    """An event that fibers wait for."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Fiber] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for each in self._waiting:
            active().wake(each)
        self._waiting.clear()

    def wait(self, timeout: float | None = None) -> bool:
        kernel = active()
        assert kernel.current is not None
        if not self._is_set:
            self._waiting.append(kernel.current)
            until = None if timeout is None else kernel.now_us + int(timeout * S)
            kernel.park(until)
            if kernel.current in self._waiting:
                self._waiting.remove(kernel.current)
        return self._is_set


class SimulatedThread:
    """A further fiber of the process that makes it."""

    def __init__(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        name: str = "",
        daemon: bool = True,
    ) -> None:
        self.name = name
        self.daemon = daemon
        self._work = lambda: target(*args)
        self._fiber: Fiber | None = None

    def start(self) -> None:
        kernel = active()
        self._fiber = kernel.fork(kernel.me, self._work)

    def join(self) -> None:
        kernel, fiber = active(), self._fiber
        assert fiber is not None
        while not fiber.let.dead:
            assert kernel.current is not None
            fiber.joined.append(kernel.current)
            kernel.park()
