"""Example database: a shop in PostgreSQL, MariaDB or MySQL; and threads that change it constantly.

Its tables have all types that are captured, keys of several kinds, and long values.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import psycopg
import pymysql

from hybrid_extensions.mariadb.server import connect as connect_binlog
from hybrid_extensions.mariadb.server import parse_address
from hybrid_extensions.postgres.kind import POSTGRES
from sources.config.database_kind import kind_of
from sources.errors import UnavailableError

NAMES = ("orders", "lines", "stock", "kinds")
TABLES = tuple(f"public.{name}" for name in NAMES)
_PATIENCE_S = 120.0
_AGAIN_S = 0.5
_REST_S = 5.0


class _Dialect(NamedTuple):
    """The shop in one kind of database.

    Attributes:
        create: Statements that create its tables.
        fill: Statements that fill them; ``{n}`` is the number of orders.
        transactions: By the table that they change: parts of transactions, of statements with
            ``;`` in between; ``{n}`` is a number of rows, ``{a}`` and ``{b}`` are random numbers.
        conflicts: Errors after which a transaction is given up.
        lost: Errors of a connection to a server that has gone.
    """

    create: Sequence[str]
    fill: Sequence[str]
    transactions: Mapping[str, Sequence[str]]
    conflicts: tuple[type[Exception], ...]
    lost: tuple[type[Exception], ...]


_POSTGRES = _Dialect(
    create=(
        "CREATE TABLE orders (id bigint PRIMARY KEY, customer text, amount numeric(12,2) NOT NULL, "
        "placed timestamptz, day date, paid boolean, receipt bytea)",
        "CREATE TABLE lines (order_id bigint, line int, product text, quantity int, "
        "PRIMARY KEY (order_id, line))",
        "CREATE TABLE stock (sku text PRIMARY KEY, pieces int, price double precision, "
        "changed timestamp)",
        "CREATE TABLE kinds (id bigint PRIMARY KEY, small smallint, ratio real, "
        "wide double precision, money numeric(38,10), code char(5), words varchar(99), raw bytea, "
        "yes boolean, day date, local timestamp, at timestamptz, tag uuid, doc jsonb, "
        "numbers int[], body text)",
        # Stored apart and uncompressed, so that an update may leave it out of the log.
        "ALTER TABLE kinds ALTER body SET STORAGE EXTERNAL",
        "CREATE SEQUENCE ids",
        "CREATE FUNCTION currval_or() RETURNS bigint LANGUAGE sql AS 'SELECT last_value FROM ids'",
    ),
    fill=(
        "INSERT INTO orders SELECT id, 'c' || id % 97, id / 100.0, now(), current_date, "
        "id % 2 = 0, decode(md5(id::text), 'hex') "
        "FROM (SELECT nextval('ids') AS id FROM generate_series(1, {n})) g",
        "INSERT INTO lines SELECT id, line, 'p' || (id + line) % 31, line "
        "FROM orders, generate_series(1, 2) line",
        "INSERT INTO stock SELECT 's' || n, n, n / 7.0, localtimestamp "
        "FROM generate_series(1, {n}) n",
        "INSERT INTO kinds SELECT n, n % 30000, n / 7.0, n / 3.0, n / 9.0, 'c' || n % 9, "
        "repeat('é', n % 9), decode(md5(n::text), 'hex'), n % 3 = 0, DATE '0001-01-01' + n, "
        "localtimestamp, now(), md5(n::text)::uuid, jsonb_build_object('n', n), ARRAY[n, NULL], "
        "repeat(md5(n::text), 80) FROM generate_series(1, 600) n",
        "ANALYZE",
    ),
    transactions={
        "orders": (
            "INSERT INTO orders (id, customer, amount, placed) "
            "SELECT nextval('ids'), 'new', random() * 1000, now() FROM generate_series(1, {n})",
            "UPDATE orders SET amount = amount + 1, customer = 'é,\"' || chr(10) WHERE id IN "
            "(SELECT id FROM orders ORDER BY id OFFSET {b} LIMIT {n})",
            "DELETE FROM orders WHERE id BETWEEN {b} AND {b} + {n} / 4",
            # Updates of the key.
            "UPDATE orders SET id = nextval('ids') WHERE id BETWEEN {b} AND {b} + {n} / 8",
            # Several changes of the same rows.
            "UPDATE orders SET paid = true WHERE id BETWEEN {b} AND {b} + {n};"
            "DELETE FROM orders WHERE id BETWEEN {b} AND {b} + {n} / 4;"
            "INSERT INTO orders (id, customer, amount, placed, paid) "
            "SELECT g, 'again', 1, now(), false FROM generate_series({b}, {b} + {n} / 8) g "
            "ON CONFLICT (id) DO NOTHING",
        ),
        "lines": (
            "INSERT INTO lines SELECT currval_or(), g, NULL, {a} FROM generate_series(1, {n}) g "
            "ON CONFLICT (order_id, line) DO UPDATE SET quantity = excluded.quantity",
            "UPDATE lines SET quantity = quantity + 1, product = '' "
            "WHERE order_id BETWEEN {b} AND {b} + {n}",
        ),
        "stock": (
            "UPDATE stock SET pieces = pieces - 1, changed = localtimestamp "
            "WHERE sku IN (SELECT 's' || g FROM generate_series({b}, {b} + {n}) g)",
            "DELETE FROM stock WHERE sku IN "
            "(SELECT 's' || g FROM generate_series({b}, {b} + {n} / 4) g)",
            "INSERT INTO stock SELECT 's' || g, g, NULL, localtimestamp "
            "FROM generate_series({b}, {b} + {n}) g "
            "ON CONFLICT (sku) DO UPDATE SET price = {a} / 3.0",
            "UPDATE stock SET sku = sku || '+' WHERE sku IN "
            "(SELECT 's' || g FROM generate_series({b}, {b} + {n} / 8) g) "
            "AND NOT EXISTS (SELECT 1 FROM stock o WHERE o.sku = stock.sku || '+')",
        ),
        "kinds": (
            # All types, and a long value that stays as it was.
            "UPDATE kinds SET small = {a}, ratio = {a} / 7.0, money = {a} / 9.0, "
            "wide = CASE {a} % 7 WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' ELSE {a} / 3.0 END, "
            "words = repeat('é', {a} % 40), yes = NOT yes, at = now(), local = localtimestamp, "
            "numbers = ARRAY[{a}, NULL], doc = jsonb_build_object('a', {a}), "
            "tag = md5('{a}')::uuid WHERE id BETWEEN {b} % 600 AND {b} % 600 + {n} / 4",
            "UPDATE kinds SET body = repeat(md5('{a}'), {a} % 90), raw = NULL "
            "WHERE id BETWEEN {b} % 600 AND {b} % 600 + {n} / 8",
            "DELETE FROM kinds WHERE id BETWEEN {b} % 600 AND {b} % 600 + 2;"
            "INSERT INTO kinds (id, day, code) SELECT g, 'epoch', 'new' "
            "FROM generate_series({b} % 600, {b} % 600 + 1) g ON CONFLICT (id) DO NOTHING",
        ),
    },
    conflicts=(psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation),
    lost=(psycopg.OperationalError,),
)
# Neither has what makes rows in both: MariaDB sequences, MySQL RETURNING.
_DOUBLE = "INSERT INTO numbers SELECT seq + (SELECT max(seq) FROM numbers) FROM numbers"
_DOUBLINGS = 18
# Identifiers that an update of the key gives are beyond.
_NEXT = "numbers, (SELECT max(id) AS top FROM orders WHERE id < 1000000) ids"
_SOME_STOCK = "numbers STRAIGHT_JOIN stock ON sku = concat('s', {b} + seq)"
_BINLOG = _Dialect(
    create=(
        "CREATE TABLE orders (id bigint PRIMARY KEY, customer text, amount decimal(12,2) NOT NULL, "
        "placed timestamp(6) NULL, day date, paid boolean, receipt varbinary(40))",
        # `LINES` is a word of its SQL.
        "CREATE TABLE `lines` (order_id bigint, line int, product varchar(40), quantity int, "
        "PRIMARY KEY (order_id, line))",
        "CREATE TABLE stock (sku varchar(200) COLLATE utf8mb4_bin PRIMARY KEY, pieces int, "
        "price double, changed datetime(6))",
        "CREATE TABLE kinds (id bigint PRIMARY KEY, small tinyint, tiny tinyint unsigned, "
        "middle mediumint, large bigint unsigned, ratio float, wide double, money decimal(38,10), "
        "code char(5), words varchar(99), raw varbinary(40), yes boolean, bits bit(12), made year, "
        "day date, local datetime(6), at timestamp(6) NULL, took time(6), "
        "kind enum('a','b c','é'), some set('x','y','z'), doc json, body longtext)",
        "CREATE TABLE numbers (seq int PRIMARY KEY)",
        "INSERT INTO numbers VALUES (1)",
        *([_DOUBLE] * _DOUBLINGS),
    ),
    fill=(
        "INSERT INTO orders SELECT seq, concat('c', seq % 97), seq / 100, now(6), "
        "curdate(), seq % 2, unhex(sha2(seq, 256)) FROM numbers WHERE seq <= {n}",
        "INSERT INTO `lines` SELECT id, seq, concat('p', (id + seq) % 31), seq "
        "FROM orders, numbers WHERE seq <= 2",
        "INSERT INTO stock SELECT concat('s', seq), seq, seq / 7, now(6) FROM numbers "
        "WHERE seq <= {n}",
        "INSERT INTO kinds SELECT seq, seq % 100, seq % 256, -seq, 18446744073709551615 - seq, "
        "seq / 7, seq / 3, seq / 9, concat('c', seq % 9), repeat('é', seq % 9), "
        "unhex(sha2(seq, 256)), seq % 3 = 0, seq % 4096, 1901 + seq % 200, "
        "'1000-01-01' + INTERVAL seq DAY, now(6), "
        "now(6), SEC_TO_TIME(seq * 1000.5), 'é', 'z,x', json_object('n', seq), "
        "repeat(sha2(seq, 256), 40) FROM numbers WHERE seq <= 600",
    ),
    transactions={
        "orders": (
            "INSERT INTO orders (id, customer, amount, placed) "
            f"SELECT top + seq, 'new', rand() * 1000, now(6) FROM {_NEXT} WHERE seq <= {{n}}",
            "UPDATE orders SET amount = amount + 1, customer = 'é,\"\\n' "
            "WHERE id BETWEEN {b} AND {b} + {n}",
            "DELETE FROM orders WHERE id BETWEEN {b} AND {b} + {n} / 4",
            # Updates of the key.
            "UPDATE orders SET id = id + 1000000 * ({a} + 1) "
            "WHERE id BETWEEN {b} AND {b} + {n} / 8",
            "UPDATE orders SET id = id + 1 WHERE id BETWEEN {b} AND {b} + 3 ORDER BY id DESC",
            # Several changes of the same rows.
            "UPDATE orders SET paid = true WHERE id BETWEEN {b} AND {b} + {n};"
            "DELETE FROM orders WHERE id BETWEEN {b} AND {b} + {n} / 4;"
            "INSERT IGNORE INTO orders (id, customer, amount, placed, paid) "
            "SELECT {b} + seq, 'again', 1, now(6), false FROM numbers WHERE seq <= {n}",
            "REPLACE INTO orders (id, customer, amount, placed, paid, receipt) "
            "SELECT {b} + seq, 'replaced', 2, now(6), true, x'00ff' FROM numbers WHERE seq <= 6",
        ),
        "lines": (
            f"INSERT INTO `lines` SELECT top + 1, seq, NULL, {{a}} FROM {_NEXT} WHERE seq <= {{n}} "
            "ON DUPLICATE KEY UPDATE quantity = {a}",
            "UPDATE `lines` SET quantity = quantity + 1, product = '' "
            "WHERE order_id BETWEEN {b} AND {b} + {n}",
        ),
        "stock": (
            # By a join in this order: for `IN (SELECT …)` all rows would be looked at, and locked.
            f"UPDATE {_SOME_STOCK} SET pieces = pieces - 1, changed = now(6) WHERE seq <= {{n}}",
            f"DELETE stock FROM {_SOME_STOCK} WHERE seq <= {{n}} / 4",
            "INSERT INTO stock SELECT concat('s', {b} + seq), seq, NULL, now(6) FROM numbers "
            "WHERE seq <= {n} ON DUPLICATE KEY UPDATE price = {a} / 3",
            "UPDATE stock SET sku = concat(sku, '+') WHERE sku = 's{b}'",
        ),
        "kinds": (
            # All types.
            "UPDATE kinds SET small = {a} % 120, tiny = {a} % 256, middle = -{a}, ratio = {a} / 7, "
            "wide = {a} / 3, money = {a} / 9, words = repeat('é', {a} % 40), yes = NOT yes, "
            "bits = {a}, made = 1901 + {a} % 200, local = now(6), at = now(6), "
            "took = SEC_TO_TIME(-{a}.25), kind = 1 + {a} % 3, some = {a} % 8, "
            "doc = json_object('a', {a}) WHERE id BETWEEN {b} % 600 AND {b} % 600 + {n} / 4",
            "UPDATE kinds SET body = repeat(sha2('{a}', 256), {a} % 45), raw = NULL, large = {a} "
            "WHERE id BETWEEN {b} % 600 AND {b} % 600 + {n} / 8",
            "DELETE FROM kinds WHERE id BETWEEN {b} % 600 AND {b} % 600 + 2;"
            "INSERT IGNORE INTO kinds (id, day, code) VALUES ({b} % 600, '9999-12-31', 'new')",
        ),
    },
    conflicts=(pymysql.err.IntegrityError,),
    lost=(pymysql.err.OperationalError, pymysql.err.InterfaceError, UnavailableError),
)
_DEADLOCKS = (1205, 1213)
"""Numbers of the errors of a lock that was waited for too long, and of a deadlock, in both."""


def connect(dsn: str) -> Any:
    """Return a connection of DB-API 2.0 that commits each statement, unless ``BEGIN`` says else.

    Args:
        dsn: Connection string for libpq, or address ``mariadb://…`` or ``mysql://…``; the password
            is in ``PGPASSWORD`` or ``MYSQL_PWD``.
    """
    if kind_of(dsn) is POSTGRES:
        return psycopg.connect(dsn, autocommit=True)
    connection = connect_binlog(parse_address(dsn), "shop")
    connection.autocommit(True)
    return connection


def execute(dsn: str, *statements: str) -> None:
    """Execute statements, each in a transaction of its own.

    Args:
        dsn: The database, as for :func:`connect`.
        statements: SQL.
    """
    with connect(dsn) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def make_shop(dsn: str, rows: int) -> None:
    """Create the tables of the shop, and fill them.

    Args:
        dsn: An empty database, as for :func:`connect`.
        rows: Number of orders; ``lines`` gets twice as many rows, ``stock`` equally many.
    """
    dialect = _dialect(dsn)
    execute(dsn, *dialect.create, *(statement.format(n=rows) for statement in dialect.fill))


def session(
    dsn: str, stop: threading.Event, pause_s: float, transaction: Callable[[Any], None]
) -> None:
    """Run transactions until told to stop; those that conflict are dropped.

    Connects again after a crash of the server.

    Args:
        dsn: The database, as for :func:`connect`.
        stop: Ends the session.
        pause_s: Pause after a transaction, in seconds.
        transaction: Runs a transaction with a cursor.

    Raises:
        Exception: The server refuses something, or has been gone for two minutes.
    """
    dialect, lost_s = _dialect(dsn), 0.0
    while not stop.is_set():
        try:
            with connect(dsn) as connection, connection.cursor() as cursor:
                lost_s = 0.0
                while not stop.wait(pause_s):
                    try:
                        transaction(cursor)
                    except (*dialect.conflicts, *dialect.lost) as error:
                        if not (isinstance(error, dialect.conflicts) or _is_deadlock(error)):
                            raise
                        cursor.execute("ROLLBACK")
        except dialect.lost:
            lost_s += _AGAIN_S
            if lost_s > _PATIENCE_S:
                raise
            stop.wait(_AGAIN_S)


class Sessions:
    """Threads that run transactions until they are stopped; they go on after a crash of the server.

    Args:
        dsn: The database, as for :func:`connect`.
        seeds: Seed of the random transactions of each thread.
        pause_s: Pause of each thread after a transaction, in seconds.
        rests: Whether each thread rests for five seconds after a transaction now.
    """

    def __init__(
        self,
        dsn: str,
        seeds: Sequence[str],
        pause_s: float,
        rests: Callable[[], bool] = lambda: False,
    ) -> None:
        self._dsn, self._pause_s, self._rests = dsn, pause_s, rests
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(seed),)) for seed in seeds
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the threads after their current transactions; raise the first error of a thread."""
        self._stop.set()
        self.wait()

    def wait(self) -> None:
        """Wait until the threads have ended; raise the first error of a thread."""
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _run(self, chance: random.Random) -> None:
        try:
            session(self._dsn, self._stop, self._pause_s, partial(self._work, chance=chance))
        except BaseException as error:
            self._failures.append(error)

    def _work(self, cursor: Any, chance: random.Random) -> None:
        self._transaction(cursor, chance)
        if self._rests():
            self._stop.wait(_REST_S)

    def _transaction(self, cursor: Any, chance: random.Random) -> None:
        """Run a random transaction."""
        raise NotImplementedError


