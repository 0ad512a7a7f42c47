"""``make demo-cdc``: capture all tables of a PostgreSQL, a MariaDB and a MySQL in use.

For each database, one file with `tables` declares all pipelines. Threads change the tables before,
during and after snapshot, hand-over and catch-up; meanwhile cuts of the tables are published. With
the options, drivers, connector and database are killed at random times, and a table gets a column,
which stops its pipeline and no other, and is declared as the message says. At the end, each target
is compared with its table, row for row, and in each cut the invariants have to hold. The exit
status is 0 if they do and all tables are equal, 1 if not, 2 if a step fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import yaml

from benchmarks.freshness import latencies
from benchmarks.processes import group_of
from benchmarks.record import record
from examples import transfers
from examples.captured import KINDS, CapturedDatabase
from examples.demo import ROOT, Stages, console
from examples.killer import Background, Killed, Killer
from examples.shop import NAMES, Customers, execute, make_shop
from examples.transfers import Transfers, broken
from hybrid_extensions.cdc.parallel_pipelines import run_in_threads
from hybrid_extensions.cdc.tables import table_pipelines
from hybrid_extensions.cdc.tables.template import Template
from hybrid_extensions.compare.compare_source import SourceComparison, compare_with_source
from hybrid_extensions.cuts.attempt import GivenUp
from hybrid_extensions.cuts.members import load_group
from hybrid_extensions.cuts.publisher import publish
from hybrid_extensions.cuts.table import list_cuts
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from orchestration.catch_up import wait_until_caught_up
from orchestration.chain import ChainRun, Observer, run_chain
from orchestration.launch_checks import next_offsets
from orchestration.operations import live_run, stopping
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import HybridError, RunError, StateError
from sources.planning.context import PipelineContext
from spark_jobs.jvm.jars import resolve_sets
from spark_jobs.run_state.heartbeat import read_heartbeat

_PARTITIONS = 3
_POLL_S = 0.5
_CUT_S = 180.0
_COLUMN = ("discount", "int", 3)
_ALTERED = "lines"


class _Shop:
    """A database, its connector, and the pipelines of its tables.

    Args:
        database: The database with its connector.
        template: The file that declares all pipelines.
    """

    def __init__(self, database: CapturedDatabase, template: Template) -> None:
        self.database = database
        self.template = template

    @property
    def loaded(self) -> list[LoadedPipeline]:
        """One pipeline for each table, as they are declared now."""
        return [self.template.load(table) for table in self.template.tables()]


def main() -> int:
    """Run the demo with the options of the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".demo-cdc", help="is emptied first")
    parser.add_argument("--databases", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=1, help="seed of the random changes")
    parser.add_argument(
        "--changes", type=int, default=1_000_000, help="smallest number of rows changed"
    )
    parser.add_argument(
        "--seconds", type=float, default=0, help="shortest time of changes after all are live"
    )
    parser.add_argument("--rows", type=int, default=50_000, help="orders at the start")
    parser.add_argument("--name", default="demo", help="name of the result in build/bench")
    parser.add_argument(
        "--pause", type=float, default=0.1, help="pause after each transaction, in seconds"
    )
    parser.add_argument(
        "--tables", nargs="+", choices=NAMES, default=list(NAMES), help="tables to capture"
    )
    parser.add_argument("--driver", choices=["own", "shared"], default="own", help="of each table")
    parser.add_argument(
        "--no-kafka", action="store_true", help="with `hybrid change-log`, without Kafka"
    )
    parser.add_argument(
        "--cuts",
        action="store_true",
        help="publish cuts all the time; without Kafka, those of PostgreSQL",
    )
    parser.add_argument(
        "--add-column", action="store_true", help=f"add a column to {_ALTERED} on the way"
    )
    parser.add_argument("--kills", type=int, default=0, help="drivers to kill at random times")
    parser.add_argument(
        "--crashes", type=int, default=0, help="crashes of connector and database, in turns"
    )
    options = parser.parse_args()
    # SIGTERM has to clean up like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stages = Stages()
    is_right = True
    try:
        shutil.rmtree(options.folder, ignore_errors=True)
        with stages("jars for Spark, Kafka and Debezium (downloaded once, then cached)"):
            broker = () if options.no_kafka else ("broker",)
            sets = ("spark", *broker, *(KINDS[kind].jars for kind in options.databases))
            resolve_sets(sets, lambda text: console.print(f"          {text}"))
        for kind in options.databases:
            console.rule(kind)
            with ExitStack() as cleanup:
                is_right &= _run(kind, options, stages, cleanup)
    except HybridError as error:
        console.print(f"[red]{error}[/]")
        return 2
    except KeyboardInterrupt:
        return 130
    console.print(stages.table())
    return 0 if is_right else 1


