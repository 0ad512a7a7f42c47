"""One schedule: people, supervision and drivers while much goes wrong, and then no more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from deltalake.exceptions import DeltaError

from hybrid_extensions.generations import lifecycle
from hybrid_extensions.generations.switch import promotion
from orchestration.chain import ChainRun, run_chain
from orchestration.operations import stopping
from orchestration.supervision import controls, supervisor
from orchestration.supervision.live_look import look_at_live
from sources import generations, serving
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.kept_definitions import declaration_of, in_service
from sources.serving import pending_switch, read_serving
from sources.state.generation import read_generation
from spark_jobs.run_state.table_locks import is_switching
from tests.machine.invariants import WrongError, require_way_out
from tests.machine.ways_out import WAYS
from tests.simulation import product
from tests.simulation.kernel import MS, Host, Kernel, Process, S, running
from tests.simulation.store import short
from tests.simulation.table import Watcher
from tests.simulation.topic import Row
from tests.simulation.world import Weather, enter

_STORM_S = 120
_REST_S = 6 * 3600
_LOOK_S = 45
_HOPS = 12


@dataclass(frozen=True)
class Storm:
    """What goes wrong in a schedule: each is drawn once, so that some schedules lack it."""

    weather: Weather
    kills: float
    freezes: float
    broker_lost: float
    jumps: bool

    @classmethod
    def drawn(cls, kernel: Kernel) -> Storm:
        """Draw the storm of a schedule."""
        random = kernel.random

        def share(most: float) -> float:
            return random.choice([0.0, 0.0, most / 10, most])

        return cls(
            Weather(share(0.02), share(0.02), share(0.02), share(0.01), share(0.02)),
            kills=share(0.005),
            freezes=share(0.003),
            broker_lost=share(0.05),
            jumps=random.random() < 0.3,
        )


class Schedule:
    """One world, from its first plan to its rest.

    Args:
        made: The pipeline.
        seed: Decides everything.
    """

    def __init__(self, made: product.Product, seed: int) -> None:
        self.product = made
        stage = made.stages[seed % len(made.stages)]
        self.kernel = Kernel(seed, stage.now_us, first_pid=100_000)
        self.world = stage.world()
        self.hosts = [Host("alpha"), Host("beta")]
        self.counts: Counter[str] = Counter()
        self.watcher = Watcher(self.world)
        self.world.store.on_write = self.watcher.written
        self.people = 0
        self.is_calm = False

    def run(self) -> str:
        """Run it to its rest; return the digest of all that happened.

        Raises:
            WrongError: Rows are lost or doubled, a zombie committed, or there is no way out.
            AssertionError: The world does not come to rest.
        """
        enter(self.world)
        try:
            with running(self.kernel):
                self._storm()
                self._calm()
        finally:
            enter(None)
        return self.kernel.digest

    # The storm.

    def _storm(self) -> None:
        kernel, storm = self.kernel, Storm.drawn(self.kernel)
        self.world.weather, self.world.topic.lost = storm.weather, storm.broker_lost
        kernel.kills, kernel.freezes = storm.kills, storm.freezes
        end_us = kernel.begin_us + _STORM_S * S
        kernel.later(0, lambda: self._arrive(end_us))
        kernel.later(0, self._look)
        kernel.later(0, lambda: self._ask(end_us))
        if storm.jumps:
            kernel.later(kernel.random.randrange(_STORM_S) * S, self._jump)
        kernel.run(lambda: kernel.now_us >= end_us, end_us + S * 3600)

    def _arrive(self, end_us: int) -> None:
        """Let a record arrive, and some time later the next one."""
        kernel = self.kernel
        number = len(self.world.topic.rows)
        self.world.topic.append(Row(number, kernel.now_us // MS))
        if kernel.now_us < end_us:
            kernel.later(kernel.random.randrange(5 * S, 60 * S), lambda: self._arrive(end_us))

    def _jump(self) -> None:
        host = self.kernel.random.choice(self.hosts)
        host.ahead_us = self.kernel.random.choice([-7200, -60, 60, 7200]) * S
        self.kernel.tell(f"the clock of {host.name} is {host.ahead_us // S:,} s ahead from now on")

    def _look(self) -> None:
        """Let the supervision look, as Dagster's sensor does, and some time later look again."""
        self.kernel.start("sensor", self.hosts[0], self._sensor)
        self.kernel.later(_LOOK_S * S, self._look)

    def _sensor(self, _: Process) -> int:
        loaded = self.product.loaded

        def look() -> None:
            if (switch := pending_switch(loaded)) is not None:
                if not is_switching(loaded.state):
                    self._start("finish", lambda: promotion.finish(loaded), self.hosts[0])
                self.kernel.tell(f"sees the {switch.kind} of {switch.to} under way")
                return
            for each in in_service(loaded):
                name = serving.declared_generation(each)
                if name is None or serving.is_replaced(each, name):
                    continue
                found = supervisor.tick(each)
                if found is not None:
                    self.kernel.tell(f"{name} is {found.verdict.health}")
                    if found.restart is not None:
                        again = partial(self._restart, each)
                        self._start(f"restart of {name}", again, self.hosts[0])

        return self._attempt("look", look)

    def _restart(self, loaded: LoadedPipeline) -> None:
        supervisor.restart(loaded, loaded.pipeline.sources[-1])

    def _ask(self, end_us: int) -> None:
        """Let somebody ask for something, and some time later for something else."""
        kernel = self.kernel
        commands = self._commands()
        names = [*commands, "run", "run", "promote", "new"]
        name = kernel.random.choice(names)
        host = kernel.random.choice(self.hosts) if kernel.random.random() < 0.3 else self.hosts[0]
        self._start(name, commands[name], host)
        if kernel.now_us < end_us:
            us = kernel.random.choice([1, 5, 20]) * kernel.random.randrange(S // 2, 2 * S)
            kernel.later(us, lambda: self._ask(end_us))

    def _commands(self) -> dict[str, Callable[[], object]]:
        loaded = self.product.loaded

        def serving_one() -> LoadedPipeline:
            return generations.acting_on(loaded, as_kept=True)

        return {
            "run": lambda: run_chain(ChainRun(loaded, rest_requested=True)),
            "stop": lambda: stopping.stop(serving_one()),
            "pause": lambda: controls.pause(serving_one()),
            "resume": lambda: controls.resume(generations.acting_on(loaded)),
            "new": lambda: generations.begin(loaded),
            "promote": lambda: promotion.promote(loaded),
            "rollback": lambda: promotion.roll_back(loaded),
            "finish": lambda: promotion.finish(loaded),
            "abort": lambda: promotion.abort(loaded),
            "discard": lambda: lifecycle.discard(loaded),
        }

    def _start(self, name: str, command: Callable[[], object], host: Host) -> Process:
        self.people += 1
        full = f"{name} {self.people}"
        return self.kernel.start(full, host, lambda _: self._attempt(name, command))

    def _attempt(self, name: str, command: Callable[[], object]) -> int:
        """Do what a process does; return its exit status."""
        self.counts[name] += 1
        self.kernel.tell("begins")
        try:
            command()
        except HybridError as error:
            self.kernel.tell(f"is refused: {in_short(error)}")
            self.counts[f"{name} refused"] += 1
            if not error.transient:
                require_way_out(error)
            return 2
        except (OSError, DeltaError) as error:
            self.kernel.tell(f"fails: {in_short(error)}")
            self.counts[f"{name} failed"] += 1
            return 1
        self.kernel.tell("is done")
        return 0

    # The calm after it.

    def _calm(self) -> None:
        kernel = self.kernel
        kernel.tell("from now on nothing goes wrong any more")
        self.world.weather, self.world.topic.lost = Weather(), 0.0
        kernel.kills = kernel.freezes = 0.0
        person = kernel.start("person", self.hosts[0], self._mend)
        kernel.run(lambda: person.status is not None, kernel.now_us + _REST_S * S)
        self._require_right()

    def _mend(self, _: Process) -> int:
        """Ask for what people want, and do what each refusal says, until all is well."""
        kernel, loaded = self.kernel, self.product.loaded
        # What was launched before comes to its end first.
        kernel.sleep(130 * S)
        trail: list[str] = []
        for _hop in range(_HOPS):
            try:
                promotion.finish(loaded)
                run_chain(ChainRun(loaded, rest_requested=True))
                if serving.candidate_name(loaded) is not None:
                    promotion.promote(loaded)
                controls.resume(generations.acting_on(loaded))
                if self._is_at_rest():
                    return 0
                trail.append("not healthy yet")
            except HybridError as error:
                require_way_out(error)
                kernel.tell(f"is refused: {in_short(error)}")
                trail.append(f"{type(error).__name__}: {error}")
                self._follow(error)
        raise WrongError("no way out:\n  {}".format("\n  ".join(trail)))

    def _follow(self, error: HybridError) -> None:
        """Do what an error says."""
        kernel = self.kernel
        kernel.sleep(150 * S)
        server = error.fields.get("server")
        here = kernel.me.host
        for each in self.hosts:
            if each.name == server:
                kernel.me.host = each
        commands = self._commands()
        ways: dict[str, Callable[[], object]] = {
            "abort": commands["abort"],
            "finish": commands["finish"],
            "discard": commands["discard"],
            "new": commands["new"],
            "rollback": commands["rollback"],
        }
        text = f"{error.message} {error.hint}"
        found = next((name for pattern, name in WAYS if re.search(pattern, text)), None)
        if stop := re.search(r"`hybrid stop P(?: --generation (g\d+))?`", text):
            loaded, named = self.product.loaded, stop[1]
            self._again(lambda: stopping.stop(generations.acting_on(loaded, named, as_kept=True)))
        elif found in ways:
            self._again(ways[found])
        kernel.me.host = here

    def _again(self, command: Callable[[], object]) -> None:
        try:
            command()
        except HybridError as error:
            self.kernel.tell(f"is refused, too: {in_short(error)}")

    def _is_at_rest(self) -> bool:
        """Wait until the live run is healthy and has read everything; False if it never is."""
        loaded, kernel = self.product.loaded, self.kernel
        for _ in range(40):
            name = read_serving(loaded).generation
            declared = declaration_of(loaded, name)
            look = look_at_live(declared, read_generation(loaded.state, name))
            verdict = None if look is None else look.verdict
            if verdict and verdict.health == "healthy" and verdict.numbers.get("lag") == 0:
                return True
            kernel.sleep(20 * S)
        return False

    def _require_right(self) -> None:
        """The table that readers see has every row once."""
        rows = self.watcher.rows(self.product.loaded.target.url)
        wanted = Counter(row.number for row in self.world.topic.rows)
        if rows != wanted:
            missing, more = wanted - rows, rows - wanted
            message = f"healthy, and yet: missing {sorted(missing)}, superfluous {sorted(more)}"
            raise WrongError(message)


def in_short(error: Exception) -> str:
    """Return an error in words that are the same each time, as the digest has them."""
    return short(f"{type(error).__name__}: {error}")
