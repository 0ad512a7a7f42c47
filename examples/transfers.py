"""Transactions over three tables of money, and what holds for the tables after each of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import duckdb

from examples.shop import Sessions
from hybrid_extensions.cuts.members import CutGroup
from hybrid_extensions.cuts.table import Cut
from hybrid_extensions.postgres.kind import POSTGRES
from sources.config.database_kind import kind_of

ACCOUNTS = 40
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
_SEQUENCE = (
    "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers "
    f"WHERE n < {ACCOUNTS - 1}) SELECT n, 1000 FROM numbers"
)
# MySQL understands it, too.
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
    """Return, by invariant, a query for how many rows break it, for tables in a schema."""
    return {name: sql.replace("public.", f"{schema}.") for name, sql in INVARIANTS.items()}


class Transfers(Sessions):
    """Sessions that move money between the tables as long as a ``with`` block, by transactions.

    Args:
        dsn: The database, as for :func:`examples.shop.connect`.
        sessions: How many there are.
        pause_s: Seconds between two transactions of a session.
        rests: Whether the sessions rest for five seconds after a transaction now.

    Attributes:
        committed: Number of transactions so far.
    """

    def __init__(
        self,
        dsn: str,
        sessions: int,
        pause_s: float = 0.01,
        rests: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(dsn, [str(number) for number in range(sessions)], pause_s, rests)
        self.committed = 0
        self._last_id = "lastval()" if kind_of(dsn) is POSTGRES else "LAST_INSERT_ID()"

    def __enter__(self) -> Transfers:
        """Start the sessions."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the sessions after their transactions; raise the first error of one."""
        self.stop()

    def _transaction(self, cursor: Any, chance: random.Random) -> None:
        cursor.execute("BEGIN")
        saving = chance.randrange(ACCOUNTS)
        account, amount = chance.randrange(ACCOUNTS), chance.randint(-5, 20)
        if chance.random() < 0.1:
            # A new account, and its first transfer.
            cursor.execute("INSERT INTO checking (balance) VALUES (0)")
            cursor.execute(f"SELECT {self._last_id}")
            (account,) = cursor.fetchone()
        if chance.random() < 0.02:
            # The saving account is closed, and what is left of it paid out.
            cursor.execute("SELECT balance FROM saving WHERE id = %s FOR UPDATE", [saving])
            row = cursor.fetchone()
            cursor.execute("DELETE FROM saving WHERE id = %s", [saving])
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
        cursor.execute("COMMIT")
        self.committed += 1


def broken(group: CutGroup, cuts: Sequence[Cut], schema: str = "public") -> dict[str, str]:
    """Return what cuts of the tables break, by cut and invariant; empty if all of them hold.

    Args:
        group: The tables that the cuts are of.
        cuts: The cuts.
        schema: Schema of the three tables; of MariaDB and MySQL, the database.
    """
    found = {}
    for each in cuts:
        with duckdb.connect() as connection:
            each.create_views(connection, group.stores)
            for name, query in invariants(schema).items():
                wrong = connection.execute(query).fetchall()[0][0]
                if wrong:
                    found[f"{each}: {name}"] = f"{wrong}, {each.tables}"
    return found
