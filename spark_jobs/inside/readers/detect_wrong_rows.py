"""Rows of a mirror that a bad change left wrong: recorded per batch, repaired by good changes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from sources.config.pipeline import Pipeline
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.readers.staged_bad_records import staging_folder
from spark_jobs.inside.readers.topics.decode_records import KEY, REPAIRED, repaired_record
from spark_jobs.run_state.wrong_rows import Change, keep_wrong_rows, read_wrong_rows

BatchFunction = Callable[[DataFrame, int], None]
_COLUMNS = ["partition", "offset", "key", "kind"]


@dataclass(frozen=True)
class RepairWatch:
    """Recognizes, in a task, good changes of rows of the mirror that a bad change left wrong.

    Attributes:
        generation: State folder of the generation.
        source: Name of the source.
        unchanged: Column that names the values that a change lacks, which does not repair these;
            None if there is none.
    """

    generation: Folder
    source: str
    unchanged: str | None

    def wrong_keys(self) -> set[bytes]:
        """Return the record keys of wrong rows, from the generation's state; empty for none.

        Raises:
            StateError: A document of the wrong rows is damaged.
            UnavailableError: The state's store does not answer.
        """
        return read_wrong_rows(self.generation, self.source).record_keys

    def staged(self, good: pa.RecordBatch, wrong: Collection[bytes]) -> pa.RecordBatch:
        """Return those of some good changes that repair rows with given keys, to be staged.

        A change that lacks values repairs nothing.

        Args:
            good: Changes that were read.
            wrong: Record keys of rows that are wrong, or may be.

        Returns:
            Rows with the columns of ``STAGED``; empty if there are none.
        """
        keys = good.column(KEY).cast(pa.binary())
        found = pc.is_in(keys, value_set=pa.array(list(wrong), pa.binary()))
        if self.unchanged is not None:
            found = pc.and_(found, pc.is_null(good.column(self.unchanged)))
        return repaired_record(good.filter(found))


def keeping_wrong_rows(
    write: BatchFunction, pipeline: Pipeline, generation: Generation
) -> BatchFunction:
    """Wrap a ``foreachBatch`` function so that it also records the rows that a batch left wrong.

    They are recorded after the batch is written, before Spark commits it: the tasks of the next one
    need them. Without mirrored topics the function is returned as it is.

    Args:
        write: Writes a micro-batch.
        pipeline: Declares which topics are mirrored though records of them may be bad.
        generation: State of the generation.

    Returns:
        The function, which also raises StateError if the state can't be read or written, and
        UnavailableError if its store does not answer.
    """
    sources = [topic.name for topic in pipeline.mirrors_that_leave_out_changes]

    def write_and_keep(batch: DataFrame, batch_id: int) -> None:
        write(batch, batch_id)
        for source in sources:
            folder = staging_folder(generation, source)
            staged = [
                pq.read_table(pa.BufferReader(folder.read_bytes(name)), columns=_COLUMNS)
                for name in folder.names(f"{batch_id}/*.parquet")
            ]
            if staged:
                rows = pa.concat_tables(staged).to_pylist()
                # A good change whose event time is out of bounds is staged twice, and repairs none.
                bad = {(row["partition"], row["offset"]) for row in rows if row["kind"] != REPAIRED}
                changes = [
                    Change(
                        row["partition"],
                        row["offset"],
                        row["key"],
                        (row["partition"], row["offset"]) in bad,
                    )
                    for row in rows
                ]
                keep_wrong_rows(generation, source, batch_id, changes)

    return write_and_keep if sources else write
