"""Kills at random instants of a chain, and where in it they hit."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from benchmarks.record import record
from hybrid_extensions.servers.broker import LocalBroker
from hybrid_extensions.servers.process import free_ports
from orchestration.catch_up import wait_until_caught_up
from orchestration.comparison.report import AuditReport
from orchestration.operations import live_run, stopping
from sources.config.loader import LoadedPipeline
from sources.hybrid import SwitchState
from sources.planning.context import PipelineContext
from sources.serving import FIRST, candidate_name, pending_switch, read_serving
from spark_jobs.checkpoint import offset_log
from spark_jobs.launch.launch_record import last_launch
from tests.e2e.case import Case, windows
from tests.services.lake import Edit
from tests.services.processes import all_running, child_of, runs, wait_for

Victim = Literal["driver", "JVM", "driver and JVM", "watcher", "watcher and driver", "broker"]
VICTIMS: dict[Victim, int] = {
    "driver": 3,
    "JVM": 2,
    "driver and JVM": 3,
    "watcher": 1,
    "watcher and driver": 2,
    "broker": 1,
}
RUN = "from orchestration.cli.main import main; main()"
FILES = 8
LATEST_S = 20.0
PATIENCE_S = 900.0
PLACES = (
    "before the plan",
    "before history's first batch",
    "in a batch of history",
    "between batches of history",
    "after history's last batch",
    "after the end position",
    "before the first live batch",
    "in the first live batch",
    "in a live batch",
    "between live batches",
    "while another generation is computed",
    "in the promotion",
)
# Too short to be hit by chance.
NARROW = PLACES[4:8]


def where(loaded: LoadedPipeline) -> str:
    """Where in the chain a pipeline is: one of ``PLACES``."""
    if pending_switch(loaded) is not None:
        return PLACES[11]
    if candidate_name(loaded) is not None:
        return PLACES[10]
    generation = loaded.open_generation(create=False)
    if generation is None or not generation.exists("plan.json"):
        return PLACES[0]
    enumerator = SwitchState(loaded.pipeline.hybrid_source(), generation)
    planned = offset_log.last_planned(generation.checkpoint)
    committed = offset_log.last_committed(generation.checkpoint)
    is_in_batch = planned != committed
    if enumerator.end_of("history") is None:
        if planned is None:
            return PLACES[1]
        if is_in_batch:
            return PLACES[2]
        return PLACES[4] if committed is not None and committed >= FILES - 1 else PLACES[3]
    if enumerator.start_of("live") is None:
        return PLACES[5]
    if not offset_log.next_offsets(generation.checkpoint, 1):
        return PLACES[7] if is_in_batch else PLACES[6]
    return PLACES[8] if is_in_batch else PLACES[9]


class Chain:
    """One chain that is killed again and again, and run again each time.

    Args:
        folder: Its own.
        broker: Killed too.
        chance: Decides what is killed, and when.
        kind: ``windows``, updated by key over the seam, or ``rows``, appended.
        move: Moves the pipeline's declaration into a store.
    """

    def __init__(
        self,
        folder: Path,
        broker: Broker,
        chance: random.Random,
        kind: Literal["windows", "rows"],
        move: Edit,
    ) -> None:
        self._broker = broker
        self._chance = chance
        self._case = Case(folder, broker.servers, partitions=2)
        self._case.write_history(files=FILES)
        self._next = 1500
        self._case.produce(range(500, self._next))

        def edit(document: dict[str, Any]) -> None:
            (_windows if kind == "windows" else _one_file_a_batch)(document)
            move(document)

        self.loaded = self._case.pipeline(edit)
        self._log = folder / "watcher.log"
        self._watcher: subprocess.Popen[bytes] | None = None
        self.hits: Counter[tuple[str, str]] = Counter()
        self._is_renewed = False

    def kill(self) -> None:
        """Let it run, kill at some instant, and let it go on."""
        victim = self._chance.choices(list(VICTIMS), list(VICTIMS.values()))[0]
        self._run()
        if self._chance.random() < 0.5:
            self._at(self._chance.choice(NARROW))
        else:
            until = time.monotonic() + self._chance.uniform(0, LATEST_S)
            self._while_it_runs(lambda: time.monotonic() >= until)
        place = where(self.loaded)
        if self._strike(victim):
            self.hits[victim, place] += 1
        self._produce()

    def _produce(self) -> None:
        # What comes next is read by the run after this one.
        self._case.produce(range(self._next, self._next + 20))
        self._next += 20

    def kill_in_rerun(self) -> None:
        """Let it compute its table again as another generation, and kill that or its promotion."""
        if not self._is_renewed:
            self._while_it_runs(self._is_left_running)
            wait_until_caught_up(PipelineContext.require(self.loaded))
            self._is_renewed = True
        self._run()
        if self._chance.random() < 0.5:
            self._while_it_runs(lambda: self._is_promoted() or self._is_in_promotion())
            time.sleep(self._chance.uniform(0, 4))
        else:
            until = time.monotonic() + self._chance.uniform(0, 2 * LATEST_S)
            self._while_it_runs(lambda: self._is_promoted() or time.monotonic() >= until)
        place = where(self.loaded)
        victims: tuple[Victim, ...] = ("watcher", "watcher and driver", "driver and JVM", "broker")
        if self._strike(victim := self._chance.choice(victims)):
            self.hits[victim, place] += 1
        self._produce()

    def finish(self) -> AuditReport:
        """Let it run to the end, and compare its table with an independent computation."""
        # The kill before this one may have ended a watcher as well.
        self._while_it_runs(self._is_left_running)
        if self._is_renewed:
            assert self._is_promoted()
        wait_until_caught_up(PipelineContext.require(self.loaded))
        stopping.stop(self.loaded)
        # Without the extension, only what audits is skipped.
        from hybrid_extensions.audit.run import audit  # noqa: PLC0415

        return audit(self.loaded)

    def end(self) -> None:
        """Leave nothing behind."""
        self._kill(self._watcher)
        stopping.stop(self.loaded)

    def _told(self) -> str:
        return f"{where(self.loaded)}: {self._log.read_text()[-3000:]}"

    def _at(self, place: str) -> None:
        """Wait for a place; a chain that is beyond it never comes there again."""
        wanted = PLACES.index(place)
        self._while_it_runs(lambda: PLACES.index(where(self.loaded)) >= wanted)

    def _while_it_runs(self, is_time: Callable[[], bool]) -> None:
        def is_over() -> bool:
            if is_time():
                return True
            self._run()
            return False

        wait_for(is_over, self._told, PATIENCE_S)

    def _run(self) -> None:
        """Materialize again, unless that is under way or the stream is there."""
        if self._watcher is not None and self._watcher.poll() is None:
            return
        if self._is_left_running():
            return
        command = [sys.executable, "-c", RUN, *self._command(), str(self.loaded.path)]
        with self._log.open("ab") as log:
            self._watcher = subprocess.Popen(command, stdout=log, stderr=log)

    def _command(self) -> list[str]:
        if self._is_in_promotion():
            return ["generation", "finish"]
        return ["rerun"] if self._is_renewed and not self._is_promoted() else ["run"]

    def _is_in_promotion(self) -> bool:
        return pending_switch(self.loaded) is not None

    def _is_promoted(self) -> bool:
        return not self._is_in_promotion() and read_serving(self.loaded).generation != FIRST

    def _is_left_running(self) -> bool:
        if self._is_renewed and not self._is_promoted():
            return False
        is_over = self._watcher is not None and self._watcher.poll() == 0
        return is_over and live_run.is_live(self.loaded)

    def _strike(self, victim: Victim) -> bool:
        """Kill it; returns whether it was there."""
        if victim == "broker":
            self._broker.kill_and_start_again()
            return True
        watcher = self._watcher if "watcher" in victim else None
        was_there = watcher is not None and watcher.poll() is None
        self._kill(watcher)
        generation = self.loaded.open_generation(create=False)
        launch = None if generation is None else last_launch(generation)
        if victim == "watcher" or launch is None or launch.group is None:
            return was_there
        killed = False
        jvm = launch.group
        with contextlib.suppress(ProcessLookupError):
            if not runs(jvm):
                return was_there
            driver = child_of(jvm)
            if victim in ("driver", "watcher and driver"):
                os.kill(driver, signal.SIGKILL)
            elif victim == "JVM":
                os.kill(jvm, signal.SIGKILL)
            else:
                os.killpg(jvm, signal.SIGKILL)
            killed = True
        return killed or was_there

    @staticmethod
    def _kill(process: subprocess.Popen[bytes] | None) -> None:
        if process is not None:
            process.kill()
            process.wait()


class Broker:
    """A broker that may be killed, and is found again at the same address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (self._port,) = free_ports(1)
        self.servers = f"127.0.0.1:{self._port}"
        self._start()

    def kill_and_start_again(self) -> None:
        settings = str(self._folder / "server.properties")
        pids = [each.pid for each in all_running() if settings in each.command]
        assert pids
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(map(runs, pids)), "the broker's end")
        self._running.stop()
        self._start()

    def stop(self) -> None:
        self._running.stop()

    def _start(self) -> None:
        self._running = LocalBroker(self._folder, port=self._port)
        self._running.start()