def _run(kind: str, options: argparse.Namespace, stages: Stages, cleanup: ExitStack) -> bool:
    """Run the pipelines of a database while its tables change; return whether all is right.

    Raises:
        RunError: A pipeline or the connector fails.
    """
    shop = _open(kind, options, stages, cleanup)
    is_done = threading.Event()
    dsn = shop.database.dsn
    customers = Customers(
        dsn,
        options.seed,
        rows=60,
        enough=lambda changes: is_done.is_set() and changes >= options.changes,
        pause_s=options.pause,
        # For `seconds` they last at their full rate, however many changes that makes.
        asked=None if options.seconds else options.changes,
    )
    customers.start()
    cleanup.callback(customers.stop)
    tellers = cleanup.enter_context(
        Transfers(dsn, 2, pause_s=options.pause, rests=customers.has_changed_enough)
    )
    killer = _DemoKiller(shop, options)
    killer.start()
    cleanup.callback(killer.stop)
    with stages("one snapshot of all tables, while they change"):
        table_pipelines.copy(shop.template, lambda text: console.print(f"          {text}"))
    publisher = _Publisher(shop) if _has_cuts(kind, options) else None
    if publisher is not None:
        publisher.start()
        cleanup.callback(publisher.stop)
    with stages("plan → snapshot → hand-over → live, while the tables change"):
        killer.run_until_all_are_live()
        killer.are_live.set()
        # A driver may have been killed after it was live and before `are_live` was set.
        killer.run_until_all_are_live()
    live_ms, started, before = now_ms(), time.monotonic(), _committed(shop)
    with stages("further changes, until there are enough"):
        killer.finish()
        if options.add_column:
            _add_column(shop)
        time.sleep(max(options.seconds - (time.monotonic() - started), 0))
        is_done.set()
        customers.wait()
        tellers.stop()
    console.print(
        f"          {customers.changes:,} rows were changed, {tellers.committed:,} transfers made; "
        f"{killer.done.drivers} drivers were killed, connector or database crashed "
        f"{killer.done.crashes} times"
    )
    with stages("connector and streams caught up"), ThreadPoolExecutor(len(shop.loaded)) as pool:
        shop.database.wait_until_read()
        list(pool.map(lambda one: wait_until_caught_up(PipelineContext.require(one)), shop.loaded))
    rate = (_committed(shop) - before) / (time.monotonic() - started)
    console.print(f"          {rate:,.0f} records/s since all were live")
    wrong: dict[str, str] = {}
    cuts: dict[str, int] = {}
    if publisher is not None:
        with stages("cuts: the last one, and the invariants in each of them"):
            publisher.stop()
            wrong, cuts = publisher.check()
    latency = {one.pipeline.name: _latency(one, live_ms) for one in shop.loaded}
    with stages("comparison: the database's own dump, and the Delta table's files"):
        comparisons = [compare_with_source(one) for one in shop.loaded]
    for each in comparisons:
        _show(each)
    result = {
        "database": kind,
        "kafka": not options.no_kafka,
        "seed": options.seed,
        "changes": customers.changes,
        "transfers": tellers.committed,
        "kills": killer.done.drivers,
        "crashes": killer.done.crashes,
        "records_per_s": round(rate),
        "rows": {each.table: each.rows for each in comparisons},
        "different": {
            each.table: each.only_in_source + each.only_in_target for each in comparisons
        },
        "cuts": cuts,
        "latency": {name: of for name, of in latency.items() if of},
    }
    record(f"cdc-{options.name}-{kind}", result)
    return not wrong and all(each.ok for each in comparisons)


def _show(found: SourceComparison) -> None:
    console.print(
        f"{'equal' if found.ok else 'NOT EQUAL'}: {found.table}: {found.rows:,} rows, "
        f"{found.found:,} in the target; {found.only_in_source:,} only in the source, "
        f"{found.only_in_target:,} only in the target"
    )
    for line in found.examples:
        console.print(f"  {line}", markup=False)


