"""``make demo-cdc``: three tables taken over from a PostgreSQL that is in use all the while.

Brings up PostgreSQL, a broker, and Kafka Connect with Debezium; lets customers change the tables
before, during and after snapshot, hand-over and catch-up; then compares each target with its
source, row for row. The exit status follows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import psycopg
import pyarrow.parquet as pq
import yaml
from deltalake import DeltaTable

from benchmarks.record import record
from examples.demo import ROOT, Stages, console
from examples.shop import TABLES, Customers, make_shop
from orchestration import chain, snapshots
from orchestration.audit.compare_source import SourceComparison, compare_with_source
from orchestration.cli.console import run
from services.broker import LocalBroker, create_topic
from services.connect import LocalConnect, debezium_config
from services.postgres import LocalPostgres
from sources.common.positions import now_ms
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import HybridError, RunError
from spark_jobs.jvm.jars import resolve
from spark_jobs.launch.local import kill_group
from spark_jobs.launch.record import last_launch
from spark_jobs.run_state.lock import is_held

_SLOT = "shop"
_PARTITIONS = 3
_POLL_S = 0.5
_DELIVERY_S = 900.0
_BETWEEN_KILLS_S = (10.0, 60.0)
# By table: its columns, and its key.
_TABLES: dict[str, tuple[dict[str, str], list[str]]] = {
    "orders": (
        {
            "id": "bigint",
            "customer": "string",
            "amount": "decimal(12,2)",
            "placed": "timestamp",
            "day": "date",
            "paid": "boolean",
            "receipt": "binary",
        },
        ["id"],
    ),
    "lines": (
        {"order_id": "bigint", "line": "int", "product": "string", "quantity": "int"},
        ["order_id", "line"],
    ),
    "stock": (
        {"sku": "string", "pieces": "int", "price": "double", "changed": "timestamp"},
        ["sku"],
    ),
}


@dataclass(frozen=True)
class _Shop:
    """What runs.

    Attributes:
        dsn: The database.
        servers: The broker.
        loaded: A pipeline for each table.
    """

    dsn: str
    servers: str
    loaded: list[LoadedPipeline]


def main() -> int:
    """Run the demo; the exit status follows the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".demo-cdc", help="made anew")
    parser.add_argument("--seed", type=int, default=1, help="of what the customers do")
    parser.add_argument("--changes", type=int, default=1_000_000, help="rows changed, at least")
    parser.add_argument("--rows", type=int, default=50_000, help="orders to begin with")
    parser.add_argument("--name", default="demo", help="of the record in build/bench")
    parser.add_argument("--pause", type=float, default=0.1, help="s after each transaction")
    parser.add_argument(
        "--tables", nargs="+", choices=sorted(_TABLES), default=[*_TABLES], help="to be followed"
    )
    parser.add_argument("--kills", type=int, default=0, help="drivers to be killed, at random")
    options = parser.parse_args()
    # SIGTERM must leave as little behind as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stages = Stages()
    try:
        with ExitStack() as cleanup:
            found = _run(options, stages, cleanup)
    except HybridError as error:
        console.print(f"[red]{error}[/]")
        return 2
    except KeyboardInterrupt:
        return 130
    for each in found:
        console.print(
            f"{'equal' if each.ok else 'NOT EQUAL'}: {each.table}: {each.rows:,} rows, "
            f"{each.found:,} in the target; {each.only_in_source:,} only in the source, "
            f"{each.only_in_target:,} only in the target"
        )
        for line in each.examples:
            console.print(f"  {line}", markup=False)
    console.print(stages.table())
    return 0 if all(each.ok for each in found) else 1


