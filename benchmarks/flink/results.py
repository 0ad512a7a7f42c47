"""Results of both contenders: compared with what DuckDB computes from the input, and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from benchmarks.flink.inputs import LAST_USER, Inputs

_SUMS = {
    "events": """
        count(*), count(DISTINCT id), sum(id), sum(value), sum(epoch_us("at")),
        sum(hash("user"))""",
    "counts": 'count(*), sum(epoch_us(hour)), sum(hash("user")), sum(n), sum(total)',
}
_COLUMNS = """{id: 'BIGINT', "at": 'TIMESTAMPTZ', "user": 'VARCHAR', value: 'DOUBLE'}"""
_HOURLY = """
SELECT date_trunc('hour', "at") AS hour, "user", count(*) AS n, sum(value) AS total
FROM ({rows}) GROUP BY ALL
"""


class WrongResultError(Exception):
    """A contender's table is not what the input makes it."""


def require_right(inputs: Inputs, work: str, files: Sequence[str], contender: str) -> None:
    """Compare a table with what DuckDB computes from all input.

    The windows of the last event of each partition are left out: a stream without an end never
    closes them.

    Args:
        inputs: Files and topic.
        work: ``files``, ``topic``, ``windows`` or ``chain``.
        files: Parquet files of the table.
        contender: Name of the contender.

    Raises:
        WrongResultError: Number of rows or sums differ.
    """
    if not files:
        message = f"{contender}, {work}: the table has no files."
        raise WrongResultError(message)
    kind = "counts" if work == "windows" else "events"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        expected = connection.execute(_sums(kind, _expected(inputs, work))).fetchone()
        found = connection.execute(_sums(kind, f"FROM read_parquet({list(files)})")).fetchone()
    if found != expected:
        message = f"{contender}, {work}: the table has {found} instead of {expected}."
        raise WrongResultError(message)


def files_of_delta(table: Path) -> list[str]:
    """Return the Parquet files of the latest version of a Delta table that is only appended to."""
    return [uri.removeprefix("file://") for uri in DeltaTable(table).file_uris()]


def files_of_flink(table: Path) -> list[str]:
    """Return the files that Flink has committed; names of others begin with a dot."""
    return [str(path) for path in sorted(table.glob("[!.]*.parquet"))]


def _sums(kind: str, rows: str) -> str:
    return f"SELECT {_SUMS[kind]} FROM ({rows}) WHERE \"user\" <> '{LAST_USER}'"


def _expected(inputs: Inputs, work: str) -> str:
    """Return the query for the rows that a table has to have."""
    history = f"FROM read_json('{inputs.history}/*.json', columns = {_COLUMNS})"
    topic = f"FROM read_json('{inputs.records}', columns = {_COLUMNS})"
    if work == "chain":
        # Live rows that history has delivered are in both.
        return f"({history}) UNION ({topic})"
    return {"files": history, "topic": topic, "windows": _HOURLY.format(rows=topic)}[work]
