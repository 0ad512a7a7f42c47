"""Benchmark: all tables of a PostgreSQL database in one file, by one shared driver or one each.

    python -m benchmarks.tables --tables 10
    python -m benchmarks.tables --tables 50 --memory 4g
    python -m benchmarks.tables --tables 2 --driver own

PostgreSQL, Kafka and Debezium are real, and `hybrid run` starts all tables. Each table gets a
changed row a second. Memory is what the drivers' processes use (PSS), CPU the seconds that they
took; both are right on a busy machine, too, times are not. Freshness is the time from the commit in
the database to that of the Delta table.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import yaml

from benchmarks.freshness import latencies
from benchmarks.processes import cpu_s, end_all, groups_of, memory_mb
from benchmarks.record import record
from hybrid_extensions.cdc.tables import table_pipelines
from hybrid_extensions.cdc.tables.template import Template
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from hybrid_extensions.servers.connect import LocalConnect, debezium_config
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from orchestration.catch_up import wait_until_caught_up
from orchestration.chain import ChainRun, Observer, run_chain
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.planning.context import PipelineContext

_NAME = "bench"
_ROWS = 1000
_CREATE = """
CREATE TABLE {table} (id bigint PRIMARY KEY, amount numeric(12,2), note text, at timestamptz);
INSERT INTO {table} SELECT n, n / 7.0, md5(n::text), now() FROM generate_series(1, {rows}) n;
ANALYZE {table};
"""
_CHANGE = (
    "INSERT INTO {table} VALUES (%(id)s, 1, 'changed', now()) "
    "ON CONFLICT (id) DO UPDATE SET amount = {table}.amount + 1, at = now()"
)


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--driver", choices=["shared", "own"], default="shared")
    parser.add_argument("--memory", default="2g", help="heap of a driver")
    parser.add_argument("--rounds", type=int, default=60, help="changes of each table")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds to measure without data")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hybrid-bench-")))
        dsn, template = open_tables(stack, folder, options)
        result = {"driver": options.driver, "tables": options.tables, "heap": options.memory}
        begun = time.monotonic()
        table_pipelines.copy(template, lambda _line: None)
        copied = time.monotonic()
        tables = [template.load(table) for table in template.tables()]
        stack.callback(end_all, tables)
        command_s = _run_all(template)
        result |= {
            "snapshot s": round(copied - begun, 1),
            "all live after s": round(time.monotonic() - begun, 1),
            "cpu s to start all": round(cpu_s(groups_of(tables)), 1),
            "cpu s of hybrid run": round(command_s, 1),
            **_feed(dsn, tables, options.rounds),
            **_rest(tables, options.idle),
        }
    sys.stdout.write(f"{json.dumps(result, indent=1)}\n")
    record(f"tables-{options.driver}-{options.tables}", result)


def open_tables(
    stack: ExitStack,
    folder: Path,
    options: argparse.Namespace,
    rows: int = _ROWS,
    **snapshot: Any,
) -> tuple[str, Template]:
    """Start database, broker and connector; return the database's address and the declaration.

    Args:
        stack: The servers are entered here, and end with it.
        folder: Folder of all of it.
        options: The number of ``tables``, their ``driver`` and its ``memory``; ``properties`` of
            the targets, if there are any.
        rows: Rows of each table.
        snapshot: What is declared of the tables' snapshots.
    """
    postgres = stack.enter_context(LocalPostgres())
    os.environ["PGPASSWORD"] = postgres.password
    names = [f"public.t{number:03}" for number in range(options.tables)]
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(_CREATE.format(table=name, rows=rows))
    servers = stack.enter_context(LocalBroker(folder / "broker")).bootstrap_servers
    for name in names:
        create_topic(servers, f"{_NAME}.{name}", 1, {"retention.ms": "-1"})
    settings = {"value.converter.schemas.enable": "true"}
    connect = stack.enter_context(LocalConnect(servers, folder / "connect", settings))
    config = debezium_config(postgres, _NAME, names, snapshot_mode="no_data")
    connect.connectors.create(_NAME, config)
    share = {"driver": "shared", "group": f"benchmark-{os.getpid()}"}
    document = {
        "name": _NAME,
        "database": {"dsn": postgres.dsn, "slot": _NAME, **snapshot},
        "tables": {"include": ["public.*"]},
        "topic": f"{_NAME}.{{schema}}.{{table}}",
        "changes": {"bootstrap_servers": servers},
        "sink": {"path": "lake/{table}", "properties": vars(options).get("properties", {})},
        "state": "state",
        "spark": {
            "driver_memory": options.memory,
            "conf": {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"},
            **(share if options.driver == "shared" else {"driver": "own"}),
        },
    }
    path = folder / "shop.yaml"
    path.write_text(yaml.safe_dump(document))
    return postgres.dsn, Template(path)


def go_live(loaded: LoadedPipeline) -> None:
    """Bring a pipeline to its live run."""
    run_chain(ChainRun(loaded, Observer(), rest_requested=True))


def _run_all(template: Template) -> float:
    """Bring all tables to their live run by the command; return the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(Path(sys.executable).with_name("hybrid")), "run", str(template.path)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _feed(dsn: str, tables: Sequence[LoadedPipeline], rounds: int) -> dict[str, Any]:
    """Change a row of each table each second; return how soon that was in the Delta tables."""
    groups = groups_of(tables)
    since, cpu, begun = now_ms(), cpu_s(groups), time.monotonic()
    with psycopg.connect(dsn, autocommit=True) as connection:
        for number in range(rounds):
            for at in range(len(tables)):
                change = _CHANGE.format(table=f"public.t{at:03}")
                connection.execute(change, {"id": number * 37 % (2 * _ROWS)})
            time.sleep(max(0.0, begun + number + 1 - time.monotonic()))
    took = time.monotonic() - begun
    work = cpu_s(groups) - cpu
    with ThreadPoolExecutor(len(tables)) as pool:
        # Each waits some seconds until nothing more comes.
        list(pool.map(lambda one: wait_until_caught_up(PipelineContext.require(one)), tables))
    waited = sorted(second for loaded in tables for second in latencies(loaded, since))
    return {
        "changes": len(waited),
        "seconds of changes": round(took, 1),
        "freshness s, median": round(statistics.median(waited), 2),
        "freshness s, p90": round(waited[int(len(waited) * 0.9)], 2),
        "cpu, % of a core": round(work / took * 100, 1),
        "memory MB": memory_mb(groups),
    }


def _rest(tables: Sequence[LoadedPipeline], seconds: float) -> dict[str, Any]:
    """Measure the drivers while nothing arrives."""
    groups = groups_of(tables)
    cpu, begun = cpu_s(groups), time.monotonic()
    time.sleep(seconds)
    return {
        "idle cpu, % of a core": round((cpu_s(groups) - cpu) / (time.monotonic() - begun) * 100, 1),
    }


if __name__ == "__main__":
    main()
