"""Cache of rows as Parquet next to the checkpoint: who publishes first wins; gone files refused.

A document names the folder of files that counts. It is written after they are, unless another
process was first, so that what a crash leaves half-written is never read.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.types import StructType

from sources.common.state_document import Record
from sources.errors import StateError
from sources.storage.folder import Folder


class KeptRows(Record):
    """Cached rows: Parquet in the state folder, by a document with their folder and number.

    Attributes:
        folder: Name of the folder of the files, next to the document.
        rows: Number of rows.
    """

    folder: str
    rows: int

    def read(
        self, spark: SparkSession, place: Folder, schema: StructType | None = None
    ) -> DataFrame:
        """Return the kept rows as a DataFrame over the Parquet file.

        Args:
            spark: The Spark session.
            place: Folder of the state in which they were found.
            schema: Their columns; if left out, a Spark job asks the file for them.
        """
        reader = spark.read if schema is None else spark.read.schema(schema)
        return reader.parquet(place.folder(self.folder).hadoop_path)

    def columns(self, place: Folder, names: Sequence[str]) -> pa.Table:
        """Return columns of the rows, read by this process; Spark has written one file at least.

        Args:
            place: The folder that they were found in.
            names: Names of the columns.

        Raises:
            StateError: A file can't be read.
            UnavailableError: The state's store does not answer.
        """
        folder = place.folder(self.folder)
        found = (folder.read_bytes(name) for name in folder.names("*.parquet"))
        files = [pa.BufferReader(data) for data in found if data is not None]
        return pa.concat_tables(pq.read_table(file, columns=[*names]) for file in files)


def find_kept(place: Folder, name: str) -> KeptRows | None:
    """Return the cached rows that are published under a name; None if there are none.

    Args:
        place: A folder of the state.
        name: Name, such as ``keys``.

    Raises:
        StateError: Their document is damaged, or of an unknown version; or their files are gone.
        UnavailableError: The state's store does not answer.
    """
    kept = place.read(f"{name}.json", KeptRows)
    if kept is not None and not place.folder(kept.folder).names("*.parquet"):
        # Spark would read an empty folder as no rows: what history has would come once more.
        where = place.folder(kept.folder).url
        message = f"Rows of history, without which some would be written twice, are gone: {where}."
        hint = "Restore that folder, or begin a new generation: `hybrid generation new P`."
        raise StateError(message, hint, file=where)
    return kept


def write_rows(place: Folder, name: str, rows: DataFrame) -> KeptRows:
    """Write a batch's rows to the cache: a Parquet file in a new folder, which nobody finds yet.

    :func:`publish_rows` makes them visible.

    Args:
        place: A folder of the state.
        name: Name of the rows, with which the folder's name begins.
        rows: A batch DataFrame, which is evaluated.
    """
    folder = f"{name}-{uuid.uuid4().hex}"
    counted = Observation()
    seen = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
    seen.coalesce(1).write.parquet(place.folder(folder).hadoop_path)
    return KeptRows(folder=folder, rows=counted.get["rows"])


def write_table(place: Folder, name: str, rows: pa.Table) -> KeptRows:
    """Write rows that this process has to the cache, in a new folder, as :func:`write_rows` does.

    Args:
        place: A folder of the state.
        name: Name of the rows, with which the folder's name begins.
        rows: The rows.

    Raises:
        UnavailableError: The state's store does not answer.
    """
    folder = f"{name}-{uuid.uuid4().hex}"
    written = pa.BufferOutputStream()
    pq.write_table(rows, written)
    place.folder(folder).replace_bytes("rows.parquet", written.getvalue().to_pybytes())
    return KeptRows(folder=folder, rows=len(rows))


def publish_rows(place: Folder, name: str, written: KeptRows) -> KeptRows:
    """Publish cached rows under a name, unless it is taken; return the rows that have the name.

    Args:
        place: A folder of the state.
        name: The name.
        written: The result of :func:`write_rows`.

    Returns:
        The rows that are found there now; if these are others, ``written`` is deleted.

    Raises:
        StateError: The document can't be written, or the one that is there is damaged.
        UnavailableError: The state's store does not answer.
    """
    kept = place.put_if_absent(f"{name}.json", written)
    if kept != written:
        place.folder(written.folder).delete_all()
    return kept