def report(
    hits: Counter[tuple[str, str]], wrong: Counter[str], chains: int, store: str, seed: int
) -> str:
    """Kills by victim and place; written down, and returned as a table."""
    document: dict[str, Any] = {
        "store": store,
        "kills": hits.total(),
        "chains": chains,
        "rows lost": wrong["missing"],
        "rows doubled": wrong["duplicated"],
        "rows different": wrong["different"] + wrong["unexpected"],
        "hits": [
            {"victim": victim, "where": place, "kills": count}
            for (victim, place), count in sorted(hits.items())
        ],
    }
    settings = f"HYBRID_STORE={store} HYBRID_KILLS={hits.total()} HYBRID_SEED={seed}"
    command = f"{settings} python -m pytest tests/e2e/supervision/test_kills.py"
    record(f"kills-{store}-{seed}", document, command)
    lines = [f"{'':30}" + "".join(f"{victim:>20}" for victim in VICTIMS)]
    lines += [
        f"{place:30}" + "".join(f"{hits[victim, place]:>20}" for victim in VICTIMS)
        for place in PLACES
    ]
    told = ", ".join(f"{value} {name}" for name, value in document.items() if name != "hits")
    return "\n".join([*lines, told])


def _windows(document: dict[str, Any]) -> None:
    windows(document)
    _one_file_a_batch(document)


def _one_file_a_batch(document: dict[str, Any]) -> None:
    document["sources"][0]["batch"] = {"files": 1}
