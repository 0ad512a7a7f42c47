"""Quality of a training set: numbers of its rows and nulls, which its checks in Dagster judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hybrid_extensions.comparison.compared_tables import open_target
from hybrid_extensions.comparison.copied_rows import copy_rows
from hybrid_extensions.comparison.duckdb_database import INSTANT, MEMORY_LIMIT, open_database
from hybrid_extensions.training.sets.declare import DeclaredSet
from hybrid_extensions.training.sets.opened_labels import LABELS, in_ranges, open_labels
from sources.common.sql.sql_names import column_list, quoted
from sources.config.loader import LoadedPipeline
from sources.config.table.known_at import KNOWN_AT
from sources.errors import StateError


@dataclass(frozen=True)
class Quality:
    """Numbers about the rows of some ranges of a training set.

    Attributes:
        labels: Number of labels.
        rows: Number of rows of the set.
        nulls: Share of rows without a value, from 0 to 1, by column of the feature tables.
        from_the_future: Number of rows with values that became known after their time, by table;
            tables without such rows are missing.
    """

    labels: int
    rows: int
    nulls: dict[str, float] = field(default_factory=dict)
    from_the_future: dict[str, int] = field(default_factory=dict)


def quality(loaded: LoadedPipeline, declared: DeclaredSet, ranges: Sequence[str]) -> Quality:
    """Read the numbers of some ranges of a set from its table and its labels.

    Args:
        loaded: The pipeline that declares the set.
        declared: The set.
        ranges: Keys of the ranges.

    Raises:
        InputError: Labels or table can't be read.
        StateError: There is no table yet.
        UnavailableError: A store does not answer.
    """
    folder = loaded.place(declared.path).called("training set")
    if (table := open_target(folder)) is None:
        message = f"There is no table {folder} of training set `{declared.name}` yet."
        hint = f"Compute it first: `hybrid training P --set {declared.name}`."
        raise StateError(message, hint, table=folder.url)
    where = in_ranges(ranges)
    made = [f"{each.name}__{name}" for each in declared.tables for name in each.columns]
    since = [f"{each.name}__{KNOWN_AT}" for each in declared.tables]
    read = column_list([declared.labels.time, *made, *since])
    time = f"CAST({quoted(declared.labels.time)} AS {INSTANT})"
    counts = ["count(*)", *(f"count(*) - count({quoted(each)})" for each in made)]
    counts += [f"count(*) FILTER ({quoted(each)} > {time})" for each in since]
    with (
        TemporaryDirectory(prefix="hybrid-training-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        open_labels(connection, loaded, declared)
        labels = connection.execute(f"SELECT count(*) FROM {LABELS} WHERE {where}").fetchall()[0][0]
        copy_rows(connection, "made", table, f"SELECT {read} FROM target WHERE {where}")
        rows, *found = connection.execute(f"SELECT {', '.join(counts)} FROM made").fetchall()[0]
    nulls = {name: each / rows if rows else 0.0 for name, each in zip(made, found, strict=False)}
    late = zip(declared.tables, found[len(made) :], strict=True)
    return Quality(int(labels), int(rows), nulls, {each.name: n for each, n in late if n})
