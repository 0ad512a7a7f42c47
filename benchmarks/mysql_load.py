"""Load on a MySQL that is captured, while driver, connector and server are killed in turns.

    python -m benchmarks.mysql_load --seeds 1 2 3 --changes 100000

Sessions change four tables with foreign keys, in transactions of several statements, some of them
compressed; of every second seed the server has no GTIDs. A driver is killed, then Kafka Connect,
then the server, each with SIGKILL, and started again. In the end all tables are compared with the
database, row for row, by `hybrid compare` and by code that shares nothing with it, and audited. The
exit status is 1 if one differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
import pymysql.cursors
import yaml

from benchmarks.counted_rows import count_differences
from benchmarks.processes import end_all, group_of
from benchmarks.record import record
from hybrid_extensions.cdc.databases.kafka_connect import find_connector_state, restart_failed
from hybrid_extensions.cdc.tables.template import Template
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from hybrid_extensions.servers.connect import LocalConnect, binlog_config
from hybrid_extensions.servers.databases.mariadb import add_client_to_path
from hybrid_extensions.servers.databases.mysql import LocalMySql
from sources.errors import RunError
from spark_jobs.launch.places.local import kill_group

NAME = "shop"
TABLES = ("customers", "orders", "order_lines", "payments")
_CREATE = (
    "CREATE TABLE customers (id int PRIMARY KEY, balance decimal(14,2) NOT NULL, visits int, "
    "note json)",
    "CREATE TABLE orders (id int AUTO_INCREMENT PRIMARY KEY, customer_id int NOT NULL, "
    "total decimal(12,2), placed datetime(6), FOREIGN KEY (customer_id) REFERENCES customers (id))",
    "CREATE TABLE order_lines (order_id int, line int, sku varchar(40) COLLATE utf8mb4_bin, "
    "pieces int unsigned, PRIMARY KEY (order_id, line), "
    "FOREIGN KEY (order_id) REFERENCES orders (id))",
    "CREATE TABLE payments (id bigint AUTO_INCREMENT PRIMARY KEY, order_id int, amount double, "
    "receipt varbinary(32), FOREIGN KEY (order_id) REFERENCES orders (id))",
    "CREATE TABLE numbers (n int PRIMARY KEY)",
    "INSERT INTO numbers VALUES " + ", ".join(f"({n})" for n in range(1, 1001)),
    "INSERT INTO customers SELECT n, 1000, 0, JSON_OBJECT('n', n) FROM numbers",
    "INSERT INTO orders SELECT n, n, n / 7, now(6) FROM numbers",
    "INSERT INTO order_lines SELECT o.id, n, concat('s', n), n FROM orders o, numbers WHERE n < 4",
    "INSERT INTO payments (order_id, amount) SELECT id, total / 3 FROM orders",
)
# {a}, {b} are random numbers, {o} an order, {c} a customer.
_TRANSACTIONS = (
    (
        "INSERT INTO orders (customer_id, total, placed) VALUES ({c}, 0, now(6))",
        "INSERT INTO order_lines SELECT LAST_INSERT_ID(), n, 'é', n FROM numbers WHERE n <= {a}",
        "UPDATE orders SET total = {a} WHERE id = LAST_INSERT_ID()",
        "UPDATE customers SET balance = balance - {a}, visits = visits + 1 WHERE id = {c}",
        "UPDATE customers SET note = JSON_OBJECT('a', {a} / 8, 'b', '{b}') WHERE id = {c}",
        "UPDATE orders SET total = total + 1 WHERE id = LAST_INSERT_ID()",
    ),
    (
        "UPDATE order_lines SET pieces = pieces + 1 WHERE order_id BETWEEN {o} AND {o} + {a}",
        "UPDATE order_lines SET pieces = {b} WHERE order_id BETWEEN {o} AND {o} + {a} AND line > 1",
        "UPDATE orders SET total = total + {a} WHERE id BETWEEN {o} AND {o} + {a}",
    ),
    (
        "DELETE FROM order_lines WHERE order_id BETWEEN {o} AND {o} + 3",
        "INSERT INTO order_lines SELECT id, n, 'again', {b} FROM orders, numbers "
        "WHERE id BETWEEN {o} AND {o} + 3 AND n <= 3",
        "DELETE FROM order_lines WHERE order_id = {o} AND line = 2",
    ),
    (
        "DELETE FROM payments WHERE order_id BETWEEN {o} AND {o} + 2",
        "DELETE FROM order_lines WHERE order_id BETWEEN {o} AND {o} + 2",
        "DELETE FROM orders WHERE id BETWEEN {o} AND {o} + 2",
        "UPDATE customers SET balance = balance + 1 WHERE id BETWEEN {c} AND {c} + 20",
    ),
    (
        "INSERT INTO payments (order_id, amount, receipt) SELECT id, {b} / 3, x'00ff' FROM orders "
        "WHERE id BETWEEN {o} AND {o} + {a}",
        "UPDATE payments SET id = id + 10000000 WHERE order_id = {o} AND id < 10000000",
        "UPDATE payments SET amount = amount / 2 WHERE order_id BETWEEN {o} AND {o} + {a}",
    ),
)
_CONFLICTS = (1205, 1213)
_POLL_S = 0.5
_PATIENCE_S = 300.0


class _Sessions:
    """Threads that change the tables until they are stopped; they go on after a crash.

    They pause while they have changed as many rows as ``until`` says.
    """

    def __init__(self, server: LocalMySql, seed: int, threads: int, until: int) -> None:
        self._server = server
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(f"{seed}-{n}"),), daemon=True)
            for n in range(threads)
        ]
        self.until = until
        self.transactions = self.changes = 0

    def start(self) -> None:
        """Start the threads."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """End the threads after their transactions."""
        self._stop.set()
        for each in self._threads:
            each.join()

    def _run(self, chance: random.Random) -> None:
        while not self._stop.is_set():
            try:
                with self._server.connect(NAME) as connection, connection.cursor() as cursor:
                    while not self._stop.wait(0.02):
                        if self.changes < self.until:
                            self._transaction(cursor, chance)
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError):
                # The server was killed.
                self._stop.wait(_POLL_S)

    def _transaction(self, cursor: Any, chance: random.Random) -> None:
        is_on = "ON" if chance.random() < 0.4 else "OFF"
        cursor.execute(f"SET SESSION binlog_transaction_compression = {is_on}")
        cursor.execute("SELECT max(id) FROM orders")
        (last,) = cursor.fetchone()
        given = {
            "a": chance.randint(1, 30),
            "b": chance.randint(1, 10**6),
            "o": chance.randint(1, last),
            "c": chance.randint(1, 1000),
        }
        rows = 0
        cursor.execute("BEGIN")
        try:
            for statement in chance.choice(_TRANSACTIONS):
                rows += cursor.execute(statement.format(**given))
        except pymysql.err.IntegrityError:
            cursor.execute("ROLLBACK")
            return
        except pymysql.err.OperationalError as error:
            if error.args[0] not in _CONFLICTS:
                raise
            cursor.execute("ROLLBACK")
            return
        is_kept = chance.random() < 0.9
        cursor.execute("COMMIT" if is_kept else "ROLLBACK")
        if is_kept:
            with self._lock:
                self.transactions += 1
                self.changes += rows


class _Captured(NamedTuple):
    """The server with its connector, and the file that declares the pipelines.

    Attributes:
        server: MySQL.
        connect: Kafka Connect.
        config: The connector's configuration.
        file: The file with ``tables``.
    """

    server: LocalMySql
    connect: LocalConnect
    config: dict[str, str]
    file: Path

    def end_runs(self) -> None:
        """Stop the runs of all tables, and end their driver."""
        template = Template(self.file)
        end_all([template.load(table) for table in template.tables()])

    def count_rows(self) -> tuple[int, int]:
        """Return how many rows all tables have in the database, and how many differ."""
        rows = different = 0
        with (
            self.server.connect(NAME) as connection,
            connection.cursor(pymysql.cursors.SSDictCursor) as cursor,
        ):
            for table in TABLES:
                cursor.execute(f"SELECT * FROM {table}")
                columns = [each[0] for each in cursor.description]
                path = self.file.parent / "tables" / table
                found = count_differences(cursor, columns, path)
                rows, different = rows + found.rows, different + found.different
                _say(f"{table}: {found.rows:,} rows, {found.different:,} differ")
                for line in found.examples:
                    _say(f"  {line}")
        return rows, different

    def kill_driver(self) -> None:
        """Kill the driver of all tables, and resume their runs."""
        template = Template(self.file)
        group = group_of(template.load(template.tables()[0]))
        if group is None:
            message = "There is no driver to kill."
            raise RunError(message, "Look at the logs below the folder `state`.")
        kill_group(group)
        _hybrid("resume", self.file)

    def kill_connector(self) -> None:
        """Kill Kafka Connect, and start it and the connector again."""
        self.connect.kill()
        self.connect.connectors.create(NAME, self.config)

    def kill_server(self) -> None:
        """Kill MySQL, start it again, and the connector, if that has failed."""
        self.server.kill()
        self.server.start()
        url = self.connect.connectors.url(NAME)
        _wait_for(lambda: _runs(url), "the connector to run after the server")


def _runs(url: str) -> bool:
    state = find_connector_state(url)
    if isinstance(state, str):
        return False
    if state.failure:
        restart_failed(url)
    return state.is_running


def main() -> int:
    """Run the load with the options of the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--changes", type=int, default=100_000, help="rows to change, of each seed")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2, help="kills of each of the three")
    options = parser.parse_args()
    results = [_run(seed, options) for seed in options.seeds]
    record("mysql-load", results)
    sys.stdout.write(f"{json.dumps(results, indent=1)}\n")
    is_right = all(
        each["different"] == 0 and each["is_equal"] and each["is_audited"] for each in results
    )
    return 0 if is_right else 1


