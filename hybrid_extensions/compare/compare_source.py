"""First look at a whole table and its database: rows that only one has, duplicates, by shard.

The database's own tool writes its rows to a file, delta-rs reads the target, and DuckDB compares
them. No code is shared with the snapshot or with the runs that write the target, but for the form
of MySQL's JSON documents, which have no text of their own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hybrid_extensions.cdc.compared.compared_table import (
    ComparedTable,
    compared_table,
    compared_tables,
)
from hybrid_extensions.compare.compared_sides import compared_sides
from hybrid_extensions.comparison.compared_tables import require_own_rows
from hybrid_extensions.comparison.duckdb_database import as_json, count_rows
from orchestration.comparison.report import EXAMPLES
from sources.config.loader import LoadedPipeline


@dataclass(frozen=True)
class SourceComparison:
    """Differences between a database table (the source) and the target.

    A row that differs in one column is counted on both sides.

    Attributes:
        table: Name of the database table, ``schema.table``.
        rows: Rows of the database table.
        found: Rows of the target that stand for rows of the database: no delete markers.
        only_in_source: Rows of the database table that the target does not hold with equal values.
        only_in_target: Rows of the target that the database table does not hold with equal values.
        examples: Up to :data:`orchestration.comparison.report.EXAMPLES` rows of each side, as JSON.
        columns: Names of the columns that were compared.
        shard: Topic of the shard that was compared; empty for the whole table.
        shards: Results for each shard, whose sums are those of the whole; empty without shards.
    """

    table: str
    rows: int
    found: int
    only_in_source: int
    only_in_target: int
    examples: list[str]
    columns: list[str]
    shard: str = ""
    shards: tuple[SourceComparison, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether both tables hold equal rows, each row equally often."""
        return not self.only_in_source and not self.only_in_target

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a JSON-compatible dictionary, with ``ok``.

        ``shard`` and ``shards`` are left out where there are none.
        """
        document = {name: value for name, value in asdict(self).items() if "shard" not in name}
        if self.shard:
            document["shard"] = self.shard
        if self.shards:
            document["shards"] = [each.to_dict() for each in self.shards]
        return {**document, "ok": self.ok}


def compare_with_source(loaded: LoadedPipeline) -> SourceComparison:
    """Compare a pipeline's target with the database table that it captures, as both are now.

    Changes that the live run has not merged yet are reported as differences.

    Raises:
        InputError: The pipeline captures no table, there is no target yet, or one of the two can't
            be read, such as for a wrong password.
        StateError: The declaration changed in a way that the checkpoint can't follow; or another
            generation has replaced this one in the target.
        UnavailableError: The database or the state's store does not answer.
    """
    require_own_rows(loaded)
    if not loaded.pipeline.shards:
        return compare_table(compared_table(loaded))
    shards = tuple(compare_table(each) for each in compared_tables(loaded))
    return SourceComparison(
        table=shards[0].table,
        rows=sum(each.rows for each in shards),
        found=sum(each.found for each in shards),
        only_in_source=sum(each.only_in_source for each in shards),
        only_in_target=sum(each.only_in_target for each in shards),
        examples=[f"{each.shard}: {line}" for each in shards for line in each.examples],
        columns=shards[0].columns,
        shards=shards,
    )


def compare_table(asked: ComparedTable) -> SourceComparison:
    """Compare a Delta table with a database table row by row, duplicates included.

    Args:
        asked: Both tables; only columns that the Delta table has are compared.

    Raises:
        InputError: The Delta table does not exist, one of the tables can't be read, or their rows
            need more memory than a comparison takes.
        UnavailableError: The database does not answer.
    """
    with compared_sides(asked) as (connection, compared):
        source, found = count_rows(connection, "source"), count_rows(connection, "target")
        counts, examples = {}, []
        for side in ("source", "target"):
            counts[side] = count_rows(connection, f"only_{side}")
            rows = connection.execute(
                f"SELECT {as_json(compared)} FROM only_{side} ORDER BY ALL LIMIT {EXAMPLES}"
            ).fetchall()
            examples += [f"only in the {side}: {row[0]}" for row in rows]
    return SourceComparison(
        table=asked.table,
        rows=source,
        found=found,
        only_in_source=counts["source"],
        only_in_target=counts["target"],
        examples=examples,
        columns=compared,
        shard=asked.shard,
    )
