"""The rules of the machine: what people do, in any order."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hybrid_extensions.audit.run import audit
from hybrid_extensions.generations import lifecycle
from hybrid_extensions.generations.switch import promotion
from orchestration.chain import ChainRun, run_chain
from orchestration.operations import chain_plan, stopping
from orchestration.supervision import controls
from orchestration.supervision.status import status
from sources import generations
from sources.errors import HybridError
from sources.serving import read_serving, target_of
from tests.machine import invariants
from tests.machine.drivers import Fleet, patch_launches
from tests.machine.interrupts import Interrupts, KilledError, patch_writes
from tests.machine.model_driver import ModelDriver, ModelMachine
from tests.machine.ways_out import lead_out
from tests.machine.world import World, set_field

KILL = st.one_of(st.none(), st.integers(1, 24), st.sampled_from(range(1, 60)))
"""The half step of a command's writes at which it is killed; mostly it lives."""
OFF = set(filter(None, os.environ.get("HYBRID_RULES_OFF", "data_file").split(",")))
"""Names of rules that are switched off: by default, that data files of the target are deleted.

Readers of the table see that at once; neither the status nor a launch looks at each file.
"""
WEIGHTS = {
    "run": 4,
    "run_it": 2,
    "records_arrive": 2,
    "new_generation": 2,
    "promote": 3,
    "roll_back": 3,
    "audit_it": 2,
    "something_is_deleted": 2,
    "copy_is_restored": 2,
}
EDITS: list[tuple[str, Any]] = [
    ("sources.0.batch", {"files": 2}),
    ("sources.0.batch", {"bytes": "1 MB"}),
    ("sources.1.trigger_interval", "200 ms"),
    ("sources.1.max_offsets_per_batch", 7),
    ("sources.1.start", "earliest"),
    ("sources.0.name", "old"),
    ("allowed_lateness", "30 min"),
    ("allowed_lateness", "10 h"),
    ("generations", {"keep": 2}),
    ("generations", {"keep": 0}),
    ("sink.path", "out2"),
    ("sink.partition_by", ["v"]),
    ("state", "state2"),
    ("name", "n"),
    ("key", ["id", "at"]),
    ("switch", "cold"),
    ("approve", True),
    ("supervision", {"lag": 1}),
    ("event_time", {"column": "at", "not_before": "1990-01-01T00:00:00Z"}),
    ("event_time", {"column": "at", "outside": "drop"}),
]


