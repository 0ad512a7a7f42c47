"""What cuts hold, and whether that breaks an invariant of the transfers."""

from __future__ import annotations

from typing import Any

import duckdb

from examples.transfers import TABLES, invariants
from hybrid_extensions.cuts.attempt import GivenUp
from hybrid_extensions.cuts.members import CutGroup
from hybrid_extensions.cuts.table import Cut
from spark_jobs.table.delta_table import open_table, version_of


def note(found: Cut | GivenUp, cuts: list[Cut], given_up: list[str]) -> None:
    if isinstance(found, GivenUp):
        given_up.append(found.why)
    else:
        cuts.append(found)


def is_torn(group: CutGroup, schema: str = "public") -> bool:
    """Whether the newest versions break an invariant, as they may."""
    newest = {each.name: (each.target, version_of(each.target)) for each in group.tables()}
    with duckdb.connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        for name in TABLES:
            table = open_table(*newest[f"{schema}.{name}"])
            connection.register(f"_{name}", table.to_pyarrow_dataset())
            connection.execute(f"CREATE VIEW {schema}.{name} AS SELECT * FROM _{name}")
        queries = invariants(schema).values()
        return any(connection.execute(query).fetchall()[0][0] for query in queries)


def content(group: CutGroup, cut: Cut, schema: str = "public") -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each table."""
    with duckdb.connect() as connection:
        cut.create_views(connection, group.stores)
        return {
            name: connection.execute(
                f"SELECT {', '.join(columns)} FROM {schema}.{name} ORDER BY id"
            ).fetchall()
            for name, columns in TABLES.items()
        }
