"""``make demo-cdc``: capture three tables of a PostgreSQL database that changes all the time.

Starts PostgreSQL, a broker, and Kafka Connect with Debezium. One file with `tables` declares all
pipelines. Threads change the tables before, during and after snapshot, hand-over and catch-up;
drivers are killed; a table gets a column, which stops its pipeline and no other, and is declared as
the message says. At the end, each target is compared with its table, row for row. The exit status
is 0 if all are equal, 1 if not, 2 if a step fails.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import yaml

from benchmarks.freshness import latencies
from benchmarks.processes import group_of
from benchmarks.record import record
from examples.demo import ROOT, Stages, console
from examples.shop import TABLES, Customers, make_shop
from orchestration import operations, table_pipelines
from orchestration.audit.compare_source import SourceComparison, compare_with_source
from orchestration.backlog import wait_until_caught_up
from orchestration.cli.console import run
from services.broker import LocalBroker, create_topic
from services.connect import LocalConnect, debezium_config
from services.postgres import LocalPostgres
from sources.common.positions import now_ms
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.config.table_template import Template
from sources.errors import HybridError, RunError
from sources.planning.context import PipelineContext
from spark_jobs.jvm.jars import resolve_sets
from spark_jobs.launch.local import kill_group
from spark_jobs.run_state.heartbeat import read_heartbeat
from spark_jobs.run_state.lock import is_held

_SLOT = "shop"
_PARTITIONS = 3
_POLL_S = 0.5
_DELIVERY_S = 900.0
_BETWEEN_KILLS_S = (10.0, 60.0)
_NAMES = sorted(table.removeprefix("public.") for table in TABLES)
_COLUMN = ("discount", "int", 3)
_ALTERED = "public.lines"


@dataclass
class _Shop:
    """The services of the demo, and its pipelines.

    Attributes:
        dsn: Connection string of the database.
        servers: Address of the broker.
        template: The file that declares all pipelines.
    """

    dsn: str
    servers: str
    template: Template

    @property
    def loaded(self) -> list[LoadedPipeline]:
        """One pipeline for each table, as they are declared now."""
        return [self.template.load(table) for table in self.template.tables()]


def main() -> int:
    """Run the demo with the options of the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".demo-cdc", help="is emptied first")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random changes")
    parser.add_argument(
        "--changes", type=int, default=1_000_000, help="smallest number of rows changed"
    )
    parser.add_argument("--rows", type=int, default=50_000, help="orders at the start")
    parser.add_argument("--name", default="demo", help="name of the result in build/bench")
    parser.add_argument(
        "--pause", type=float, default=0.1, help="pause after each transaction, in seconds"
    )
    parser.add_argument(
        "--tables", nargs="+", choices=_NAMES, default=_NAMES, help="tables to capture"
    )
    parser.add_argument("--driver", choices=["own", "shared"], default="own", help="of each table")
    parser.add_argument(
        "--add-column", action="store_true", help=f"add a column to {_ALTERED} on the way"
    )
    parser.add_argument("--kills", type=int, default=0, help="drivers to kill at random times")
    options = parser.parse_args()
    # SIGTERM has to clean up like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stages = Stages()
    try:
        with ExitStack() as cleanup:
            comparisons = _run(options, stages, cleanup)
    except HybridError as error:
        console.print(f"[red]{error}[/]")
        return 2
    except KeyboardInterrupt:
        return 130
    for each in comparisons:
        console.print(
            f"{'equal' if each.ok else 'NOT EQUAL'}: {each.table}: {each.rows:,} rows, "
            f"{each.found:,} in the target; {each.only_in_source:,} only in the source, "
            f"{each.only_in_target:,} only in the target"
        )
        for line in each.examples:
            console.print(f"  {line}", markup=False)
    console.print(stages.table())
    return 0 if all(each.ok for each in comparisons) else 1


