"""A shop in PostgreSQL, and people who use it all the time: three tables and their changes."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import psycopg

TABLES = ("public.orders", "public.lines", "public.stock")
_SCHEMA = """
CREATE TABLE orders (
    id bigint PRIMARY KEY, customer text, amount numeric(12,2) NOT NULL, placed timestamptz,
    day date, paid boolean, receipt bytea
);
CREATE TABLE lines (
    order_id bigint, line int, product text, quantity int, PRIMARY KEY (order_id, line)
);
CREATE TABLE stock (sku text PRIMARY KEY, pieces int, price double precision, changed timestamp);
CREATE SEQUENCE ids;
"""
_FILL = """
INSERT INTO orders SELECT id, 'c' || id % 97, id / 100.0, now(), current_date, id % 2 = 0,
    decode(md5(id::text), 'hex') FROM (SELECT nextval('ids') AS id FROM generate_series(1, {n})) g;
INSERT INTO lines SELECT id, line, 'p' || (id + line) % 31, line
    FROM orders, generate_series(1, 2) line;
INSERT INTO stock SELECT 's' || n, n, n / 7.0, localtimestamp FROM generate_series(1, {n}) n;
"""
# Each a transaction; {n} rows, {a} and {b} numbers at random.
_TRANSACTIONS = (
    "INSERT INTO orders SELECT nextval('ids'), 'new', random() * 1000, now(), NULL, NULL, NULL"
    " FROM generate_series(1, {n})",
    "INSERT INTO lines SELECT currval_or(), g, NULL, {a} FROM generate_series(1, {n}) g"
    " ON CONFLICT (order_id, line) DO UPDATE SET quantity = excluded.quantity",
    "UPDATE orders SET amount = amount + 1, customer = 'é,\"' || chr(10) WHERE id IN"
    " (SELECT id FROM orders ORDER BY id OFFSET {b} LIMIT {n})",
    "UPDATE lines SET quantity = quantity + 1, product = '' WHERE order_id BETWEEN {b} AND {b}+{n}",
    "UPDATE stock SET pieces = pieces - 1, changed = localtimestamp"
    " WHERE sku IN (SELECT 's' || g FROM generate_series({b}, {b} + {n}) g)",
    "DELETE FROM orders WHERE id BETWEEN {b} AND {b} + {n} / 4",
    "DELETE FROM stock WHERE sku IN (SELECT 's' || g FROM generate_series({b}, {b} + {n} / 4) g)",
    "INSERT INTO stock SELECT 's' || g, g, NULL, localtimestamp"
    " FROM generate_series({b}, {b} + {n}) g ON CONFLICT (sku) DO UPDATE SET price = {a} / 3.0",
    # Another key.
    "UPDATE orders SET id = nextval('ids') WHERE id BETWEEN {b} AND {b} + {n} / 8",
    "UPDATE stock SET sku = sku || '+' WHERE sku IN"
    " (SELECT 's' || g FROM generate_series({b}, {b} + {n} / 8) g)"
    " AND NOT EXISTS (SELECT 1 FROM stock o WHERE o.sku = stock.sku || '+')",
    # The same rows several times.
    "UPDATE orders SET paid = true WHERE id BETWEEN {b} AND {b} + {n};"
    "DELETE FROM orders WHERE id BETWEEN {b} AND {b} + {n} / 4;"
    "INSERT INTO orders SELECT g, 'again', 1, now(), NULL, false, NULL"
    " FROM generate_series({b}, {b} + {n} / 8) g ON CONFLICT (id) DO NOTHING",
)
_CURRENT = """
CREATE FUNCTION currval_or() RETURNS bigint LANGUAGE sql
    AS 'SELECT last_value FROM ids';
"""
_RETRY = (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation)


def make_shop(dsn: str, rows: int) -> None:
    """Make the tables, and fill them.

    Args:
        dsn: The database; PGPASSWORD has the password.
        rows: Of the table of orders.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_SCHEMA)
        connection.execute(_CURRENT)
        for statement in _FILL.format(n=rows).split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute("ANALYZE")


class Customers:
    """Threads that change the shop, until they are told to stop or have changed enough.

    Args:
        dsn: The database; PGPASSWORD has the password.
        seed: Of what they do; how it interleaves is up to the machine.
        rows: About how many rows a usual transaction changes.
        enough: Tells from the number of changes whether to stop; changes that were rolled back do
            not count.
        threads: How many.
        pause_s: How long each waits after a transaction.

    Attributes:
        changes: Rows changed so far.
    """

    def __init__(
        self,
        dsn: str,
        seed: int,
        *,
        rows: int,
        enough: Callable[[int], bool],
        threads: int = 3,
        pause_s: float = 0.0,
    ) -> None:
        self._dsn = dsn
        self._pause_s = pause_s
        self._rows = rows
        self._enough = enough
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self.changes = 0
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(f"{seed}-{number}"),))
            for number in range(threads)
        ]

    def start(self) -> None:
        """Let them begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let them end what they are at; raises what one of them met."""
        self._stop.set()
        self.wait()

    def wait(self) -> None:
        """Return when they have changed enough; raises what one of them met."""
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _run(self, chance: random.Random) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                while not self._stop.is_set() and not self._enough(self.changes):
                    try:
                        changed = self._transaction(connection, chance)
                    except _RETRY:
                        continue
                    with self._lock:
                        self.changes += changed
                    self._stop.wait(self._pause_s)
        except BaseException as error:
            self._failures.append(error)

    def _transaction(self, connection: psycopg.Connection[object], chance: random.Random) -> int:
        # One in forty is a big one.
        size = self._rows * (40 if chance.random() < 0.025 else 1)
        changed = 0
        with connection.transaction() as outer:
            for _ in range(chance.choice((1, 1, 1, 2, 5))):
                filled = chance.choice(_TRANSACTIONS).format(
                    n=chance.randint(1, size), a=chance.randint(0, 999), b=self._somewhere(chance)
                )
                with connection.transaction() as inner:
                    part = 0
                    for statement in filled.split(";"):
                        part += max(connection.execute(statement).rowcount, 0)
                    if chance.random() < 0.05:
                        raise psycopg.Rollback(inner)
                    changed += part
            # Some stay in flight for a while.
            if chance.random() < 0.02:
                self._stop.wait(chance.random())
            if chance.random() < 0.05:
                raise psycopg.Rollback(outer)
        return changed

    def _somewhere(self, chance: random.Random) -> int:
        return chance.randint(1, 100 * self._rows)
