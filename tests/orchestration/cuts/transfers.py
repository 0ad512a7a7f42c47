"""Transactions over three tables, and what holds for the tables after each of them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pymysql

from services.mariadb import LocalMariaDb

ACCOUNTS = 40
_DEADLOCK = 1213
TABLES = {
    "checking": {"id": "bigint", "balance": "bigint"},
    "saving": {"id": "bigint", "balance": "bigint"},
    "transfers": {"id": "bigint", "account": "bigint", "amount": "bigint"},
}
_ALL = f"SELECT id, 1000 FROM generate_series(0, {ACCOUNTS - 1}) id"
MAKE = (
    "CREATE TABLE checking (id bigint PRIMARY KEY, balance bigint NOT NULL)",
    "CREATE TABLE saving (id bigint PRIMARY KEY, balance bigint NOT NULL)",
    "CREATE TABLE transfers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "account bigint NOT NULL REFERENCES checking, amount bigint NOT NULL)",
    f"INSERT INTO checking {_ALL}",
    f"INSERT INTO saving {_ALL}",
    f"CREATE SEQUENCE account START {ACCOUNTS}",
    "ALTER TABLE checking ALTER id SET DEFAULT nextval('account')",
)
_SEQUENCE = f"SELECT seq, 1000 FROM seq_0_to_{ACCOUNTS - 1}"
MAKE_MARIADB = (
    "SET sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')",
    "CREATE TABLE checking (id bigint AUTO_INCREMENT PRIMARY KEY, balance bigint NOT NULL)",
    "CREATE TABLE saving (id bigint PRIMARY KEY, balance bigint NOT NULL)",
    "CREATE TABLE transfers (id bigint AUTO_INCREMENT PRIMARY KEY, account bigint NOT NULL, "
    "amount bigint NOT NULL, FOREIGN KEY (account) REFERENCES checking (id))",
    f"INSERT INTO checking {_SEQUENCE}",
    f"INSERT INTO saving {_SEQUENCE}",
)
# By invariant: how many rows of a cut break it; MariaDB's schemas are its databases.
INVARIANTS = {
    "the sum of all balances never changes": (
        "SELECT abs((SELECT sum(balance) FROM public.checking) "
        f"+ (SELECT coalesce(sum(balance), 0) FROM public.saving) - {2 * ACCOUNTS * 1000})"
    ),
    "each transfer has its account": (
        "SELECT count(*) FROM public.transfers ANTI JOIN public.checking "
        "ON public.transfers.account = public.checking.id"
    ),
    "each balance is the sum of its transfers": (
        "SELECT count(*) FROM public.checking c LEFT JOIN (SELECT account, sum(amount) AS moved "
        "FROM public.transfers GROUP BY account) t ON t.account = c.id "
        f"WHERE c.balance <> (CASE WHEN c.id < {ACCOUNTS} THEN 1000 ELSE 0 END) "
        "+ coalesce(t.moved, 0)"
    ),
}


def invariants(schema: str) -> dict[str, str]:
    """The invariants of tables in a schema of another name."""
    return {name: sql.replace("public.", f"{schema}.") for name, sql in INVARIANTS.items()}


class Transfers:
    """Sessions that move money between the tables, a transaction each time.

    Args:
        connect: Returns a connection to the database that commits when it is told to.
        sessions: How many there are.
        pause_s: Seconds between two transactions of a session.
    """

    def __init__(self, connect: Callable[[], Any], sessions: int, pause_s: float = 0.01) -> None:
        self._connect = connect
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(seed),))
            for seed in range(sessions)
        ]
        self.committed = 0

    def __enter__(self) -> Transfers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, chance: random.Random) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            while not self._stop.wait(self._pause_s):
                try:
                    self._transaction(cursor, chance)
                    connection.commit()
                    self.committed += 1
                except (psycopg.errors.DeadlockDetected, pymysql.err.OperationalError) as error:
                    if isinstance(error, pymysql.MySQLError) and error.args[0] != _DEADLOCK:
                        raise
                    connection.rollback()

    def _transaction(self, cursor: Any, chance: random.Random) -> None:
        saving = chance.randrange(ACCOUNTS)
        account, amount = chance.randrange(ACCOUNTS), chance.randint(-5, 20)
        if chance.random() < 0.1:
            # A new account, and its first transfer.
            cursor.execute("INSERT INTO checking (balance) VALUES (0) RETURNING id")
            (account,) = cursor.fetchone()
        if chance.random() < 0.02:
            # The saving account is closed, and what is left of it paid out.
            cursor.execute("DELETE FROM saving WHERE id = %s RETURNING balance", [saving])
            row = cursor.fetchone()
            amount = 0 if row is None else row[0]
        else:
            cursor.execute(
                "UPDATE saving SET balance = balance - %s WHERE id = %s", [amount, saving]
            )
            amount = amount if cursor.rowcount else 0
        cursor.execute(
            "UPDATE checking SET balance = balance + %s WHERE id = %s", [amount, account]
        )
        cursor.execute("INSERT INTO transfers (account, amount) VALUES (%s, %s)", [account, amount])


def of_postgres(dsn: str) -> Callable[[], Any]:
    """How the sessions of :class:`Transfers` connect to PostgreSQL."""
    return lambda: psycopg.connect(dsn)


def of_mariadb(server: LocalMariaDb, database: str) -> Callable[[], Any]:
    """How the sessions of :class:`Transfers` connect to MariaDB."""

    def connect() -> Any:
        connection = server.connect(database)
        connection.autocommit(False)
        return connection

    return connect