def _run(options: argparse.Namespace, stages: Stages, cleanup: ExitStack) -> list[SourceComparison]:
    """Run the pipelines while the tables change; record the result, and return the comparisons.

    Raises:
        RunError: A pipeline or the connector fails.
    """
    shop = _open(options, stages, cleanup)
    is_done = threading.Event()
    customers = Customers(
        shop.dsn,
        options.seed,
        rows=60,
        enough=lambda changes: is_done.is_set() and changes >= options.changes,
        pause_s=options.pause,
    )
    customers.start()
    cleanup.callback(customers.stop)
    killer = _Killer(shop.loaded, options.kills, options.seed)
    killer.start()
    cleanup.callback(killer.stop)
    with stages("one snapshot of all tables, while they change"):
        table_pipelines.copy(shop.template, lambda text: console.print(f"          {text}"))
    with stages("plan → snapshot → hand-over → live, while the tables change"):
        for one in shop.loaded:
            killer.run_until_live(one)
        killer.are_live.set()
        # A driver may have been killed after it was live and before `are_live` was set.
        for one in shop.loaded:
            killer.run_until_live(one)
    live_ms, started, before = now_ms(), time.monotonic(), _committed(shop)
    with stages("further changes, until there are enough"):
        killer.finish()
        if options.add_column:
            _add_column(shop)
        is_done.set()
        customers.wait()
    killed = f"; {killer.kills} drivers were killed" if options.kills else ""
    console.print(f"          {customers.changes:,} rows were changed{killed}")
    with stages("connector and streams caught up"), ThreadPoolExecutor(len(shop.loaded)) as pool:
        _wait_for_connector(shop.dsn)
        list(pool.map(lambda one: wait_until_caught_up(PipelineContext.require(one)), shop.loaded))
    rate = (_committed(shop) - before) / (time.monotonic() - started)
    console.print(f"          {rate:,.0f} records/s since all were live")
    latency: dict[str, dict[str, float]] = {}
    for one in shop.loaded:
        operations.stop(one)
        if seconds := sorted(latencies(one, live_ms)):
            median, p99 = statistics.median(seconds), seconds[len(seconds) * 99 // 100]
            latency[one.pipeline.name] = {"median_s": round(median, 1), "p99_s": round(p99, 1)}
            console.print(
                f"          {one.pipeline.name}: from commit to visible: median {median:.1f} s, "
                f"p99 {p99:.1f} s"
            )
    with stages("comparison: COPY of each table, and the Delta table's files"):
        comparisons = [compare_with_source(one) for one in shop.loaded]
    result = {
        "seed": options.seed,
        "changes": customers.changes,
        "kills": killer.kills,
        "records_per_s": round(rate),
        "rows": {each.table: each.rows for each in comparisons},
        "different": {
            each.table: each.only_in_source + each.only_in_target for each in comparisons
        },
        "latency": latency,
    }
    record(f"cdc-{options.name}", result)
    return comparisons


class _Killer(threading.Thread):
    """Thread that kills random drivers with SIGKILL, with their JVM, at random times.

    Args:
        loaded: Pipelines whose drivers are killed.
        count: Number of kills.
        seed: Seed of the random choices.

    Attributes:
        kills: Number of drivers killed so far.
        are_live: To be set when all live runs are up: from then on the thread restarts what it
            kills.
    """

    def __init__(self, loaded: Sequence[LoadedPipeline], count: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._loaded = loaded
        self._left = count
        self._chance = random.Random(f"kills-{seed}")
        self._stop_now = threading.Event()
        self.kills = 0
        self.are_live = threading.Event()

    def run(self) -> None:
        """Kill drivers until the number of kills is reached, or until stopped."""
        while self._left and not self._stop_now.wait(self._chance.uniform(*_BETWEEN_KILLS_S)):
            one = self._chance.choice(self._loaded)
            generation = one.open_generation(create=False)
            group = group_of(one)
            if generation is None or group is None or not is_held(generation):
                continue
            kill_group(group)
            self.kills += 1
            self._left -= 1
            if self.are_live.is_set():
                down = self._loaded if one.pipeline.spark.driver == "shared" else [one]
                for each in down:
                    while operations.is_live(each):
                        time.sleep(_POLL_S)
                    operations.go_live(PipelineContext.require(each), _changes(each))

    def run_until_live(self, one: LoadedPipeline) -> None:
        """Run a pipeline until it is live; run it again if its driver is killed.

        Raises:
            RunError: It failed although no driver was killed.
        """
        while True:
            before = self.kills
            try:
                run(one, stop_when_caught_up=False)
            except RunError:
                if self.kills == before:
                    raise
            else:
                return

    def finish(self) -> None:
        """Return when all drivers are killed that are to be, and the live runs are up again."""
        self.join()

    def stop(self) -> None:
        """Stop killing; return when the last killed live runs are up again."""
        self._stop_now.set()
        self.join()


def _open(options: argparse.Namespace, stages: Stages, cleanup: ExitStack) -> _Shop:
    """Start database, broker and connector, fill the shop, and declare the pipelines."""
    folder = options.folder.absolute()
    with stages("jars for Spark, Kafka and Debezium (downloaded once, then cached)"):
        sets = ("spark", "broker", "connect")
        resolve_sets(sets, lambda text: console.print(f"          {text}"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with stages("PostgreSQL, Kafka, Kafka Connect"):
        postgres = cleanup.enter_context(LocalPostgres())
        os.environ["PGPASSWORD"] = postgres.password
        broker = cleanup.enter_context(LocalBroker(folder / "broker"))
        servers = broker.bootstrap_servers
        settings = {"value.converter.schemas.enable": "true"}
        connect = cleanup.enter_context(LocalConnect(servers, folder / "connect", settings))
    with stages(f"a shop with {options.rows:,} orders, and the connector's slot"):
        make_shop(postgres.dsn, options.rows)
        for table in TABLES:
            create_topic(servers, f"{_SLOT}.{table}", _PARTITIONS, {"retention.ms": "-1"})
        config = debezium_config(postgres, _SLOT, TABLES, snapshot_mode="no_data")
        connect.create(_SLOT, config)
        _wait_for_connector(postgres.dsn)
    shop = _Shop(postgres.dsn, servers, Template(_declare(folder, options, postgres.dsn, servers)))
    table_pipelines.find(shop.template)
    for one in shop.loaded:
        cleanup.callback(operations.stop, one)
    return shop


def _declare(folder: Path, options: argparse.Namespace, dsn: str, servers: str) -> Path:
    """Write the file that declares the pipelines of all tables, and return its path."""
    document = {
        # Drivers are shared by the machine's user, not by the folder.
        "name": f"shop_{os.getpid()}",
        "database": {"dsn": dsn, "slot": _SLOT, "chunk_rows": 10_000},
        "tables": {"include": [f"public.{table}" for table in options.tables]},
        "topic": f"{_SLOT}.{{schema}}.{{table}}",
        "changes": {"bootstrap_servers": servers, "max_offsets_per_batch": 100_000},
        "sink": {"path": "tables/{table}"},
        "state": "state",
        "spark": {
            "driver": options.driver,
            "driver_memory": "1g" if options.driver == "own" else "2g",
            "conf": {"spark.sql.shuffle.partitions": "2"},
        },
    }
    path = folder / "shop.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def _add_column(shop: _Shop) -> None:
    """Add a column to a table; once that has stopped its pipeline, declare it and go on."""
    name, kind, default = _COLUMN
    with psycopg.connect(shop.dsn, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {_ALTERED} ADD {name} {kind} DEFAULT {default}")
    one = shop.template.load(_ALTERED)
    while operations.is_live(one):
        time.sleep(_POLL_S)
    beat = read_heartbeat(one.require_generation(), _changes(one).name)
    console.print(f"          {_ALTERED} stops: {beat.failure if beat else None}", markup=False)
    for each in shop.loaded:
        if each.pipeline.name != one.pipeline.name and not operations.is_live(each):
            message = f"{each.pipeline.name} has stopped with {one.pipeline.name}."
            raise RunError(message, "Look at the logs below the demo's folder `state`.")
    document = yaml.safe_load(shop.template.path.read_text())
    added = {"added_columns": {name: {"type": kind, "default": default}}}
    document["tables"]["overrides"] = {_ALTERED: {"changes": added}}
    shop.template.path.write_text(yaml.safe_dump(document, sort_keys=False))
    shop.template = Template(shop.template.path)
    again = shop.template.load(_ALTERED)
    operations.go_live(PipelineContext.require(again), _changes(again))


def _changes(loaded: LoadedPipeline) -> KafkaSource:
    """Return the last source of a pipeline, its topic of changes."""
    source = loaded.pipeline.sources[-1]
    assert isinstance(source, KafkaSource)
    return source


def _committed(shop: _Shop) -> int:
    """Offsets of all topics that the streams have merged."""
    return sum(
        sum(operations.reached(PipelineContext.require(one), _changes(one)).values())
        for one in shop.loaded
    )


def _wait_for_connector(dsn: str) -> None:
    """Wait until the connector has delivered all changes that are committed in PostgreSQL now.

    Raises:
        RunError: It has not done so in time.
    """
    deadline = time.monotonic() + _DELIVERY_S
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        assert row is not None
        while time.monotonic() < deadline:
            # A change that advances the slot when there are no others.
            connection.execute(
                "INSERT INTO stock (sku, pieces) VALUES ('nobody buys this', 0) "
                "ON CONFLICT (sku) DO UPDATE SET pieces = 0"
            )
            found = connection.execute(
                "SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots WHERE slot_name = %s",
                [row[0], _SLOT],
            ).fetchone()
            if found is not None and found[0]:
                return
            time.sleep(_POLL_S)
    message = f"The connector has not delivered everything within {_DELIVERY_S:.0f} s."
    raise RunError(message, "Look at the connector's log in the demo's folder.")


if __name__ == "__main__":
    sys.exit(main())
