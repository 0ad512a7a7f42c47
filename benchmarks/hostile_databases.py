"""Hostile run: a table of a database in use is captured while all that serves it is killed.

    python -m benchmarks.hostile_databases --kind postgres --rows-changed 300000 --seed 1

Sessions insert, update and delete rows of a table, move keys, roll back, and keep transactions open
for long. Meanwhile its snapshot is read chunk by chunk, and changes are followed from the first
chunk on (``follow: while_reading``). By the seed, the driver, the connector (or the change log,
with ``--no-kafka``) and the database are killed with SIGKILL at random instants: half of the kills
at most before the table is whole, spread over its chunks. The supervision starts the live run
again, as for users. Once the table is whole, rows of the target are damaged and repaired, and the
table gets a column, which the policy follows; the other kills come meanwhile. In the end DuckDB
compares the target with the dump that the database's own tool writes, and the audit with all raw
input. The exit status is 1 if a row differs. Then the audit's report is shown, and the folder with
state, table, topics and logs is kept.

The seed decides about changes and kills; how the processes interleave is not fixed by it.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import yaml
from deltalake import DeltaTable

from benchmarks.record import record
from examples.captured import KINDS, CapturedDatabase
from examples.change_feed import ConnectFeed
from examples.killer import Background, Killed, Killer
from examples.shop import Customers, Sessions, make_shop, session
from hybrid_extensions.audit.run import audit
from hybrid_extensions.cdc.tables import table_pipelines
from hybrid_extensions.cdc.tables.template import Template
from hybrid_extensions.compare.compare_source import compare_with_source
from hybrid_extensions.repair.run import repair
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from orchestration.catch_up import wait_until_caught_up
from orchestration.chain import ChainRun, Observer, Step, run_chain
from orchestration.operations import stopping
from orchestration.supervision import supervisor
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.planning.context import PipelineContext
from spark_jobs.run_state.table_locks import table_turn
from tests.hybrid_extensions.repair.damage import as_own

_TABLE = "orders"
# A table of its own, whose changes move the connector's place when there are no others.
_CAPTURED = (_TABLE, "stock")
T = TypeVar("T")
_PARTITIONS = 3
_CHUNKS = 12
_POLL_S = 3.0
_FAILURES = 60
_PATIENCE_S = 900.0
_LIMIT = timedelta(minutes=10)
_COLUMN = "note"


class _LongTransactions(Sessions):
    """Threads whose transactions stay open for up to half a minute; a third is rolled back.

    They change rows that :class:`~examples.shop.Customers` leave alone: the last third of those
    that were there at the start, whose chunks are read last, and negative keys.

    Args:
        dsn: The database, as for :func:`examples.shop.connect`.
        seed: Seed of the random changes.
        rows: Number of rows that the table had at the start.
        rests: As for :class:`~examples.shop.Sessions`.
    """

    def __init__(self, dsn: str, seed: int, rows: int, rests: Callable[[], bool]) -> None:
        super().__init__(dsn, [f"{seed}-long-{number}" for number in range(2)], 1.0, rests)
        self._rows = rows
        self._lock = threading.Lock()
        self.changes = 0

    def _transaction(self, cursor: Any, chance: random.Random) -> None:
        changed = 0
        cursor.execute("BEGIN")
        for _ in range(3):
            first = chance.randint(self._rows * 2 // 3, self._rows - 100)
            those = f"BETWEEN {first} AND {first + chance.randint(0, 60)}"
            key, kept = -chance.randint(1, 10**6), chance.randint(0, 9999)
            statement = chance.choice(
                (
                    f"UPDATE {_TABLE} SET amount = amount + 1, customer = 'long' WHERE id {those}",
                    f"DELETE FROM {_TABLE} WHERE id {those}",
                    f"UPDATE {_TABLE} SET id = -id - {kept * 1000000} WHERE id {those}",
                    f"INSERT INTO {_TABLE} (id, customer, amount) VALUES ({key}, 'long', {kept})",
                )
            )
            cursor.execute(statement)
            changed += max(cursor.rowcount, 0)
            self._stop.wait(chance.uniform(0, 10))
        if chance.random() < 0.3:
            cursor.execute("ROLLBACK")
            return
        cursor.execute("COMMIT")
        with self._lock:
            self.changes += changed


class _SlowReader(Observer):
    """Lets time pass after each chunk of the snapshot, so that much happens while it is read.

    Attributes:
        share: Which part of the snapshot is read.
    """

    def __init__(self, seed: int, longest_s: float) -> None:
        self._chance = random.Random(f"chunks-{seed}")
        self._longest_s = longest_s
        self.share = 0.0

    def noted(self, step: Step[Any], text: str) -> None:
        """Wait after a chunk."""
        _say(f"{step.name}: {text}")
        if (chunk := re.search(r": chunk (\d+) of (\d+)", text)) is not None:
            self.share = int(chunk[1]) / int(chunk[2])
            time.sleep(self._chance.uniform(0, self._longest_s))


class _SpreadKiller(Killer):
    """Kills half before the table is whole, as its chunks are read, and all others after it.

    Args:
        reader: Reads the chunks.
        of_killer: As for :class:`~examples.killer.Killer`.

    Attributes:
        before: Kills before the table was whole; None until it is.
    """

    def __init__(self, reader: _SlowReader, *of_killer: Any) -> None:
        super().__init__(*of_killer)
        self._reader = reader
        self.before: Killed | None = None

    def table_is_whole(self) -> None:
        """Let the other kills come."""
        self.before = replace(self.done)

    def _share(self) -> float:
        # One from the start on.
        return (self._reader.share + 0.1) / 2.2 if self.before is None else 1.0


class _Supervision(Background):
    """Thread that does what Dagster's supervision sensor does.

    Args:
        loaded: The pipeline.

    Attributes:
        restarts: How often it has started the live run again.
    """

    def __init__(self, loaded: LoadedPipeline) -> None:
        super().__init__()
        self._loaded = loaded
        self.restarts = 0

    def _works(self) -> bool:
        self._stop_now.wait(_POLL_S)
        try:
            seen = supervisor.tick(self._loaded)
            if seen is not None and seen.restart is not None:
                self.restarts += 1
                supervisor.restart(self._loaded, self._loaded.pipeline.topics[-1])
        except HybridError as error:
            # Database, connector or driver may be down; the next look finds out.
            _say(f"supervision: {error.message}")
        return True


def main() -> int:
    """Run it with the options of the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, default="postgres")
    parser.add_argument("--rows-changed", type=int, default=300_000, help="at least so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=60_000, help="rows of the table at the start")
    parser.add_argument("--drivers", type=int, default=6, help="drivers to kill")
    parser.add_argument(
        "--crashes", type=int, default=6, help="crashes of connector and database, in turns"
    )
    parser.add_argument(
        "--between",
        type=float,
        nargs=2,
        default=[3.0, 40.0],
        help="shortest and longest time between two kills, in seconds",
    )
    parser.add_argument(
        "--pause", type=float, default=0.5, help="pause after a transaction, in seconds"
    )
    parser.add_argument(
        "--chunk-pause", type=float, default=15.0, help="longest pause after a chunk, in seconds"
    )
    parser.add_argument(
        "--no-kafka", action="store_true", help="with `hybrid change-log`, without Kafka"
    )
    options = parser.parse_args()
    # SIGTERM has to end the servers, like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="hybrid-hostile-"))
    with ExitStack() as cleanup:
        result = _run(folder, options, cleanup)
    record(f"hostile-{options.kind}{'-engine' * options.no_kafka}-{options.seed}", result)
    for what, value in result.items():
        _say(f"{what}: {value}")
    if result["different"] or not result["audited"] or not result["column"]:
        _say(f"Kept to look at: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _run(folder: Path, options: argparse.Namespace, cleanup: ExitStack) -> dict[str, Any]:
    database, loaded = _open(folder, options, cleanup)
    killer: _SpreadKiller
    customers = Customers(
        database.dsn,
        options.seed,
        rows=100,
        # As long as the sessions run, so do the kills.
        enough=lambda changes: not killer.is_alive() and changes >= options.rows_changed,
        pause_s=options.pause,
        tables=[_TABLE],
        # They last as long as the kills, and drivers that are killed find more to read each time.
        asked=options.rows_changed,
    )
    rests = customers.has_changed_enough
    long = _LongTransactions(database.dsn, options.seed, options.rows, rests)
    asked = Killed(options.drivers, options.crashes)
    reader = _SlowReader(options.seed, options.chunk_pause)
    between = tuple(options.between)
    killer = _SpreadKiller(reader, database, [loaded], options.seed, asked, between)
    supervision = _Supervision(loaded)
    started = time.monotonic()
    for each in (killer, supervision, customers, long):
        each.start()
        cleanup.callback(each.stop)
    _until_done(lambda: run_chain(ChainRun(loaded, reader, rest_requested=True)))
    whole_s = time.monotonic() - started
    killer.table_is_whole()
    _say(f"The table is whole after {whole_s:.0f} s; so far: {killer.before}.")
    _damage(loaded)
    repaired = _until_done(lambda: repair(loaded, _LIMIT, say=_say))
    _execute(database.dsn, f"ALTER TABLE {_TABLE} ADD {_COLUMN} varchar(40) DEFAULT 'none'")
    _execute(database.dsn, f"UPDATE {_TABLE} SET {_COLUMN} = 'new' WHERE id BETWEEN 1 AND 5000")
    killer.finish()
    _say(f"All is killed that was to be: {killer.done}.")
    customers.wait()
    long.stop()
    database.wait_until_read()
    _until_done(lambda: wait_until_caught_up(PipelineContext.require(loaded)))
    supervision.stop()
    found, audited = compare_with_source(loaded), audit(loaded)
    for line in found.examples:
        _say(line)
    if not audited.ok:
        _say(f"audit: {audited.to_dict()}")
    return {
        "database": options.kind,
        "kafka": not options.no_kafka,
        "seed": options.seed,
        "changes": customers.changes + long.changes,
        "killed": {
            "driver": killer.done.drivers,
            "connector": killer.done.connectors,
            "database": killer.done.servers,
        },
        "killed before the table was whole": killer.before.all if killer.before else 0,
        "restarts": supervision.restarts,
        "repaired": repaired.found.to_repair,
        "whole after s": round(whole_s),
        "seconds": round(time.monotonic() - started),
        "rows": found.rows,
        "different": found.only_in_source + found.only_in_target,
        "audited": audited.ok,
        "column": _COLUMN in found.columns,
    }


def _open(
    folder: Path, options: argparse.Namespace, cleanup: ExitStack
) -> tuple[CapturedDatabase, LoadedPipeline]:
    """Start the servers, fill the table, start the connector, and declare the pipeline."""
    servers: str | None = None
    if not options.no_kafka:
        servers = cleanup.enter_context(LocalBroker(folder / "broker")).bootstrap_servers
    database = cleanup.enter_context(KINDS[options.kind](folder, servers))
    make_shop(database.dsn, options.rows)
    if servers is not None:
        for table in _CAPTURED:
            topic = f"shop.{database.schema}.{table}"
            create_topic(servers, topic, _PARTITIONS, {"retention.ms": "-1"})
    database.capture(_CAPTURED)
    watched: dict[str, Any] = {}
    if isinstance(database.feed, ConnectFeed):
        watched = {"connector": database.feed.url, "restart_connector": True}
    snapshot = {"follow": "while_reading", "workers": 1, "chunk_rows": options.rows // _CHUNKS}
    restarts = {"limit": 1000, "loop": 1000, "backoff": "1 s", "growth": 1}
    document = {
        "name": f"hostile_{os.getpid()}",
        "database": {**database.declared, **watched, **snapshot},
        "tables": {"include": [f"{database.schema}.{_TABLE}"]},
        "topic": "shop.{schema}.{table}",
        "changes": {
            "bootstrap_servers": database.feed.servers,
            # A kill costs no more than so much, which is read again.
            "max_offsets_per_batch": 100_000,
            "on_schema_change": {"added": "follow"},
        },
        "sink": {"path": "tables/{table}"},
        "state": "state",
        "supervision": {"restarts": restarts},
        "spark": {
            "driver": "own",
            "driver_memory": "1g",
            "conf": {"spark.sql.shuffle.partitions": "2"},
        },
    }
    path = folder / "hostile.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    template = Template(path)
    table_pipelines.find(template)
    [table] = template.tables()
    loaded = template.load(table)
    cleanup.callback(stopping.stop, loaded)
    return database, loaded


def _until_done(action: Callable[[], T], patience_s: float = _PATIENCE_S) -> T:
    """Do something that kills may interrupt, until it succeeds.

    Args:
        action: What to do.
        patience_s: For so long at least it is tried: while a driver starts again, which takes
            minutes on a busy machine, each attempt fails at once.

    Raises:
        HybridError: It failed so often, and for so long, that kills can't be the reason.
    """
    failures, started = 0, time.monotonic()
    while True:
        try:
            return action()
        except HybridError as error:
            failures += 1
            if failures > _FAILURES and time.monotonic() - started > patience_s:
                raise
            _say(f"again, as: {error.message}")
            time.sleep(_POLL_S)


def _execute(dsn: str, statement: str) -> None:
    """Execute a statement, again after a crash of the database or a deadlock."""
    done = threading.Event()

    def once(cursor: Any) -> None:
        cursor.execute(statement)
        done.set()

    session(dsn, done, 0.0, once)


def _damage(loaded: LoadedPipeline) -> None:
    """Remove and change rows of the target, as an error of the project's own would."""
    ours = as_own(loaded)
    with table_turn(loaded.require_generation()):
        table = DeltaTable(loaded.target.url)
        table.delete("id % 97 = 5", commit_properties=ours)
        table.update({"customer": "'damaged'"}, predicate="id % 97 = 6", commit_properties=ours)


def _say(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
