"""Changes merged into the target in their own order, in whatever order they arrive.

A row of the target keeps the sequence of the change that made it, and only a change that is not
older replaces it. A row that is removed can't keep anything: the sequences of deletes are kept in
a table beside the checkpoint, so that an older change that comes later does not bring it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.pipeline import Sink
from sources.state import Generation
from spark_jobs.merge_keys import KeyRange

DELETES = "deletes"
# Deletes of a micro-batch that are brought to the driver.
_FEW = 10_000


def target_rows(rows: DataFrame, sink: Sink) -> DataFrame:
    """What the target holds of rows: a removed row needs no mark."""
    return rows.drop(sink.deleted) if sink.deleted and sink.removes_rows else rows


def merge_changes(
    batch: DataFrame, batch_id: int, path: str, sink: Sink, generation: Generation
) -> None:
    """Bring one micro-batch of changes into the target; a batch merged before is skipped.

    Args:
        batch: What the transform returned; several changes of a key count as the last one.
        batch_id: Of the micro-batch.
        path: The target's folder.
        sink: The declaration, with a ``sequence``.
        generation: Whose target it is.
    """
    # Settings on the outer session have no effect, and no error, in a streaming batch.
    spark = batch.sparkSession
    spark.conf.set("spark.databricks.delta.write.txnAppId", generation.info.transaction_id)
    spark.conf.set("spark.databricks.delta.write.txnVersion", str(batch_id))
    last = _last_of_each_key(batch, sink).persist()
    try:
        # Evaluates the batch even if Delta will skip the MERGE: else Spark finds the state of
        # the operators above uncommitted and fails.
        is_gone = _is_deleted(sink)
        keys = KeyRange(last, sink.key)
        deleted, others, lowest, *limits = last.agg(
            F.count_if(is_gone),
            F.count_if(~is_gone),
            F.min_by(sink.order[0], F.when(~is_gone, _order(sink.order))),
            *keys.limits,
        ).first() or (0, 0, None)
        changes = last
        if sink.deleted and sink.removes_rows:
            deletes = generation.path(DELETES)
            # None of this batch is of a key that another row of it has.
            if others and _may_be_deleted_since(deletes, sink, lowest):
                changes = _without_deleted_since(last, deletes, sink, lowest)
            if deleted:
                # Before the rows go: a batch that is tried again finds them there.
                _keep_deletes(last.where(is_gone), deleted, deletes, sink)
        same = keys.condition(limits)
        spark.sql(
            f"MERGE INTO delta.`{path}` t USING {{source}} s ON {same} {_clauses(sink)}",
            source=changes,
        )
    finally:
        last.unpersist()


def _last_of_each_key(batch: DataFrame, sink: Sink) -> DataFrame:
    row = F.max_by(F.struct(*batch.columns), _order(sink.order)).alias("row")
    return batch.groupBy(*sink.key).agg(row).select("row.*")


def _order(sequence: Sequence[str], of: str = "") -> Column:
    # Structs compare field by field, and null comes first: rows of a snapshot have none.
    return F.struct(*(F.col(f"{of}`{name}`") for name in sequence))


def _is_deleted(sink: Sink) -> Column:
    if sink.deleted is None:
        return F.lit(False)
    return F.coalesce(F.col(f"`{sink.deleted}`"), F.lit(False))


def _keep_deletes(rows: DataFrame, count: int, folder: Path, sink: Sink) -> None:
    kept = rows.select(*(F.col(f"`{name}`") for name in [*sink.key, *sink.order]))
    if count <= _FEW:
        # Delta's Rust library does in milliseconds what costs Spark half a second.
        write_deltalake(folder, kept.toArrow(), mode="append")
    else:
        kept.coalesce(1).write.format("delta").mode("append").save(str(folder))


def _may_be_deleted_since(folder: Path, sink: Sink, lowest: object | None) -> bool:
    """Whether a kept delete may be later than a change; the files' statistics tell.

    Args:
        folder: The table of deletes.
        sink: The declaration.
        lowest: First column of the lowest sequence of a change that is no delete; null comes
            first.
    """
    if not DeltaTable.is_deltatable(str(folder)):
        return False
    # What Python orders as Spark does.
    if not isinstance(lowest, int | str):
        return True
    files = pa.table(DeltaTable(folder).get_add_actions(flatten=True))
    name = f"max.{sink.order[0]}"
    if name not in files.column_names:
        return True
    return any(highest is None or highest >= lowest for highest in files[name].to_pylist())


def _without_deleted_since(
    rows: DataFrame, folder: Path, sink: Sink, lowest: object | None
) -> DataFrame:
    """Changes whose key was not deleted by a later one.

    Args:
        rows: One change of each key.
        folder: The table of deletes, which is there.
        sink: The declaration.
        lowest: As in :func:`_may_be_deleted_since`.
    """
    deletes = rows.sparkSession.read.format("delta").load(str(folder))
    if lowest is not None:
        # Deletes are kept as they come, so few files hold any that is later.
        deletes = deletes.where(F.col(f"`{sink.order[0]}`") >= F.lit(lowest))
    same = [F.col(f"s.`{name}`").eqNullSafe(F.col(f"d.`{name}`")) for name in sink.key]
    is_older = _order(sink.order, "s.") < _order(sink.order, "d.")
    return rows.alias("s").join(
        deletes.alias("d"), reduce(lambda left, right: left & right, [*same, is_older]), "left_anti"
    )


def _clauses(sink: Sink) -> str:
    ours, theirs = (
        ", ".join(f"{of}.`{name}`" for name in sink.order) for of in ("s", "t")
    )  # fmt: skip
    is_newer = f"struct({ours}) >= struct({theirs})"
    if sink.deleted is None:
        return (
            f"WHEN MATCHED AND {is_newer} THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT *"
        )  # fmt: skip
    is_gone = f"coalesce(s.`{sink.deleted}`, false)"
    if sink.removes_rows:
        return (
            f"WHEN MATCHED AND {is_newer} AND {is_gone} THEN DELETE "
            f"WHEN MATCHED AND {is_newer} THEN UPDATE SET * "
            f"WHEN NOT MATCHED AND NOT {is_gone} THEN INSERT *"
        )
    # A delete may carry nothing but the key: the row stays as it was last seen.
    marks = ", ".join(f"t.`{name}` = s.`{name}`" for name in [sink.deleted, *sink.order])
    return (
        f"WHEN MATCHED AND {is_newer} AND {is_gone} THEN UPDATE SET {marks} "
        f"WHEN MATCHED AND {is_newer} THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
