"""Damage to the target of a live run that nothing but a comparison with the database shows."""

from __future__ import annotations

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sources.config.loader import LoadedPipeline
from spark_jobs.run_state.table_locks import table_turn

CHANGES = (
    "UPDATE orders SET amount = amount + 1 WHERE id % 2 = 0",
    "DELETE FROM orders WHERE id BETWEEN 30 AND 39",
)
"""Statements before the damage, so that the table has changes and kept deletes."""


def damage(loaded: LoadedPipeline) -> None:
    """Remove rows, change values, and add rows and copies of rows.

    Keys up to 9 are removed, 10 to 19 are changed, 20 to 22 are there twice, and 990001 to 990003
    are added.
    """
    generation, ours = loaded.require_generation(), as_own(loaded)
    with table_turn(generation):
        table = DeltaTable(loaded.target.url)
        table.delete("id < 10", commit_properties=ours)
        changed = {"customer": "'damaged'", "amount": "null"}
        table.update(changed, predicate="id BETWEEN 10 AND 19", commit_properties=ours)
        rows = table.to_pyarrow_table(filters=[("id", "in", [20, 21, 22])])
        extra = rows.set_column(
            rows.column_names.index("id"), "id", pa.array([990001, 990002, 990003], pa.int64())
        )
        for added in (rows, extra):
            write_deltalake(table, added, mode="append", commit_properties=ours)


def as_own(loaded: LoadedPipeline) -> CommitProperties:
    """Properties of a commit as after an error of the project's own; others' end the live run."""
    own = loaded.require_generation().info.transaction_id
    return CommitProperties(app_transactions=[Transaction(f"{own}-damage", 1)])
