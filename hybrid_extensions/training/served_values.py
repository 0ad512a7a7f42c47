"""Values that look-ups found where they are served, compared with those that training takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from hybrid_extensions.comparison.compared_tables import comparable_as
from hybrid_extensions.comparison.duckdb_database import columns_of
from hybrid_extensions.training.columns import Asked
from hybrid_extensions.training.point_in_time import LABELS, NUMBER, join_labels, open_history
from sources.common.sql.sql_names import column_list, quoted
from sources.config.loader import LoadedPipeline
from sources.errors import InputError

LOOKUPS = "lookups"
"""Table of the database with the look-ups: key, :data:`AT`, :data:`IS_CHANGE` and served values."""
AT = "_hybrid_at"
"""Column of the look-ups: when they were made."""
IS_CHANGE = "_hybrid_is_change"
"""Column of the look-ups: whether the value had just changed; the others are at random times."""
EXAMPLES = 5
"""Most look-ups that a comparison shows."""
_LOOKUP = "_hybrid_lookup"
_TRAINED = "trained"


@dataclass(frozen=True)
class Difference:
    """A look-up that found another value than training takes.

    Attributes:
        key: The key, as text.
        at: Time of the look-up, in ISO 8601.
        served: The values that it found and that differ, by column; null where it found none.
        trained: The values that training takes for the same time, of the same columns.
    """

    key: str
    at: str
    served: dict[str, str | None]
    trained: dict[str, str | None]


@dataclass(frozen=True)
class Agreement:
    """Result of comparing look-ups with training: how many found the values that training takes.

    Attributes:
        changes: Number of look-ups at times at which a value had just changed.
        changes_equal: Number of those whose values are all equal.
        random: Number of look-ups of random keys at random times.
        random_equal: Number of those whose values are all equal.
        columns: Share of all look-ups with an equal value, from 0 to 1, by column.
        examples: Some look-ups that differ.
        not_compared: Served columns that the table of training does not have.
        notes: Sentences about values of training that may have been known only later.
    """

    changes: int
    changes_equal: int
    random: int
    random_equal: int
    columns: dict[str, float] = field(default_factory=dict)
    examples: list[Difference] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def compare_lookups(
    connection: duckdb.DuckDBPyConnection,
    trained: LoadedPipeline,
    key: Sequence[str],
    known_at: str | None = None,
) -> Agreement:
    """Compare the values of look-ups with those that a training set would have for their times.

    Args:
        connection: A database with the table :data:`LOOKUPS`, whose rows are numbered by
            :data:`~hybrid_extensions.training.point_in_time.NUMBER`.
        trained: The pipeline whose table training reads.
        key: Columns by which values are looked up.
        known_at: Column of the table with the time at which a row became known; None for that of
            the declaration.

    Raises:
        InputError: The table holds the latest values only, lacks a column of the key or all others,
            has a column of another type, or can't be read.
        StateError: There is no table yet.
        UnavailableError: A store does not answer.
    """
    served = columns_of(connection, LOOKUPS)
    values = [name for name in served if name not in (*key, NUMBER, AT, IS_CHANGE)]
    _require_key(trained, key)
    connection.execute(
        f"CREATE VIEW {LABELS} AS SELECT {NUMBER}, {NUMBER} AS {_LOOKUP}, {column_list(key)}, {AT} "
        f"FROM {LOOKUPS}"
    )
    joined = join_labels(connection, trained, Asked(key=list(key), time=AT, known_at=known_at))
    shared = [name for name in values if name in joined.values]
    for name in shared:
        _require_same_type(trained, name, served[name], joined.values[name])
    if not shared:
        message = (
            f"The table of pipeline `{trained.pipeline.name}` has none of the served columns "
            f"{', '.join(values)}."
        )
        hint = "Name in `trained_on` the pipeline whose table has them."
        raise InputError(message, hint, field="feeds", pipeline=trained.pipeline.name)
    connection.execute(f"CREATE TABLE {_TRAINED} AS {joined.query}")
    same = {name: f"s.{quoted(name)} IS NOT DISTINCT FROM t.{quoted(name)}" for name in shared}
    both = f"{LOOKUPS} AS s JOIN {_TRAINED} AS t ON s.{NUMBER} = t.{_LOOKUP}"
    is_equal = f"({' AND '.join(same.values())})"
    counts = [f"count(*) FILTER ({IS_CHANGE})", f"count(*) FILTER ({IS_CHANGE} AND {is_equal})"]
    counts += ["count(*)", f"count(*) FILTER ({is_equal})"]
    counts += [f"count(*) FILTER ({each})" for each in same.values()]
    numbers = connection.execute(f"SELECT {', '.join(counts)} FROM {both}").fetchall()[0]
    changes, changes_equal, total, equal, *by_column = map(int, numbers)
    return Agreement(
        changes,
        changes_equal,
        total - changes,
        equal - changes_equal,
        {name: n / total if total else 1.0 for name, n in zip(shared, by_column, strict=True)},
        _examples(connection, f"{both} WHERE NOT {is_equal} ORDER BY s.{NUMBER}", key, same),
        [name for name in values if name not in shared and name != joined.known_at],
        joined.notes,
    )


def _require_key(trained: LoadedPipeline, key: Sequence[str]) -> None:
    table = open_history(trained)
    names = [each.name for each in table.schema().fields]
    for name in key:
        if name not in names:
            message = (
                f"The table of pipeline `{trained.pipeline.name}`, which training reads, has no "
                f"column `{name}`, by which values are looked up; it has {', '.join(names)}."
            )
            hint = "Name in `trained_on` the pipeline whose table has the columns of `sink.key`."
            raise InputError(message, hint, field="feeds", column=name)


def _require_same_type(trained: LoadedPipeline, name: str, served: str, kind: str) -> None:
    if comparable_as(served) != comparable_as(kind):
        message = (
            f"Column `{name}` is served as {served}, and is {kind} in the table of pipeline "
            f"`{trained.pipeline.name}`, which training reads."
        )
        hint = f"Let both transforms return `{name}` with the same type."
        raise InputError(message, hint, field="feeds", column=name, value=kind)


def _examples(
    connection: duckdb.DuckDBPyConnection, source: str, key: Sequence[str], same: dict[str, str]
) -> list[Difference]:
    """Return the first look-ups that differ."""
    selected = [f"CAST(s.{quoted(name)} AS VARCHAR)" for name in key]
    selected.append(f"strftime(s.{AT}, '%Y-%m-%dT%H:%M:%S.%fZ')")
    for name, is_same in same.items():
        selected += [f"CAST({side}.{quoted(name)} AS VARCHAR)" for side in "st"] + [is_same]
    found = connection.execute(f"SELECT {', '.join(selected)} FROM {source} LIMIT {EXAMPLES}")
    return [_difference(row, len(key), list(same)) for row in found.fetchall()]


def _difference(row: Sequence[Any], keys: int, names: Sequence[str]) -> Difference:
    parts = row[keys + 1 :]
    differing = [n for n in range(len(names)) if not parts[3 * n + 2]]
    return Difference(
        ":".join(str(each) for each in row[:keys]),
        row[keys],
        {names[n]: parts[3 * n] for n in differing},
        {names[n]: parts[3 * n + 1] for n in differing},
    )