class Customers(Sessions):
    """Threads that change rows of the shop, until they are stopped or have changed enough.

    Args:
        dsn: The database, as for :func:`connect`.
        seed: Seed of the random changes; how the threads interleave is not fixed by it.
        rows: Largest number of rows that a statement of a usual transaction changes.
        enough: Decides from the number of changed rows whether to stop; rows of transactions that
            were rolled back do not count.
        threads: Number of threads.
        pause_s: Pause of each thread after a transaction, in seconds.
        tables: The tables of the shop that are changed.
        asked: After so many changed rows the threads rest. Whoever follows the changes with a slow
            machine would find ever more of them.

    Attributes:
        changes: Number of rows changed so far.
    """

    def __init__(  # noqa: PLR0913 - each is a choice of its own
        self,
        dsn: str,
        seed: int,
        *,
        rows: int,
        enough: Callable[[int], bool],
        threads: int = 3,
        pause_s: float = 0.0,
        tables: Sequence[str] = NAMES,
        asked: int | None = None,
    ) -> None:
        seeds = [f"{seed}-{number}" for number in range(threads)]
        super().__init__(dsn, seeds, pause_s, self.has_changed_enough)
        changes = _dialect(dsn).transactions
        self._parts = [part for table in tables for part in changes[table]]
        self._rows = rows
        self._enough = enough
        self._asked = asked
        self._lock = threading.Lock()
        self.changes = 0

    def has_changed_enough(self) -> bool:
        """Return whether as many rows were changed as were asked for, so that the threads rest."""
        return self._asked is not None and self.changes >= self._asked

    def _transaction(self, cursor: Any, chance: random.Random) -> None:
        changed = self._change(cursor, chance)
        with self._lock:
            self.changes += changed
            if self._enough(self.changes):
                self._stop.set()

    def _change(self, cursor: Any, chance: random.Random) -> int:
        """Run a random transaction, and return the number of rows that it changed.

        Some of its parts are rolled back, and so is one transaction in twenty as a whole.
        """
        # One in forty is large.
        size = self._rows * (40 if chance.random() < 0.025 else 1)
        changed = 0
        cursor.execute("BEGIN")
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            filled = chance.choice(self._parts).format(
                n=chance.randint(1, size), a=chance.randint(0, 999), b=self._somewhere(chance)
            )
            cursor.execute("SAVEPOINT part")
            part = 0
            for statement in filled.split(";"):
                cursor.execute(statement)
                part += max(cursor.rowcount, 0)
            if chance.random() < 0.05:
                cursor.execute("ROLLBACK TO SAVEPOINT part")
            else:
                changed += part
        # Some stay open for a while.
        if chance.random() < 0.02:
            self._stop.wait(chance.random())
        if chance.random() < 0.05:
            cursor.execute("ROLLBACK")
            return 0
        cursor.execute("COMMIT")
        return changed

    def _somewhere(self, chance: random.Random) -> int:
        """Return a random position in the tables."""
        return chance.randint(1, 100 * self._rows)


def _dialect(dsn: str) -> _Dialect:
    return _POSTGRES if kind_of(dsn) is POSTGRES else _BINLOG


def _is_deadlock(error: Exception) -> bool:
    with suppress(IndexError):
        return isinstance(error, pymysql.MySQLError) and error.args[0] in _DEADLOCKS
    return False
