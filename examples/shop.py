"""Example database: a shop of three tables in PostgreSQL, and threads that change it constantly."""

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
# Parts of transactions; {n} is a number of rows, {a} and {b} are random numbers.
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
    # Updates of the key.
    "UPDATE orders SET id = nextval('ids') WHERE id BETWEEN {b} AND {b} + {n} / 8",
    "UPDATE stock SET sku = sku || '+' WHERE sku IN"
    " (SELECT 's' || g FROM generate_series({b}, {b} + {n} / 8) g)"
    " AND NOT EXISTS (SELECT 1 FROM stock o WHERE o.sku = stock.sku || '+')",
    # Several changes of the same rows.
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
    """Create the tables of the shop, and fill them.

    Args:
        dsn: Connection string of an empty database; the password is in PGPASSWORD.
        rows: Number of orders; ``lines`` gets twice as many rows, ``stock`` equally many.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_SCHEMA)
        connection.execute(_CURRENT)
        for statement in _FILL.format(n=rows).split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute("ANALYZE")


class Customers:
    """Threads that change rows of the shop, until they are stopped or have changed enough.

    Args:
        dsn: Connection string of the database; the password is in PGPASSWORD.
        seed: Seed of the random changes; how the threads interleave is not fixed by it.
        rows: Largest number of rows that a statement of a usual transaction changes.
        enough: Decides from the number of changed rows whether to stop; rows of transactions that
            were rolled back do not count.
        threads: Number of threads.
        pause_s: Pause of each thread after a transaction, in seconds.

    Attributes:
        changes: Number of rows changed so far.
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
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the threads after their current transactions; raise the first error of a thread."""
        self._stop.set()
        self.wait()

    def wait(self) -> None:
        """Wait until the threads have changed enough; raise the first error of a thread."""
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _run(self, chance: random.Random) -> None:
        """Run transactions in a thread; transactions that conflict are dropped."""
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
        """Run a random transaction, and return the number of rows that it changed.

        Some of its parts are rolled back, and so is one transaction in twenty as a whole.
        """
        # One in forty is large.
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
            # Some stay open for a while.
            if chance.random() < 0.02:
                self._stop.wait(chance.random())
            if chance.random() < 0.05:
                raise psycopg.Rollback(outer)
        return changed

    def _somewhere(self, chance: random.Random) -> int:
        """Return a random position in the tables."""
        return chance.randint(1, 100 * self._rows)
