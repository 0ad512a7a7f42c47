"""A table of PostgreSQL as a second sink: each delivery is one transaction, with its position.

The position is in the table ``hybrid_feeds`` of the same schema. A delivery locks its row, and
fails if another follower has moved it on, so that nothing is applied twice or out of order. Rows
come by COPY into a temporary table, which is merged in two statements: readers see all of a
delivery or nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
import pyarrow as pa
from psycopg import sql
from pyarrow import csv

from hybrid_extensions.feeds.base import AGAIN, EXAMPLES, FeedSink, delivered_meanwhile
from hybrid_extensions.feeds.declare import PostgresFeed
from hybrid_extensions.feeds.delivery import DELETED
from hybrid_extensions.feeds.position import Held, Position
from hybrid_extensions.libpq.connections import answers, connect, server_of
from sources.common import environment
from sources.errors import ErrorFields, InputError, StateError, UnavailableError

POSITIONS = "hybrid_feeds"
"""Table with the position of each fed table of a schema."""
_STAGE = sql.Identifier("pg_temp", "hybrid_feed_rows")
# A null has no quotes, and any text has.
_CSV = csv.WriteOptions(include_header=False, quoting_style="needed")
# Number of the table's file, which a TRUNCATE replaces; of a partitioned table, of all its files.
_FILES = (
    "(SELECT coalesce(pg_relation_filenode(fed), (SELECT (sum(pg_relation_filenode(relid)::bigint) "
    "%% 4294967296)::bigint::oid FROM pg_partition_tree(fed))) FROM to_regclass(%s) AS fed)"
)
_TIMEOUT_S = 10
# Types without an equality operator.
_INCOMPARABLE = ("json", "xml")


class _Known(NamedTuple):
    """What is recorded of the fed table: by which feed, how far, and whether it is the same."""

    feed: str
    position: str | None
    is_same_table: bool


class PostgresSink(FeedSink):
    """Table of PostgreSQL as a second sink; connects at the first call of :meth:`held`.

    Args:
        feed: The declaration.
        owner: ``<pipeline>.<feed>``, which is unique.
        key: Columns that identify a row.
    """

    form = "text"

    def __init__(self, feed: PostgresFeed, owner: str, key: Sequence[str]) -> None:
        self._feed, self._owner, self._key = feed, owner, list(key)
        self._table = sql.Identifier(*feed.table.split("."))
        self._schema = feed.table.rpartition(".")[0]
        self._positions = sql.Identifier(*filter(None, [self._schema, POSITIONS]))
        self._fields: ErrorFields = {"server": server_of(feed.dsn), "table": feed.table}
        self._connection: psycopg.Connection | None = None
        self._seen: str | None = None
        self._types: dict[str, str] = {}

    def close(self) -> None:
        """Close the connection, which :meth:`held` opens again; what is not committed is lost."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def held(self, columns: pa.Schema) -> Held:
        """Return the position of the table, from ``hybrid_feeds``; create a missing table.

        Refuses, with InputError, a table that another feed writes, that has rows of others, or
        lacks a column or a unique index on the key. Else raises as :meth:`FeedSink.held` says.
        """
        with self._errors():
            if self._connection is None or self._connection.closed:
                self._connection = self._connect()
            with self._connection.transaction():
                known = self._known()
                if known is not None and known.feed != self._owner:
                    raise self._fed_by_other(known.feed)
                if not self._found_columns():
                    self._create(columns)
                elif known is None:
                    self._require_one_feed()
                    self._require_empty()
                types = self._found_columns()
                self._require_columns(columns, types)
                if known is None:
                    self._execute(
                        "INSERT INTO {} (fed, feed) VALUES (%s, %s)",
                        self._positions,
                        values=(self._feed.table, self._owner),
                    )
        self._types = {name: types[name] for name in columns.names}
        self._seen = None if known is None else known.position
        # A table that was dropped or truncated has other files.
        if known is None or known.position is None or not known.is_same_table:
            return Held()
        return Held(Position.parse(known.position.encode()))

    def begin(self, position: Position) -> None:
        """Do nothing: a delivery is one transaction, so nothing is ever pending."""

    def apply(self, rows: pa.RecordBatchReader, end: Position) -> None:
        """Upsert and delete rows, and update the position, in one transaction.

        Raises as :meth:`FeedSink.apply` says; nothing is changed then.
        """
        self._deliver(rows, end, is_load=False)

    def load(self, rows: pa.RecordBatchReader, end: Position) -> None:
        """Upsert all rows, delete all others, and set the position, in one transaction.

        Raises as :meth:`FeedSink.load` says; nothing is changed then.
        """
        self._deliver(rows, end, is_load=True)

    @contextmanager
    def standing_still(self, columns: pa.Schema) -> Iterator[Held]:
        """Hold a transaction in which a comparison sees one state of the table.

        It is rolled back at the end. Raises as :meth:`FeedSink.standing_still` says.
        """
        held = self.held(columns)
        with self._errors(), self._opened.transaction(force_rollback=True):
            self._execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            known = self._known()
            if known is None or known.position != self._seen:
                raise delivered_meanwhile(self._feed.name, self._fields)
            yield held

    def compare(self, rows: pa.RecordBatchReader) -> tuple[int, list[str], int]:
        """Compare rows in PostgreSQL, by the types of its table; see :meth:`FeedSink.compare`."""
        self._copy(rows)
        same = sql.SQL(" AND ").join(
            sql.SQL("t.{0} = s.{0}").format(sql.Identifier(each)) for each in self._key
        )
        differs = sql.SQL(" OR ").join(
            [
                sql.SQL("t.{} IS NULL").format(sql.Identifier(self._key[0])),
                *(self._differs(name, "s") for name in self._types if name not in self._key),
            ]
        )
        key = sql.SQL(", ").join(
            sql.SQL("s.{}::text").format(sql.Identifier(each)) for each in self._key
        )
        query = sql.SQL("SELECT {} FROM {} AS s LEFT JOIN {} AS t ON {} WHERE {}").format(
            key, _STAGE, self._table, same, differs
        )
        found = self._opened.execute(query).fetchall()
        count = self._opened.execute(
            sql.SQL("SELECT count(*) FROM {}").format(self._table)
        ).fetchone()
        return len(found), [":".join(row) for row in found[:EXAMPLES]], count[0] if count else 0

    def _deliver(self, rows: pa.RecordBatchReader, end: Position, *, is_load: bool) -> None:
        with self._errors(), self._opened.transaction():
            self._require_same_position()
            self._copy(rows)
            same = sql.SQL(" AND ").join(
                sql.SQL("t.{0} = s.{0}").format(sql.Identifier(each)) for each in self._key
            )
            if is_load:
                text = "DELETE FROM {} AS t WHERE NOT EXISTS (SELECT FROM {} AS s WHERE {})"
                self._execute(text, self._table, _STAGE, same)
            else:
                text = "DELETE FROM {} AS t USING {} AS s WHERE s.{} AND {}"
                self._execute(text, self._table, _STAGE, sql.Identifier(DELETED), same)
            self._upsert()
            position = end.model_dump_json()
            self._execute(
                f"UPDATE {{}} SET position = %s, delivered_at = now(), relation = {_FILES} "
                "WHERE fed = %s",
                self._positions,
                values=(position, self._table.as_string(), self._feed.table),
            )
        self._seen = position

    def _copy(self, rows: pa.RecordBatchReader) -> None:
        """Copy rows into a temporary table with the columns of the fed one."""
        names = _listed(self._types)
        self._execute(
            "CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {}, false AS {} FROM {} WITH NO DATA",
            sql.Identifier("hybrid_feed_rows"),
            names,
            sql.Identifier(DELETED),
            self._table,
        )
        copied = sql.SQL("COPY {} FROM STDIN (FORMAT csv)").format(_STAGE)
        with self._opened.cursor() as cursor, cursor.copy(copied) as copy:
            for batch in rows:
                text = pa.BufferOutputStream()
                csv.write_csv(batch, text, _CSV)
                copy.write(text.getvalue().to_pybytes())
        self._execute("ANALYZE {}", _STAGE)

    def _upsert(self) -> None:
        names = _listed(self._types)
        others = [name for name in self._types if name not in self._key]
        action: sql.Composable = sql.SQL("NOTHING")
        if others:
            values = (sql.SQL("{0} = excluded.{0}").format(sql.Identifier(n)) for n in others)
            differs = (self._differs(name) for name in others)
            action = sql.SQL("UPDATE SET {} WHERE {}").format(
                sql.SQL(", ").join(values), sql.SQL(" OR ").join(differs)
            )
        self._execute(
            "INSERT INTO {} AS t ({}) SELECT {} FROM {} WHERE NOT {} ON CONFLICT ({}) DO {}",
            self._table,
            names,
            names,
            _STAGE,
            sql.Identifier(DELETED),
            _listed(self._key),
            action,
        )

    def _differs(self, name: str, other: str = "excluded") -> sql.Composable:
        as_text = "::text" if self._types[name] in _INCOMPARABLE else ""
        text = f"t.{{0}}{as_text} IS DISTINCT FROM {other}.{{0}}{as_text}"
        return sql.SQL(text).format(sql.Identifier(name))

    def _known(self) -> _Known | None:
        """Return what is recorded of the fed table; None if nothing is."""
        self._execute(
            "CREATE TABLE IF NOT EXISTS {} (fed text PRIMARY KEY, feed text NOT NULL, "
            "position text, relation oid, delivered_at timestamptz)",
            self._positions,
        )
        query = (
            f"SELECT feed, position, relation IS NOT DISTINCT FROM {_FILES} FROM {{}} "
            "WHERE fed = %s"
        )
        row = self._opened.execute(
            sql.SQL(query).format(self._positions), (self._table.as_string(), self._feed.table)
        ).fetchone()
        return None if row is None else _Known(*row)

    def _require_same_position(self) -> None:
        query = "SELECT position FROM {} WHERE fed = %s FOR UPDATE"
        row = self._opened.execute(
            sql.SQL(query).format(self._positions), (self._feed.table,)
        ).fetchone()
        if row is None or row[0] != self._seen:
            message = (
                f"Another follower has fed table `{self._feed.table}` meanwhile. This delivery "
                "changed nothing."
            )
            hint = f"Run one follower of feed `{self._feed.name}` at a time."
            raise StateError(message, hint, transient=True, **self._fields)

    def _found_columns(self) -> dict[str, str]:
        """Return the columns of the fed table with their types; empty if it does not exist."""
        rows = self._opened.execute(
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            (self._table.as_string(),),
        ).fetchall()
        return dict(rows)

    def _create(self, columns: pa.Schema) -> None:
        """Create the table; its types are those of the Delta table."""
        defined = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(each.name), sql.SQL(column_type(each.type)))
            for each in columns
        )
        self._execute(
            "CREATE TABLE {} ({}, PRIMARY KEY ({}))", self._table, defined, _listed(self._key)
        )

    def _require_columns(self, columns: pa.Schema, found: dict[str, str]) -> None:
        missing = [each for each in columns if each.name not in found]
        name = self._table.as_string()
        if missing:
            listed = ", ".join(f"`{each.name}`" for each in missing)
            added = ", ".join(
                f"ADD COLUMN {sql.Identifier(each.name).as_string()} {column_type(each.type)}"
                for each in missing
            )
            what = "column" if len(missing) == 1 else "columns"
            message = (
                f"Table `{self._feed.table}` has no {what} {listed}, which the target has. Nothing "
                "was delivered."
            )
            hint = (
                f"Run `ALTER TABLE {name} {added}`; or name in `columns` those that the feed gets. "
                f"{AGAIN}"
            )
            raise InputError(message, hint, **self._fields | {"column": missing[0].name})
        unique = self._opened.execute(
            "SELECT FROM pg_index WHERE indrelid = to_regclass(%s) AND indisunique AND indisvalid "
            "AND indimmediate AND indpred IS NULL AND (SELECT array_agg(attname::text ORDER BY "
            "attname::text) FROM pg_attribute WHERE attrelid = indrelid AND attnum = ANY "
            "((indkey::int2[])[0:indnkeyatts - 1])) = %s",
            (name, sorted(self._key)),
        ).fetchone()
        if unique is None:
            key = _listed(self._key).as_string()
            message = (
                f"Table `{self._feed.table}` has no unique index on the columns that identify a "
                f"row of the target: {', '.join(self._key)}. Nothing was delivered."
            )
            hint = (
                f"Run `ALTER TABLE {name} ADD PRIMARY KEY ({key})`; or name another table. {AGAIN}"
            )
            raise InputError(message, hint, **self._fields)

    def _require_one_feed(self) -> None:
        """Refuse a table that another feed writes by another name, such as with its schema."""
        query = f"SELECT feed FROM {{}} WHERE relation = {_FILES}"
        other = self._opened.execute(
            sql.SQL(query).format(self._positions), (self._table.as_string(),)
        ).fetchone()
        if other is not None:
            raise self._fed_by_other(other[0])

    def _require_empty(self) -> None:
        found = self._opened.execute(
            sql.SQL("SELECT FROM {} LIMIT 1").format(self._table)
        ).fetchone()
        if found is not None:
            message = (
                f"Table `{self._feed.table}` has rows that no feed has written, and the first "
                "delivery removes rows that the target lacks: so nothing was delivered or deleted."
            )
            hint = (
                "Name another table in `table`; or, if nobody needs these rows, delete them. "
                f"{AGAIN}"
            )
            raise InputError(message, hint, **self._fields | {"field": "table"})

    def _fed_by_other(self, other: str) -> InputError:
        message = (
            f"Table `{self._feed.table}` is fed by `{other}`, not by `{self._owner}`. Nothing was "
            "delivered."
        )
        hint = (
            "Name another table in `table`. If that feed is no longer used, delete its row of "
            f"`{POSITIONS}`, and empty the table. {AGAIN}"
        )
        return InputError(message, hint, **self._fields | {"field": "table"})

    def _execute(
        self, text: str, *parts: sql.Composable, values: Sequence[object] | None = None
    ) -> None:
        self._opened.execute(sql.SQL(text).format(*parts), values)

    @property
    def _opened(self) -> psycopg.Connection:
        assert self._connection is not None
        return self._connection

    def _connect(self) -> psycopg.Connection:
        dsn, variable = self._feed.dsn, self._feed.password_variable
        password = environment.variable(variable) or None
        try:
            return connect(dsn, autocommit=True, connect_timeout=_TIMEOUT_S, password=password)
        except psycopg.Error as error:
            why = " ".join(str(error).split()).rstrip(".")
            if answers(dsn):
                message = (
                    f"PostgreSQL refuses feed `{self._feed.name}`: {why}. Nothing was delivered."
                )
                hint = (
                    "Correct `dsn`, or set the password in the environment variable "
                    f"`{variable}`, which the follower reads. {AGAIN}"
                )
                raise InputError(message, hint, **self._fields) from None
            message = (
                f"PostgreSQL does not answer feed `{self._feed.name}`: {why}. Nothing was "
                "delivered."
            )
            hint = (
                f"Check that the server runs and can be reached from here; correct `dsn`. {AGAIN}"
            )
            raise UnavailableError(message, hint, **self._fields) from None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise what PostgreSQL says as an error of this project."""
        try:
            yield
        except psycopg.Error as error:
            # Without the details, which have values of rows.
            why = (error.diag.message_primary or str(error)).strip().rstrip(".")
            if isinstance(error, psycopg.OperationalError):
                if self._connection is not None:
                    self._connection.close()
                message = f"PostgreSQL failed in feed `{self._feed.name}`: {why}."
                hint = (
                    "Check that the server runs. A delivery is one transaction, so it is whole or "
                    f"changed nothing. {AGAIN}"
                )
                raise UnavailableError(message, hint, **self._fields) from None
            column = error.diag.column_name
            where = f", column `{column}`" if column else ""
            message = (
                f"PostgreSQL refuses feed `{self._feed.name}`{where}: {why}. No row was changed."
            )
            hint = (
                f"Change the table `{self._feed.table}` so that it takes the target's rows, or "
                f"name the columns that it gets in `columns`. {AGAIN}"
            )
            if isinstance(error, psycopg.errors.InsufficientPrivilege):
                hint = f"Grant the user of `dsn` what PostgreSQL names. {AGAIN}"
            raise InputError(message, hint, **self._fields) from None


def column_type(kind: pa.DataType) -> str:
    """Return PostgreSQL's type for a column of the Delta table; nested ones become ``jsonb``.

    Decimals keep precision and scale, timestamps their zone or none; what is not known here is
    ``text``.
    """
    for is_kind, name in _TYPES:
        if is_kind(kind):
            return name
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    return "jsonb" if pa.types.is_nested(kind) else "text"


_TYPES = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "smallint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "real"),
    (pa.types.is_float64, "double precision"),
    (pa.types.is_date, "date"),
    (pa.types.is_binary, "bytea"),
    (pa.types.is_large_binary, "bytea"),
)


def _listed(names: Sequence[str] | dict[str, str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
