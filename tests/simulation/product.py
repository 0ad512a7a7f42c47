"""What the simulation puts in place of clocks, stores, brokers, processes, Spark and delta-rs.

All else is the product as it is. Whoever is not a simulated process gets the real thing.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from hybrid_extensions.generations.files import linked_files, take_over, unlisted_files
from hybrid_extensions.generations.switch import promotion
from hybrid_extensions.generations.switch import steps as switch_steps
from orchestration import chain
from orchestration.operations import chain_plan
from sources import generations, kept_definitions
from sources.common.state_document import Record
from sources.config.loader import KeptDefinition, LoadedPipeline, load_pipeline
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning import declaration_digests
from sources.planning import plan as planning
from sources.state import generation as generation_state
from sources.state.generation import Generation
from sources.storage import stores
from sources.storage.folder import Folder
from sources.storage.tables import delta as delta_tables
from spark_jobs.inside.driver import pipeline_run
from spark_jobs.inside.driver.reports import heartbeat_writer, reporter
from spark_jobs.inside.sink import sink
from spark_jobs.launch import (
    launch_record,
    run_control,
    runs,
    unread_generations,
)
from spark_jobs.launch.places import local
from spark_jobs.launch.places.base import Order
from spark_jobs.launch.submission import submit
from spark_jobs.run_state import lease
from spark_jobs.table.ownership import target_guard
from tests.simulation import delta, driver
from tests.simulation.kernel import (
    MS,
    Process,
    S,
    SimulatedEvent,
    SimulatedLock,
    SimulatedThread,
    active,
    in_simulation,
)
from tests.simulation.stages import Stage, make_stages
from tests.simulation.store import SCHEME, SimulatedDocuments, Store
from tests.simulation.topic import NAME, Row, SimulatedLog, Topic
from tests.simulation.world import Weather, World, enter

HISTORY = 8
"""Rows that the files of history hold."""
BEFORE = 12
"""Rows that the topic holds at first, those of history among them."""
_PLAN = "plan.json"


class Product:
    """The pipeline that is simulated, and its plan, which is made once.

    Attributes:
        loaded: The declaration.
        files: Numbers of the rows in each file of history.
        stages: Worlds that schedules begin with.
    """

    stages: list[Stage]

    def __init__(self, folder: Path, begin_ms: int) -> None:
        self.rows = [Row(number, begin_ms + number * 60_000) for number in range(BEFORE)]
        half = HISTORY // 2
        self.files = [list(range(half)), list(range(half, HISTORY))]
        (folder / "in").mkdir()
        for number, file in enumerate(self.files):
            _write_history(folder / "in" / f"{number}.parquet", [self.rows[each] for each in file])
        (folder / "m.yaml").write_text(yaml.safe_dump(_declaration()))
        (folder / "transforms.py").write_text("def identity(rows):\n    return rows\n")
        self.loaded = load_pipeline(folder / "m.yaml")
        contract = self.loaded.contract()
        object.__setattr__(self.loaded, "contract", lambda: contract)
        enter(World(Store(), self.topic(), Weather()))
        self.plan, self.listings = planning.draft_plan(self.loaded)
        enter(None)

    def topic(self) -> Topic:
        """Return the topic as it is at first."""
        made = Topic()
        for row in self.rows:
            made.append(row)
        return made

    def kept(self, generation: str) -> LoadedPipeline:
        """Return the declaration as the copy that was kept for a generation."""
        kept = KeptDefinition(generation=generation, home=str(self.loaded.folder))
        made = replace(self.loaded, kept=kept)
        object.__setattr__(made, "contract", self.loaded.contract)
        return made


def _declaration() -> dict[str, Any]:
    return {
        "name": "m",
        # Not by the real clock.
        "event_time": {"column": "at", "not_after": "2099-01-01T00:00:00Z"},
        "key": ["id"],
        "allowed_lateness": "20 min",
        "sources": [
            {
                "name": "history",
                "type": "files",
                "path": "in/*.parquet",
                "format": "parquet",
                "batch": {"files": 1},
            },
            {
                "name": "live",
                "type": "kafka",
                "topic": NAME,
                "bootstrap_servers": "kafka:9092",
            },
        ],
        "transform": "transforms:identity",
        "sink": {"path": f"{SCHEME}lake/out", "mode": "append", "key": ["id"]},
        "state": f"{SCHEME}lake/state",
    }


def _write_history(path: Path, rows: list[Row]) -> None:
    schema = pa.schema([("id", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    ids, times = [f"k{row.number}" for row in rows], [row.at_ms * 1000 for row in rows]
    pq.write_table(pa.table([ids, pa.array(times, schema.field("at").type)], schema=schema), path)


@contextmanager
def simulated(folder: Path, begin_ms: int) -> Iterator[Product]:
    """Put the simulation in place of all that is not the product's own, in the body of ``with``.

    Args:
        folder: For the pipeline's file and its history; empty.
        begin_ms: Event time of the first row.
    """
    with pytest.MonkeyPatch.context() as patch:
        _patch_clocks(patch)
        _patch_stores(patch)
        _remember_documents(patch)
        made = Product(folder, begin_ms)
        _patch_processes(patch, made)
        _patch_plan(patch, made)
        made.stages = make_stages(made.loaded, made.rows)
        yield made


def _patch_clocks(patch: pytest.MonkeyPatch) -> None:
    def either(owner: Any, name: str, simulated: Callable[..., Any]) -> None:
        real = getattr(owner, name)

        def choose(*args: Any, **kwargs: Any) -> Any:
            return (simulated if in_simulation() else real)(*args, **kwargs)

        patch.setattr(owner, name, choose)

    def wall_us() -> int:
        kernel = active()
        return kernel.now_us + kernel.me.host.ahead_us

    either(time, "time_ns", lambda: wall_us() * 1000)
    either(time, "time", lambda: wall_us() / S)
    either(time, "monotonic", lambda: active().now_us / S)
    either(time, "sleep", lambda seconds: active().sleep(int(seconds * S)))
    either(uuid, "uuid4", lambda: uuid.UUID(int=active().random.getrandbits(128)))
    either(os, "getpid", lambda: active().me.pid)
    either(socket, "gethostname", lambda: active().me.host.name)
    either(os, "kill", _kill)
    either(os, "killpg", _kill)
    either(os, "waitpid", _no_child)
    threads = SimpleNamespace(
        **{
            **vars(threading),
            "Thread": SimulatedThread,
            "Lock": SimulatedLock,
            "RLock": SimulatedLock,
            "Event": SimulatedEvent,
        }
    )
    for module in (lease, target_guard, heartbeat_writer, reporter):
        patch.setattr(module, "threading", threads)
    patch.setattr(lease, "_machine", lambda: active().me.host.name)
    patch.setattr(lease, "_has_ended", _has_ended)


def _kill(pid: int, number: int) -> None:
    kernel = active()
    found = kernel.processes.get(pid)
    if found is None or not found.is_running or found.host is not kernel.me.host:
        raise ProcessLookupError
    if number == signal.SIGKILL:
        kernel.kill(found)
    elif number == signal.SIGTERM:
        kernel.tell(f"kill {found.name}")
        if found.on_term is None:
            kernel.kill(found)
        else:
            found.on_term()


def _no_child(pid: int, options: int) -> None:
    raise ChildProcessError


def _has_ended(known: lease.LeaseRecord) -> bool:
    kernel = active()
    found = kernel.processes.get(known.pid)
    return known.machine == kernel.me.host.name and (found is None or not found.is_running)


class _OneByOne:
    """What a pool of threads does, by this thread."""

    def __init__(self, workers: int) -> None:
        self.map = map

    def __enter__(self) -> _OneByOne:
        return self

    def __exit__(self, *_: object) -> None:
        return


def _remember_documents(patch: pytest.MonkeyPatch) -> None:
    """Parse equal documents once: they never change, and parsing is most of the time."""
    parse = Record.parse.__func__  # type: ignore[attr-defined]
    remembered: Any = lru_cache(20_000)(parse)
    patch.setattr(Record, "parse", classmethod(remembered))
    compare = generation_state.changed_parts
    known: dict[tuple[Any, ...], list[str]] = {}

    def changed_parts(kept: Mapping[str, str], contract: Mapping[str, object]) -> list[str]:
        # There is one declaration: its parts have one value each.
        key = (*kept.items(), *contract)
        if key not in known:
            known[key] = compare(kept, contract)
        return list(known[key])

    for module in (generation_state, kept_definitions, generations, declaration_digests):
        patch.setattr(module, "changed_parts", changed_parts)


def _patch_stores(patch: pytest.MonkeyPatch) -> None:
    real = stores.Stores.folder

    def folder(self: stores.Stores, path: str) -> Folder:
        return Folder(path, SimulatedDocuments()) if path.startswith(SCHEME) else real(self, path)

    patch.setattr(stores.Stores, "folder", folder)
    # Of whose rules nothing is asked.
    patch.setattr(stores.Stores, "bucket_warnings", lambda *_: [])
    for name in [name for name in vars(SimulatedLog) if not name.startswith("__")] + ["__init__"]:
        patch.setattr(KafkaLog, name, vars(SimulatedLog)[name])
    patch.setattr(planning, "create_missing_topics", lambda _: None)
    for module in (delta_tables, sink, switch_steps):
        patch.setattr(module, "DeltaTable", delta.SimulatedTable)
    for reader in (take_over, switch_steps, unlisted_files):
        patch.setattr(reader, "read_snapshot", delta.read_snapshot)
    for user in (unlisted_files, linked_files):
        patch.setattr(user, "ThreadPoolExecutor", _OneByOne)


def _patch_plan(patch: pytest.MonkeyPatch, product: Product) -> None:
    parts = declaration_digests._parts(product.loaded)
    patch.setattr(declaration_digests, "_parts", lambda _: parts)

    class NoCheck:
        process = None

        def __init__(self, *_: object) -> None:
            return

        def __enter__(self) -> NoCheck:
            return self

        def __exit__(self, *_: object) -> None:
            return

        def start(self) -> None:
            return

        def require(self, _: object) -> None:
            return

        def settle(self, *_: object) -> Any:
            return SimpleNamespace(warnings=[])

    def draft(_: LoadedPipeline) -> Any:
        made = product.plan.model_copy(update={"created_ms": active().now_us // MS})
        return made, product.listings

    def keep_splits(part: Any, _: object, generation: Generation) -> None:
        generation.replace_bytes(part.splits_file, b"splits")

    patch.setattr(chain_plan, "TransformCheck", NoCheck)
    patch.setattr(chain_plan, "require_runnable", lambda _: None)
    # The files of the model never change, and it keeps no splits of them.
    patch.setattr(unread_generations, "_has_other_files", lambda *_: False)
    patch.setattr(chain_plan, "find_places", lambda loaded, _: loaded)
    patch.setattr(chain_plan, "make_plan", partial(planning.make_plan, draft=draft))
    patch.setattr(planning, "keep_splits", keep_splits)
    # The audit's query is DuckDB's.
    patch.setattr(promotion, "query_misfit", lambda *_: None)


class Started:
    """What ``subprocess`` returns for a driver that was started."""

    def __init__(self, process: Process) -> None:
        self.pid = process.pid
        self._process = process

    def poll(self) -> int | None:
        return self._process.status

    def wait(self) -> int | None:
        while self._process.status is None:
            active().sleep(100 * MS)
        return self._process.status


def _patch_processes(patch: pytest.MonkeyPatch, product: Product) -> None:
    def command(
        loaded: LoadedPipeline, sources: list[str], launch_id: str, generation: str
    ) -> list[str]:
        kept = "" if loaded.kept is None else str(loaded.kept.generation)
        return [kept, launch_id, generation, *sources]

    def start(order: Order) -> Started:
        kept, launch_id, generation, *sources = order.command
        loaded = product.kept(kept) if kept else product.loaded
        kernel = active()
        kernel.crash_maybe()
        launch = driver.Launch(loaded, sources, launch_id, generation)
        work = partial(driver.main, product.files, launch)
        name = f"driver {launch_id[:4]} of {kept or 'the newest'}"
        made = Started(kernel.start(name, kernel.me.host, work))
        kernel.tell(f"starts {name}")
        return made

    def nowhere(_: Folder, name: str) -> Path:
        return Path("/nonexistent") / name

    def local_copy(folder: Folder) -> Path:
        for name in folder.names("*"):
            folder.read_bytes(name)
        return Path(folder.url.removeprefix(SCHEME))

    def load_kept(path: Path) -> LoadedPipeline:
        return product.kept(path.parents[1].name)

    def launch(**fields: Any) -> launch_record.Launch:
        # Its default is the real function, whatever is put in its place.
        return launch_record.Launch(host=socket.gethostname(), **fields)

    patch.setattr(runs, "Launch", launch)
    patch.setattr(submit, "command", command)
    patch.setattr(submit, "environment", lambda *_: {})
    patch.setattr(submit, "prepare_scratch", lambda *_: None)
    patch.setattr(submit, "claim_scratch", lambda *_: None)
    patch.setattr(runs, "start", start)
    # What a signal reaches is alive; the machine's own processes are none of the simulation's.
    patch.setattr(local, "_states", lambda _: iter(()))
    patch.setattr(chain, "waiting_driver", lambda _: None)
    patch.setattr(run_control, "installed_drivers", lambda: None)
    for module in (runs, launch_record):
        patch.setattr(module, "local_path", nowhere)
    patch.setattr(heartbeat_writer, "trim", lambda *_: None)
    patch.setattr(heartbeat_writer, "keep", lambda *_: None)
    patch.setattr(kept_definitions, "code_of", lambda _: [])
    patch.setattr(kept_definitions, "local_copy", local_copy)
    patch.setattr(kept_definitions, "load_pipeline", load_kept)
    patch.setattr(pipeline_run, "only_session", lambda: None)
    patch.setattr(pipeline_run, "_ahead", lambda *_, **__: None)
    patch.setattr(pipeline_run, "run_bounded", driver.run_bounded)
    patch.setattr(pipeline_run, "run_unbounded", driver.run_unbounded)
