"""Computing changed columns by Spark tasks: one Parquet file of them for each file of the table.

Each has the rows of the table's file in the same order and in row groups of the same sizes, so that
the columns of both can be put together without decoding them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.types import StructType

from sources.errors import RunError
from spark_jobs.inside.changed_columns.difference import Computed

# Above the size of any file: each file is then one task, and its rows arrive in order.
_WHOLE_FILES = dict.fromkeys(
    ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"), str(1 << 48)
)
_GLOB = re.compile(r"([\\*?\[\]{}])")
_FILE, _ROW = "__file", "__row"
_WRITTEN = "`path` string, `columns` string, `rows` bigint"


class WrittenColumns(NamedTuple):
    """The changed columns of one file of the table.

    Attributes:
        path: Path of the table's file, relative to the table's folder.
        columns: Path of the Parquet file with its changed columns.
        rows: Number of rows.
    """

    path: str
    columns: str
    rows: int


def read_as_they_are(spark: SparkSession, paths: Sequence[Path], schema: StructType) -> DataFrame:
    """Return the rows of Parquet files by their paths, in which no character has a meaning.

    Args:
        spark: The Spark session.
        paths: The files.
        schema: Columns that are read; one that a file lacks is null.
    """
    return spark.read.schema(schema).parquet(*(_GLOB.sub(r"\\\1", str(path)) for path in paths))


def compute_columns(
    table: DataFrame,
    computed: Sequence[Computed],
    root: Path,
    folder: Path,
    groups: Mapping[str, Sequence[int]],
) -> list[WrittenColumns]:
    """Compute columns for all files of a table, by one Spark job.

    Args:
        table: The rows of the table's files.
        computed: The columns as expressions over the table.
        root: Folder of the table.
        folder: Folder for the files of columns; it exists.
        groups: Sizes of the row groups of each file, by its path relative to the table's folder.

    Raises:
        RunError: Rows did not arrive in the order of their file, or not all of them.
    """
    rows = table.select(
        F.col("_metadata.file_path").alias(_FILE),
        F.col("_metadata.row_index").alias(_ROW),
        *(each.value.alias(each.name) for each in computed),
    )
    write = column_writer(root, folder, groups)
    with _settings(table.sparkSession, _WHOLE_FILES):
        written = [WrittenColumns(*row) for row in rows.mapInArrow(write, _WRITTEN).collect()]
    lacking = groups.keys() - {each.path for each in written}
    if lacking or len(written) != len(groups):
        raise _disordered(min(lacking, default=""))
    return written


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set properties of a session for the body of ``with``."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            spark.conf.set(name, str(known))


def column_writer(
    root: Path, folder: Path, groups: Mapping[str, Sequence[int]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a Spark task that writes the columns of the files that it gets.

    Its batches have the file's URI, the row's number in the file, then the columns.

    Args:
        root: Folder of the table.
        folder: Folder for the files of columns.
        groups: Sizes of the row groups of each file, by its path relative to ``root``.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        current: _ColumnsFile | None = None
        for batch in batches:
            for path, part in _by_file(batch, root):
                if current is None or current.path != path:
                    if current is not None:
                        yield current.close()
                    current = _ColumnsFile(path, folder, groups[path], part.schema)
                current.add(part)
        if current is not None:
            yield current.close()

    return write


def _by_file(batch: pa.RecordBatch, root: Path) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the parts of a batch that are of one file each, with the file's path in the table."""
    runs = pc.run_end_encode(batch.column(_FILE))
    begin = 0
    for end, uri in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        path = Path(unquote(urlparse(uri).path)).relative_to(root)
        yield str(path), batch.slice(begin, end - begin).drop_columns([_FILE])
        begin = end


class _ColumnsFile:
    """File of columns that is being written, group by group.

    Args:
        path: Path of the table's file in the table.
        folder: Folder of the file of columns.
        groups: Sizes of the row groups.
        schema: Schema of the batches.
    """

    def __init__(self, path: str, folder: Path, groups: Sequence[int], schema: pa.Schema) -> None:
        self.path = path
        self._groups = list(groups)
        self._target = folder / f"{uuid.uuid4().hex}.parquet"
        columns = schema.remove(schema.get_field_index(_ROW))
        # Without Arrow's own schema, which would describe these columns only.
        self._writer = pq.ParquetWriter(self._target, columns, store_schema=False)
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows, which have to follow those before them in the file."""
        expected = np.arange(self._rows, self._rows + batch.num_rows)
        if not np.array_equal(batch.column(_ROW).to_numpy(), expected):
            raise _disordered(self.path)
        self._rows += batch.num_rows
        self._held.append(batch.drop_columns([_ROW]))
        while self._groups and sum(each.num_rows for each in self._held) >= self._groups[0]:
            size = self._groups.pop(0)
            held = pa.Table.from_batches(self._held)
            self._writer.write_table(held.slice(0, size), row_group_size=max(size, 1))
            self._held = held.slice(size).to_batches()

    def close(self) -> pa.RecordBatch:
        """End the file; return its row for the driver."""
        self._writer.close()
        if self._groups or self._held:
            raise _disordered(self.path)
        row = {"path": [self.path], "columns": [str(self._target)], "rows": [self._rows]}
        return pa.RecordBatch.from_pydict(row)


def _disordered(path: str) -> RunError:
    message = (
        f"The rows of {path or 'the table'} did not arrive as they are in the file, so columns "
        "can't be put beside them. Nothing was committed."
    )
    hint = "Run the pipeline again: `hybrid run P`. If it fails again, compute all columns."
    return RunError(message, hint, file=path)