def _latency(one: LoadedPipeline, live_ms: int) -> dict[str, float]:
    """Stop a pipeline, and return how long changes took until readers saw them, in seconds."""
    stopping.stop(one)
    seconds = sorted(latencies(one, live_ms))
    if not seconds:
        return {}
    median, p99 = statistics.median(seconds), seconds[len(seconds) * 99 // 100]
    console.print(
        f"          {one.pipeline.name}: from commit to visible: median {median:.1f} s, "
        f"p99 {p99:.1f} s"
    )
    return {"median_s": round(median, 1), "p99_s": round(p99, 1)}


class _Publisher(Background):
    """Thread that publishes cuts of all tables, one after the other.

    Args:
        shop: The database and its pipelines.
    """

    def __init__(self, shop: _Shop) -> None:
        super().__init__()
        self._shop = shop
        self._group = load_group([shop.template.path])
        self._given_up: list[str] = []

    def _works(self) -> bool:
        try:
            found = publish(self._group, _CUT_S)
        except HybridError as error:
            if not (error.transient or isinstance(error, StateError)):
                raise
            # Tables that still read their snapshot; a database or a connector that has crashed.
            self._given_up.append(error.message)
            self._stop_now.wait(5)
        else:
            if isinstance(found, GivenUp):
                self._given_up.append(found.why)
        return True

    def check(self) -> tuple[dict[str, str], dict[str, int]]:
        """Publish a last cut, of the tables at rest; return what is wrong in all cuts, and counts.

        Raises:
            RunError: There is no such cut.
        """
        for _ in range(5):
            if not isinstance(publish(self._group, _CUT_S), GivenUp):
                break
        else:
            message = "No cut of the tables at rest could be published."
            raise RunError(message, "Look at the logs below the demo's folder `state`.")
        kept = list_cuts(self._group.folder)
        wrong = broken(self._group, kept, self._shop.database.schema)
        for what, numbers in wrong.items():
            console.print(f"BROKEN: {what}: {numbers}", markup=False)
        console.print(
            f"          {len(kept):,} cuts, {len(self._given_up):,} attempts given up; "
            f"{len(wrong):,} invariants broken"
        )
        return wrong, {
            "published": len(kept),
            "given up": len(self._given_up),
            "invariants broken": len(wrong),
        }


class _DemoKiller(Killer):
    """Kills drivers from the start, and connector and database once all pipelines are live.

    Args:
        shop: The database and its pipelines.
        options: How many drivers are killed, how many crashes there are, and the seed.

    Attributes:
        are_live: To be set when all live runs are up: from then on the thread restarts what it
            kills.
    """

    def __init__(self, shop: _Shop, options: argparse.Namespace) -> None:
        asked = Killed(options.kills, options.crashes)
        super().__init__(shop.database, shop.loaded, options.seed, asked)
        self.are_live = threading.Event()

    def _can_crash(self) -> bool:
        return self.are_live.is_set()

    def _killed(self, one: LoadedPipeline, group: int) -> None:
        if self.are_live.is_set():
            down = self._loaded if one.pipeline.spark.driver == "shared" else [one]
            self._restart(down, group)

    def _restart(self, down: Sequence[LoadedPipeline], killed: int) -> None:
        for each in down:
            # The demo itself may have started it again.
            while live_run.is_live(each) and group_of(each) == killed:
                time.sleep(_POLL_S)
            live_run.go_live(PipelineContext.require(each), _changes(each))

    def run_until_all_are_live(self) -> None:
        """Run the pipelines until they are live, some at a time; again if a driver is killed.

        Raises:
            RunError: One failed although no driver was killed.
        """
        with run_in_threads(self._run_until_live, self._loaded) as live:
            for name in live:
                console.print(f"          {name} is live")

    def _run_until_live(self, one: LoadedPipeline) -> str:
        while True:
            before = self.done.drivers
            try:
                run_chain(ChainRun(one, Observer(), rest_requested=True))
            except RunError:
                if self.done.drivers == before:
                    raise
            else:
                return one.pipeline.name


def _has_cuts(kind: str, options: argparse.Namespace) -> bool:
    # Those of a binary log need what Kafka Connect keeps.
    return bool(options.cuts and (kind == "postgres" or not options.no_kafka))


def _open(kind: str, options: argparse.Namespace, stages: Stages, cleanup: ExitStack) -> _Shop:
    """Start the database and what follows it, fill the shop, and declare the pipelines."""
    folder = options.folder.absolute() / kind
    folder.mkdir(parents=True)
    servers: str | None = None
    with stages(kind if options.no_kafka else f"{kind}, Kafka, Kafka Connect"):
        if not options.no_kafka:
            servers = cleanup.enter_context(LocalBroker(folder / "broker")).bootstrap_servers
        database = cleanup.enter_context(KINDS[kind](folder, servers))
    money = list(transfers.TABLES) if _has_cuts(kind, options) else []
    tables = [*options.tables, *money]
    with stages(f"a shop with {options.rows:,} orders, and its connector"):
        make_shop(database.dsn, options.rows)
        made = transfers.MAKE if kind == "postgres" else transfers.MAKE_MARIADB
        execute(database.dsn, *made)
        if servers is not None:
            for table in tables:
                topic = f"shop.{database.schema}.{table}"
                create_topic(servers, topic, _PARTITIONS, {"retention.ms": "-1"})
        database.capture(tables)
    shop = _Shop(database, Template(_declare(folder, options, database, tables)))
    table_pipelines.find(shop.template)
    for one in shop.loaded:
        cleanup.callback(stopping.stop, one)
    return shop


def _declare(
    folder: Path,
    options: argparse.Namespace,
    database: CapturedDatabase,
    tables: Sequence[str],
) -> Path:
    """Write the file that declares the pipelines of all tables, and return its path."""
    document = {
        # Drivers are shared by the machine's user, not by the folder.
        "name": f"shop_{os.getpid()}",
        "database": {**database.declared, "chunk_rows": 10_000},
        "tables": {"include": [f"{database.schema}.{table}" for table in tables]},
        "topic": "shop.{schema}.{table}",
        "changes": {"bootstrap_servers": database.feed.servers, "max_offsets_per_batch": 100_000},
        "sink": {"path": "tables/{table}"},
        "state": "state",
        "spark": {
            "driver": options.driver,
            "driver_memory": "1g" if options.driver == "own" else "2g",
            "conf": {"spark.sql.shuffle.partitions": "2"},
        },
        **({"cuts": {"path": "cuts", "every": "1 s"}} if _has_cuts(folder.name, options) else {}),
    }
    path = folder / "shop.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def _add_column(shop: _Shop) -> None:
    """Add a column to a table; once that has stopped its pipeline, declare it and go on."""
    name, kind, default = _COLUMN
    table = f"{shop.database.schema}.{_ALTERED}"
    execute(shop.database.dsn, f"ALTER TABLE {table} ADD {name} {kind} DEFAULT {default}")
    one = shop.template.load(table)
    while live_run.is_live(one):
        time.sleep(_POLL_S)
    beat = read_heartbeat(one.require_generation(), _changes(one).name)
    console.print(f"          {table} stops: {beat.failure if beat else None}", markup=False)
    for each in shop.loaded:
        if each.pipeline.name != one.pipeline.name and not live_run.is_live(each):
            message = f"{each.pipeline.name} has stopped with {one.pipeline.name}."
            raise RunError(message, "Look at the logs below the demo's folder `state`.")
    document = yaml.safe_load(shop.template.path.read_text())
    added = {"added_columns": {name: {"type": kind, "default": default}}}
    document["tables"]["overrides"] = {table: {"changes": added}}
    shop.template.path.write_text(yaml.safe_dump(document, sort_keys=False))
    shop.template = Template(shop.template.path)
    again = shop.template.load(table)
    live_run.go_live(PipelineContext.require(again), _changes(again))


def _changes(loaded: LoadedPipeline) -> KafkaSource:
    """Return the last source of a pipeline, its topic of changes."""
    source = loaded.pipeline.sources[-1]
    assert isinstance(source, KafkaSource)
    return source


def _committed(shop: _Shop) -> int:
    """Return how many offsets of all topics the streams have merged."""
    return sum(
        sum(next_offsets(PipelineContext.require(one), _changes(one)).values())
        for one in shop.loaded
    )


if __name__ == "__main__":
    sys.exit(main())