def _run(seed: int, options: argparse.Namespace) -> dict[str, Any]:
    has_gtids = seed % 2 == 1
    started = time.monotonic()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="hybrid-load-")))
        captured = _open(folder, opened, has_gtids=has_gtids)
        kills = [captured.kill_driver, captured.kill_connector, captured.kill_server]
        steps = kills * options.rounds
        share = options.changes // (len(steps) + 1)
        sessions = _Sessions(captured.server, seed, options.threads, share)
        sessions.start()
        opened.callback(sessions.stop)
        opened.callback(captured.end_runs)
        # While the snapshot is taken, and until all are live.
        _hybrid("run", captured.file, "--until", "live")
        for kill in steps:
            sessions.until += share
            middle = sessions.until - share // 2
            _wait_for(lambda: sessions.changes >= middle, f"{middle:,} changed rows")  # noqa: B023
            kill()
        _wait_for(lambda: sessions.changes >= sessions.until, "the last changes")
        sessions.stop()
        _hybrid("run", captured.file, "--until", "caught-up")
        is_equal = _hybrid("compare", captured.file, is_required=False)
        is_audited = _hybrid("audit", captured.file, is_required=False)
        rows, different = captured.count_rows()
    return {
        "seed": seed,
        "gtids": has_gtids,
        "transactions": sessions.transactions,
        "changes": sessions.changes,
        "kills": len(steps),
        "rows": rows,
        "different": different,
        "is_equal": is_equal,
        "is_audited": is_audited,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }


