"""Row rules for Parquet files: staging of rows that break a ``drop`` or ``quarantine`` rule.

Spark leaves them out by a condition, so that no row passes through Python. Which ones they are is
asked once for each listing, before a micro-batch of its files begins: by a batch that reads the
rules' columns, and of these only the row groups whose statistics do not rule it out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.config.table.row_rules import RowRules
from sources.state.state_table import write_state_table
from sources.storage.folder import Folder
from spark_jobs.inside.errors.error_reports import reporting
from spark_jobs.inside.readers.row_rules import FILE, ROW, broken_rows, place_in_file, staged_row
from spark_jobs.inside.readers.staged_bad_records import STAGED


def stage_broken(
    rows: DataFrame, rules: RowRules, columns: Sequence[str], folder: Folder, number: int
) -> None:
    """Stage the rows of a listing of Parquet files that a rule drops or quarantines.

    Run once for each listing by the driver; reads the rules' columns of its files. What an earlier
    try has staged for this listing is deleted first. A row's offset is its number among the rows of
    its file that break a rule, from 0.

    Args:
        rows: Rows of the listing as a batch, with their file (:data:`FILE`).
        rules: The rules.
        columns: The rows' own columns.
        folder: Folder of the micro-batch that they are staged for.
        number: Number of the listing, from 0.

    Raises:
        InputError: Spark can't evaluate a rule.
        StateError: The folder can't be listed or written.
        UnavailableError: The state's store does not answer.
    """
    prefix = f"rules-{number}-"
    for name in folder.names(f"{prefix}*"):
        folder.delete(name)
    # Spark reads files in any order, but each file's rows in theirs.
    in_file = Window.partitionBy(FILE).orderBy(F.monotonically_increasing_id())
    broken = broken_rows(rows, rules).withColumn(ROW, F.row_number().over(in_file) - F.lit(1))
    staged = broken.select(staged_row(rules, place_in_file(columns)).alias("row")).select("row.*")
    staged.mapInArrow(reporting(_writing(folder, prefix)), "rows bigint").collect()


def _writing(
    folder: Folder, prefix: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that writes each batch into a folder, and returns its number of rows."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                table = pa.Table.from_batches([batch.cast(STAGED)])
                write_state_table(folder, f"{prefix}{uuid.uuid4().hex}.parquet", table)
            yield pa.record_batch({"rows": pa.array([batch.num_rows], pa.int64())})

    return write
