"""Look-ups of features where they are served, compared with those of a training set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
import pyarrow as pa
from psycopg import sql

VALUES = ("hour", "departures", "mean_delay", "max_delay", "late", "known_at")
_SELECTED = sql.SQL(", ").join(sql.Identifier(name) for name in VALUES)
_TABLE = sql.Identifier("departure_delays")
_INDEX = sql.SQL("CREATE INDEX IF NOT EXISTS by_known_at ON {} (origin, known_at)").format(_TABLE)
# The row of a training set, by another database: the last one that was known, of them the latest.
_LATEST = sql.SQL(
    "SELECT {} FROM {} WHERE origin = %s ORDER BY known_at DESC, hour DESC LIMIT 1"
).format(_SELECTED, _TABLE)
_KNOWN = sql.SQL(
    "SELECT f.* FROM unnest(%s::text[], %s::timestamptz[]) WITH ORDINALITY AS l (origin, at, n) "
    "LEFT JOIN LATERAL (SELECT {} FROM {} AS f WHERE f.origin = l.origin AND f.known_at <= l.at "
    "ORDER BY known_at DESC, hour DESC LIMIT 1) AS f ON true ORDER BY n"
).format(_SELECTED, _TABLE)


class Agreement(NamedTuple):
    """How many rows of a training set have the values that the second sink serves.

    Attributes:
        name: Which features the rows have.
        rows: Their number.
        equal: Number of those whose values are all equal, bit for bit.
    """

    name: str
    rows: int
    equal: int

    @property
    def share(self) -> float:
        """Share of the rows with equal values, from 0 to 1; 0 if there is no row."""
        return self.equal / self.rows if self.rows else 0.0

    @property
    def ok(self) -> bool:
        """Whether there are rows, and all are equal."""
        return 0 < self.rows == self.equal


def agreements(dsn: str, password: str, rows: pa.Table) -> list[Agreement]:
    """Look the features of a training set up in PostgreSQL, and count the rows that agree.

    Args:
        dsn: The database.
        password: Its password.
        rows: Training set, with the columns :data:`VALUES`.

    Returns:
        The agreement of the rows whose features are the latest of their key, looked up by the key
        alone, as a service does; and that of all rows, as it would have done at ``asked_at``.
    """
    origins, asked = rows["origin"].to_pylist(), rows["asked_at"].to_pylist()
    trained = list(zip(*(rows[name].to_pylist() for name in VALUES), strict=True))
    newest: dict[str, Any] = {}
    for origin, values in zip(origins, trained, strict=True):
        known_at = values[-1]
        if known_at is not None and known_at >= newest.get(origin, known_at):
            newest[origin] = known_at
    with psycopg.connect(dsn, password=password) as connection:
        connection.execute(_INDEX)
        latest = {
            origin: connection.execute(_LATEST, (origin,)).fetchone() for origin in sorted(newest)
        }
        known = connection.execute(_KNOWN, (origins, asked)).fetchall()
    last = [at for at, origin in enumerate(origins) if trained[at][-1] == newest.get(origin, "")]
    return [
        _agreement(
            "the latest of their key",
            [trained[at] for at in last],
            [latest[origins[at]] for at in last],
        ),
        _agreement("any, as of the time of each", trained, known),
    ]


def _agreement(name: str, trained: Sequence[Any], served: Sequence[Any]) -> Agreement:
    equal = sum(a == b for a, b in zip(trained, served, strict=True))
    return Agreement(name, len(trained), equal)