class People(RuleBasedStateMachine):
    """People at work on one pipeline.

    Attributes:
        servers: Address of the broker; set before the machine runs.
        counts: What was done by all machines of this process.
    """

    servers: ClassVar[str] = ""
    counts: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        shm = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="machine-", dir=shm))
        self.world = World(self.folder / "p", self.servers)
        self.interrupts = Interrupts()
        self.patch = pytest.MonkeyPatch()
        self.machine = self.make_machine()
        self.fleet = Fleet(self.machine)
        patch_writes(self.patch, self.interrupts)
        patch_launches(self.patch, self.fleet)
        # Each rule in each sequence, the ones that matter more often: by default only some rules
        # take part in a sequence, and few of these sequences would lead anywhere.
        chooser: Any = self._rules_strategy
        # The first one is what Hypothesis falls back to.
        rules = sorted(chooser.rules, key=self.weight, reverse=True)
        weighted = [each for each in rules for _ in range(self.weight(each))]
        chooser._enabled_rules_strategy = st.sampled_from(weighted).filter(chooser.is_valid)
        self.copies: list[tuple[str, Path]] = []
        self.damaged = False
        self.counts["sequences"] += 1

    @staticmethod
    def weight(rule: Any) -> int:
        """Return how often a rule is chosen, relative to others."""
        return WEIGHTS.get(rule.function.__name__, 1)

    def make_machine(self) -> Any:
        """Return where drivers run."""
        return ModelMachine(self.world, self.interrupts)

    def teardown(self) -> None:
        """Follow the ways out to a right table; leave nothing behind."""
        try:
            lead_out(self)
        finally:
            try:
                self.fleet.stop_all()
                self.world.delete_topic()
            finally:
                self.patch.undo()
                shutil.rmtree(self.folder, ignore_errors=True)
                self.keep_counts()

    def keep_counts(self) -> None:
        """Write what was done so far, where somebody wants to know: a run may be interrupted."""
        if (folder := os.environ.get("HYBRID_COUNTS")) is not None:
            seed = os.environ.get("HYBRID_SEED", "7")
            path = Path(folder) / f"{type(self).__name__}-{seed}.json"
            path.write_text(json.dumps(dict(sorted(self.counts.items()))))

    # How a step is done.

    def do(
        self, name: str, step: Callable[[], Any], kill: int | None = None, *, atomic: bool = False
    ) -> Any:
        """Do what people ask for; count how it ended, and check what a refusal left behind."""
        self.counts[f"step {name}"] += 1
        before = invariants.fingerprint(self.world.folder) if atomic else {}
        drivers = self.kills_of_drivers()
        try:
            with self.interrupts.armed(kill):
                return step()
        except KilledError:
            self.counts["kills of commands"] += 1
        except HybridError as error:
            self.counts[f"refused {type(error).__name__} by {name}"] += 1
            invariants.require_way_out(error)
            if atomic and self.kills_of_drivers() == drivers:
                after = invariants.fingerprint(self.world.folder)
                invariants.require_nothing_left_behind(before, after, error)
            return error
        finally:
            # A driver that was launched last works on, whatever became of its launcher.
            self.fleet.running()
            self.counts["kills of drivers"] += self.kills_of_drivers() - drivers
        return None

    def kills_of_drivers(self) -> int:
        """Return how many drivers were killed at a write."""
        return int(self.machine.kills)

    def is_right(self) -> None:
        """Compare the table that serves with all raw input."""
        loaded = self.world.load()
        name = read_serving(loaded).generation
        if wrong := self.world.wrong(target_of(loaded, name).url):
            message = f"the run ended well, and yet the table lacks: {wrong}"
            raise invariants.WrongError(message)
        self.counts["rows compared"] += len(self.world.rows)

    # Data.

    @initialize(
        count=st.integers(4, 12), later=st.integers(0, 6), far=st.sampled_from([2, 4, 5, 0])
    )
    def begin(self, count: int, later: int, far: int) -> None:
        """Data, and a pipeline that is as far as some are: new, live, replaced."""
        self.world.append(count, late=3)
        self.world.archive()
        self.world.append(later)
        if far > 1:
            assert self.run_now() == "done"
        if far > 3:
            generations.begin(self.world.load())
            assert self.run_now() == "done"
        if far > 4:
            promotion.promote(self.world.load())

    @rule(count=st.integers(1, 4), late=st.sampled_from([0, 0, 5, 20]), odd=st.integers(0, 1))
    def records_arrive(self, count: int, late: int, odd: int) -> None:
        self.counts["step records arrive"] += 1
        self.world.append(count, late, odd)
        self.read_on()

    @precondition(lambda self: "clocks" not in OFF)
    @rule(year=st.sampled_from([1970, 2099]))
    def clock_is_wrong(self, year: int) -> None:
        self.counts["step clock is wrong"] += 1
        self.world.append_wrong_clock(year)
        self.read_on()

    @rule()
    def archiver_writes(self) -> None:
        self.counts["step archiver writes"] += 1
        self.world.archive()

    @precondition(lambda self: "grow" not in OFF and self.world.partitions < 4)
    @rule()
    def partitions_are_added(self) -> None:
        self.counts["step partitions are added"] += 1
        self.world.grow()

    @precondition(lambda self: "shorten" not in OFF)
    @rule(count=st.integers(1, 4))
    def retention_is_shortened(self, count: int) -> None:
        self.counts["step retention is shortened"] += 1
        self.world.shorten(count)

    @precondition(lambda self: "recreate" not in OFF)
    @rule(again=st.integers(0, 3))
    def topic_is_recreated(self, again: int) -> None:
        if again:
            return
        self.counts["step topic is recreated"] += 1
        self.world.recreate()

    # Commands.

    @rule(kill=KILL)
    def plan(self, kill: int | None) -> None:
        self.do("plan", lambda: chain_plan.plan(self.world.load()), kill)

    @rule(kill=KILL)
    def run(self, kill: int | None) -> None:
        self.run_now(kill)

    @rule()
    def run_it(self) -> None:
        self.run_now()

    def run_now(self, kill: int | None = None) -> Any:
        """Run the chain; what ends well is right."""

        def run() -> str:
            run_chain(ChainRun(self.world.load(), rest_requested=True))
            return "done"

        result = self.do("run", run, kill)
        if result == "done":
            self.read_on()
            self.is_green_right()
        return result

    @rule(kill=KILL)
    def stop(self, kill: int | None) -> None:
        self.do("stop", lambda: stopping.stop(self.world.load()), kill)

    @rule(kill=KILL)
    def pause(self, kill: int | None) -> None:
        self.do("pause", lambda: controls.pause(self.world.load()), kill)

    @rule(kill=KILL)
    def resume(self, kill: int | None) -> None:
        self.do("resume", lambda: controls.resume(self.world.load()), kill)

    @rule(kill=KILL)
    def new_generation(self, kill: int | None) -> None:
        self.do("new", lambda: generations.begin(self.world.load()), kill, atomic=kill is None)

    @rule(kill=KILL)
    def promote(self, kill: int | None) -> None:
        self.do("promote", lambda: promotion.promote(self.world.load()), kill)

    @rule(kill=KILL)
    def roll_back(self, kill: int | None) -> None:
        self.do("rollback", lambda: promotion.roll_back(self.world.load()), kill)

    @rule(kill=KILL)
    def finish(self, kill: int | None) -> None:
        self.do("finish", lambda: promotion.finish(self.world.load()), kill)

    @rule(kill=KILL)
    def discard(self, kill: int | None) -> None:
        self.do("discard", lambda: lifecycle.discard(self.world.load()), kill)

    @rule()
    def audit_it(self) -> None:
        loaded = self.do("load", self.world.load)
        report = self.do("audit", lambda: audit(loaded), atomic=True)
        if report is not None and not isinstance(report, HybridError):
            self.counts["audits ok" if report.ok else "audits not ok"] += 1
            invariants.require_right_if_proved(self.world, loaded, report)

    @precondition(lambda self: bool(self.fleet.running()))
    @rule()
    def driver_is_killed(self) -> None:
        self.counts["step driver is killed"] += 1
        for driver in self.fleet.running():
            driver.kill()
            self.counts["kills of drivers"] += 1

    # The declaration.

    @precondition(lambda self: "edit" not in OFF)
    @rule(edit=st.sampled_from(EDITS))
    def declaration_changes(self, edit: tuple[str, Any]) -> None:
        self.counts["step declaration changes"] += 1
        self.edit(*edit)

    def edit(self, field: str, value: Any) -> None:
        """Set a field of the declaration; None removes it."""
        set_field(self.world.document, field, value)
        self.world.write_declaration()

    @rule()
    def declaration_is_restored(self) -> None:
        self.counts["step declaration is restored"] += 1
        self.restore_declaration()

    def keep(self, field: str, value: Any) -> None:
        """Set a field of the declaration for good, as a hint says."""
        self.world.always[field] = value
        self.edit(field, value)

    def restore_declaration(self) -> None:
        """Undo all changes of the declaration, but for those that are kept."""
        self.world.document = self.world.declaration()
        self.world.write_declaration()

    # Hands on the table.

    def tables(self) -> list[Path]:
        """Return the folders of all Delta tables that the pipeline writes."""
        return [each for each in sorted(self.world.folder.glob("out*")) if each.is_dir()]

    @precondition(lambda self: self.tables())
    @rule(which=st.integers(0, 1))
    def optimize(self, which: int) -> None:
        table = self.tables()[which % len(self.tables())]
        self.hand("optimize", DeltaTable(table).optimize.compact)

    @precondition(lambda self: self.tables() and "vacuum" not in OFF)
    @rule(which=st.integers(0, 1))
    def vacuum(self, which: int) -> None:
        table = self.tables()[which % len(self.tables())]

        def vacuum() -> None:
            DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False)

        self.hand("vacuum", vacuum)

    @precondition(lambda self: self.tables() and "restore_table" not in OFF)
    @rule(back=st.integers(1, 4))
    def restore_table(self, back: int) -> None:
        table = self.tables()[0]

        def restore() -> None:
            opened = DeltaTable(table)
            opened.restore(max(opened.version() - back, 0))

        self.damaged = True
        self.hand("restore", restore)

    @precondition(lambda self: self.tables() and "outside_writer" not in OFF)
    @rule(how=st.sampled_from(["append", "delete", "overwrite"]))
    def outside_writer(self, how: str) -> None:
        table = self.tables()[0]

        def write() -> None:
            opened = DeltaTable(table)
            if how == "delete":
                opened.delete("v < 1")
                return
            rows = opened.to_pyarrow_table().slice(0, 1)
            commit = CommitProperties()
            write_deltalake(
                opened, rows, mode="append" if how == "append" else "overwrite",
                commit_properties=commit,
            )  # fmt: skip

        self.damaged = True
        self.hand(f"outside {how}", write)

    def hand(self, name: str, step: Callable[[], Any]) -> None:
        """Do something to a table by other means; what these refuse is not of interest."""
        self.counts[f"step {name}"] += 1
        try:
            step()
        except Exception as error:
            self.counts[f"not possible: {name}: {type(error).__name__}"] += 1

    # Hands on the folders.

    def things(self) -> list[Path]:
        """Return what people may delete: folders and files of state, checkpoint and target."""
        home, out = self.world.folder / "state", self.world.folder / "out"
        every = [*home.rglob("*"), *out.glob("*"), home]
        if "gone" not in OFF:
            every += [out] * 5
        names = (".lock", ".log")
        if "data_file" in OFF:
            every = [each for each in every if each.parent != out or each.suffix != ".parquet"]
        kept = (each for each in every if each.exists() and each.suffix not in names)
        return sorted(each for each in kept if "gone" not in OFF or each.name != "_delta_log")

    @precondition(lambda self: self.things() and "delete" not in OFF)
    @rule(which=st.integers(0, 10**6))
    def something_is_deleted(self, which: int) -> None:
        things = self.things()
        thing = things[which % len(things)]
        self.counts["step something is deleted"] += 1
        self.damaged = True
        shutil.rmtree(thing) if thing.is_dir() else thing.unlink()

    @precondition(lambda self: len(self.copies) < 3 and "backup" not in OFF)
    @rule(what=st.sampled_from(["state", "out", "state/m/g1/checkpoint", "."]))
    def copy_is_made(self, what: str) -> None:
        there = self.world.folder / what
        if there.exists():
            self.counts["step copy is made"] += 1
            here = self.folder / f"copy-{len(self.copies)}"
            shutil.copytree(there, here)
            self.copies.append((what, here))

    @precondition(lambda self: self.copies and "backup" not in OFF)
    @rule(which=st.integers(0, 2))
    def copy_is_restored(self, which: int) -> None:
        what, here = self.copies[which % len(self.copies)]
        # Input is not taken back: only what the pipeline made of it.
        parts = ["state", "out"] if what == "." else [what]
        self.fleet.stop_all()
        self.counts["step copy is restored"] += 1
        self.damaged = True
        for part in parts:
            there = self.world.folder / part
            shutil.rmtree(there, ignore_errors=True)
            source = here / part if what == "." else here
            if source.exists():
                shutil.copytree(source, there)

    @precondition(lambda self: "upgrade" not in OFF)
    @rule(which=st.integers(0, 10**6))
    def document_of_another_version(self, which: int) -> None:
        """Someone tries a newer version of the application, which writes one document; and back."""
        found = [p for p in self.things() if p.is_file() and p.suffix == ".json"]
        found = [p for p in found if b'"version"' in p.read_bytes()[:40]]
        if not found:
            return
        self.counts["step document of another version"] += 1
        path = found[which % len(found)]
        was = path.read_bytes()
        path.write_bytes(was.replace(b'"version": ', b'"version": 9', 1))
        run = self.do("run (other version)", lambda: run_chain(ChainRun(self.world.load())))
        self.counts[f"other version: {'refused' if run is not None else 'accepted'}"] += 1
        if path.exists() and b'"version": 9' in path.read_bytes()[:40]:
            path.write_bytes(was)

    # What holds after each step.

    def read_on(self) -> None:
        """Let live runs read what has arrived."""
        for driver in self.fleet.running():
            if isinstance(driver, ModelDriver):
                driver.pump()

    @invariant()
    def is_green_right(self) -> None:
        """What is green is right."""
        for driver in self.fleet.running():
            if isinstance(driver, ModelDriver):
                driver.beat()
        try:
            loaded = self.world.load()
            found = status(loaded)
        except HybridError as error:
            invariants.require_way_out(error)
            return
        rows = invariants.require_right_if_green(self.world, loaded, found)
        self.counts["rows compared"] += rows
        self.counts["green looks"] += bool(rows)
        self.counts["looks"] += 1