def _run(options: argparse.Namespace, stages: Stages, cleanup: ExitStack) -> list[SourceComparison]:
    shop = _open(options, stages, cleanup)
    is_live = threading.Event()
    customers = Customers(
        shop.dsn,
        options.seed,
        rows=60,
        enough=lambda changes: is_live.is_set() and changes >= options.changes,
        pause_s=options.pause,
    )
    customers.start()
    cleanup.callback(customers.stop)
    killer = _Killer(shop.loaded, options.kills, options.seed)
    killer.start()
    cleanup.callback(killer.stop)
    with stages("snapshots, while the tables change"):
        for one in shop.loaded:
            for taken in snapshots.take(one, lambda _: None):
                console.print(f"          {taken.text}")
    with stages("plan → snapshot → hand-over → live, while the tables change"):
        for one in shop.loaded:
            killer.outlived(one)
        killer.are_live.set()
        # One may have been killed when it was up, and before that was said.
        for one in shop.loaded:
            killer.outlived(one)
    live_ms, started, before = now_ms(), time.monotonic(), _committed(shop)
    with stages("customers go on until there are enough changes"):
        is_live.set()
        customers.wait()
        killer.stop()
    killed = f"; {killer.kills} drivers were killed" if options.kills else ""
    console.print(f"          {customers.changes:,} rows were changed{killed}")
    with stages("connector and streams caught up"), ThreadPoolExecutor(len(shop.loaded)) as pool:
        _wait_for_connector(shop)
        list(pool.map(lambda one: chain.wait_until_caught_up(one, _changes(one)), shop.loaded))
    rate = (_committed(shop) - before) / (time.monotonic() - started)
    console.print(f"          {rate:,.0f} records/s since all were live")
    fresh: dict[str, dict[str, float]] = {}
    for one in shop.loaded:
        chain.stop(one)
        if waits := sorted(_freshness(one, live_ms)):
            median, p99 = statistics.median(waits), waits[len(waits) * 99 // 100]
            fresh[one.pipeline.name] = {"median_s": round(median, 1), "p99_s": round(p99, 1)}
            console.print(
                f"          {one.pipeline.name}: from commit to visible: median {median:.1f} s, "
                f"p99 {p99:.1f} s"
            )
    with stages("comparison: COPY of each table, and the Delta table's files"):
        found = [compare_with_source(one) for one in shop.loaded]
    result = {
        "seed": options.seed,
        "changes": customers.changes,
        "kills": killer.kills,
        "records_per_s": round(rate),
        "rows": {each.table: each.rows for each in found},
        "different": {each.table: each.only_in_source + each.only_in_target for each in found},
        "freshness": fresh,
    }
    record(f"cdc-{options.name}", result)
    return found


class _Killer(threading.Thread):
    """Ends drivers with SIGKILL, JVM and all, and lets each go on.

    Args:
        loaded: Whose drivers.
        count: How many times.
        seed: Of whose, and when.

    Attributes:
        kills: How many were killed.
        are_live: Set once all streams are up: from then on it starts them again itself.
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
        """Kill as often as told."""
        while self._left and not self._stop_now.wait(self._chance.uniform(*_BETWEEN_KILLS_S)):
            one = self._chance.choice(self._loaded)
            generation = one.open_generation(create=False)
            launch = None if generation is None else last_launch(generation)
            if generation is None or launch is None or not launch.group or not is_held(generation):
                continue
            kill_group(launch.group)
            self.kills += 1
            self._left -= 1
            if self.are_live.is_set():
                while chain.is_live(one):
                    time.sleep(_POLL_S)
                chain.go_live(one, _changes(one))

    def outlived(self, one: LoadedPipeline) -> None:
        """Run a pipeline until it is live; again after each kill.

        Raises:
            RunError: It failed, and nobody had killed it.
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

    def stop(self) -> None:
        """Kill no more; returns once what was killed runs again."""
        self._stop_now.set()
        self.join()


def _open(options: argparse.Namespace, stages: Stages, cleanup: ExitStack) -> _Shop:
    """Start everything that the pipelines need, and declare them."""
    folder = options.folder.absolute()
    with stages("JVM parts (downloaded once, then from the cache)"):
        for name in ("spark", "broker", "connect"):
            resolve(name, on_progress=lambda text: console.print(f"          {text}"))
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
        _wait_for_connector(_Shop(postgres.dsn, servers, []))
    loaded = [_declare(folder, table, postgres.dsn, servers) for table in options.tables]
    for one in loaded:
        cleanup.callback(chain.stop, one)
    return _Shop(postgres.dsn, servers, loaded)


def _declare(folder: Path, table: str, dsn: str, servers: str) -> LoadedPipeline:
    columns, key = _TABLES[table]
    (folder / "transforms.py").write_text("def identity(rows):\n    return rows\n")
    document = {
        "name": table,
        "event_time": "_committed_at",
        "sources": [
            {
                "name": "snapshot",
                "type": "files",
                "path": f"snapshot/{table}/*.parquet",
                "format": "parquet",
                "snapshot": {"dsn": dsn, "slot": _SLOT, "chunk_rows": 10_000},
            },
            {
                "name": "changes",
                "type": "kafka",
                "topic": f"{_SLOT}.public.{table}",
                "bootstrap_servers": servers,
                "format": "debezium",
                "table": f"public.{table}",
                "schema": columns,
                "include": {
                    "_position": "position",
                    "_lsn": "lsn",
                    "_transaction": "transaction",
                    "_committed_at": "committed_at",
                    "_deleted": "deleted",
                },
                "max_offsets_per_batch": 100_000,
            },
        ],
        "transform": "transforms:identity",
        "sink": {
            "path": f"tables/{table}",
            "mode": "merge",
            "key": key,
            "sequence": "_position",
            "deleted": "_deleted",
        },
        "state": "state",
        "spark": {"driver_memory": "1g", "conf": {"spark.sql.shuffle.partitions": "2"}},
    }
    path = folder / f"{table}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return load_pipeline(path)


def _changes(loaded: LoadedPipeline) -> KafkaSource:
    source = loaded.pipeline.sources[-1]
    assert isinstance(source, KafkaSource)
    return source


def _committed(shop: _Shop) -> int:
    """Offsets of all topics that the streams have merged."""
    return sum(sum(chain.reached(one, _changes(one)).values()) for one in shop.loaded)


def _wait_for_connector(shop: _Shop) -> None:
    """Return when the connector has delivered all that is committed now.

    Raises:
        RunError: It does not.
    """
    deadline = time.monotonic() + _DELIVERY_S
    with psycopg.connect(shop.dsn, autocommit=True) as connection:
        row = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        assert row is not None
        while time.monotonic() < deadline:
            # What makes the slot move when nobody changes anything.
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
    raise RunError(message)


def _freshness(loaded: LoadedPipeline, since_ms: int) -> Iterator[float]:
    """Seconds from the commit in the database to the commit of the Delta table, row by row.

    A version's new rows are those whose log position is higher than all of the versions before.
    """
    path = loaded.locate(loaded.pipeline.sink.path)
    table = DeltaTable(path)
    highest = 0
    for entry in sorted(table.history(), key=lambda each: each["version"]):
        top = highest
        for file in _added(Path(path), entry["version"]):
            rows = pq.read_table(file, columns=["_lsn", "_committed_at"])
            lsns = rows["_lsn"].to_pylist()
            for lsn, at in zip(lsns, rows["_committed_at"].to_pylist(), strict=True):
                top = max(top, lsn)
                if lsn > highest and entry["timestamp"] >= since_ms:
                    yield entry["timestamp"] / 1000 - at.timestamp()
        highest = top


def _added(table: Path, version: int) -> Iterator[Path]:
    """The files that a version of a Delta table has added, as far as they are still there."""
    for line in (table / "_delta_log" / f"{version:020}.json").read_text().splitlines():
        if (add := json.loads(line).get("add")) is not None:
            file = table / unquote(add["path"])
            if file.exists():
                yield file


if __name__ == "__main__":
    sys.exit(main())