def _open(folder: Path, opened: ExitStack, *, has_gtids: bool) -> _Captured:
    """Start the servers, fill the tables, start the connector, and declare the pipelines."""
    mode = "ON" if has_gtids else "OFF"
    # What is committed is with the operating system, and survives a kill of the process.
    settings = {"innodb-flush-log-at-trx-commit": "2", "gtid-mode": mode}
    settings["enforce-gtid-consistency"] = mode
    servers = opened.enter_context(LocalBroker(folder / "broker")).bootstrap_servers
    server = opened.enter_context(LocalMySql(folder / "mysql", settings))
    os.environ["MYSQL_PWD"] = server.password
    add_client_to_path()
    server.execute(f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4")
    with server.connect(NAME) as connection, connection.cursor() as cursor:
        for statement in _CREATE:
            cursor.execute(statement)
    schemas = {"value.converter.schemas.enable": "true"}
    connect = LocalConnect(servers, folder / "connect", schemas, "connect-mysql")
    opened.enter_context(connect)
    for table in TABLES:
        create_topic(servers, f"{NAME}.{NAME}.{table}", 3, {"retention.ms": "-1"})
    heartbeats = {"heartbeat_interval_ms": "500", "connect_keep_alive_interval_ms": "2000"}
    names = [f"{NAME}.{table}" for table in TABLES]
    config = binlog_config(server, NAME, names, servers, snapshot_mode="no_data", **heartbeats)
    connect.connectors.create(NAME, config)
    url = connect.connectors.url(NAME)
    document = {
        # Drivers are shared by the machine's user, not by the folder.
        "name": f"{NAME}_{os.getpid()}",
        "database": {"dsn": server.dsn(NAME), "connector": url},
        "tables": {"include": names},
        "topic": f"{NAME}.{{schema}}.{{table}}",
        "changes": {"bootstrap_servers": servers, "max_offsets_per_batch": 50_000},
        "sink": {"path": "tables/{table}"},
        "state": "state",
        "spark": {"driver_memory": "1g", "conf": {"spark.sql.shuffle.partitions": "2"}},
    }
    file = folder / "load.yaml"
    file.write_text(yaml.safe_dump(document))
    return _Captured(server, connect, config, file)


def _hybrid(command: str, file: Path, *more: str, is_required: bool = True) -> bool:
    """Run a command on all tables; return whether its exit status is 0.

    Raises:
        RunError: It is not, and is required to be.
    """
    program = Path(sys.executable).parent / "hybrid"
    done = subprocess.run([str(program), command, str(file), *more], check=False, cwd=file.parent)
    if done.returncode and is_required:
        message = f"`hybrid {command}` ended with {done.returncode}."
        raise RunError(message, "Read what it printed.")
    return done.returncode == 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _wait_for(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_true():
        if time.monotonic() > deadline:
            message = f"Waited {_PATIENCE_S:.0f} s for {what}."
            raise RunError(message, "Look at the logs of the servers.")
        time.sleep(_POLL_S)


if __name__ == "__main__":
    sys.exit(main())
