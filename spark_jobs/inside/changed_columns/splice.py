"""Putting columns of two Parquet files together, as they are stored, by Parquet's own writer.

The bytes of each column chunk are copied, with its statistics, indexes and bloom filter; nothing is
decoded (``ParquetFileWriter.appendColumnChunk`` of https://github.com/apache/parquet-java). Not by
its ``ParquetRewriter``: of a file that is joined to another one, version 1.17.0 writes the first
row group again in place of each following one.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sources.errors import RunError

# Parquet's defaults, which concern what is written here only where an index has to be shortened.
_INDEX_BYTES, _STATISTICS_BYTES = 64, 2**31 - 1
_GROUP_BYTES, _PADDING_BYTES = 128 << 20, 0


def splice(
    spark: SparkSession, file: Path, columns: Path | None, dropped: Collection[str], target: Path
) -> int:
    """Write a Parquet file with the columns of one file and those of another one.

    Args:
        spark: The Spark session, in whose JVM it is done.
        file: The file whose columns are kept.
        columns: The file whose columns replace those of the same name, or are added; with row
            groups of the same sizes. None to only drop columns.
        dropped: Names of columns of ``file`` that are left out.
        target: The file that is written, over an existing one.

    Returns:
        Its size in bytes.

    Raises:
        RunError: The row groups differ.
        Py4JJavaError: A file can't be read or written.
    """
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    with ExitStack() as stack:
        sides = [_Side(jvm, conf, each, stack) for each in (file, columns) if each is not None]
        if any(side.rows != sides[0].rows for side in sides):
            message = f"The row groups of {columns} are not those of {file}. Nothing was committed."
            raise RunError(message, "Run the pipeline again: `hybrid run P`.", file=str(file))
        taken = set(dropped)
        # The last one takes precedence.
        for side in reversed(sides):
            side.take(taken)
            taken |= side.names
        fields = jvm.java.util.ArrayList()
        for side in sides:
            for field in side.fields:
                fields.add(field)
        schema = jvm.org.apache.parquet.schema.MessageType("spark_schema", fields)
        hadoop = jvm.org.apache.parquet.hadoop
        writer = hadoop.ParquetFileWriter(
            hadoop.util.HadoopOutputFile.fromPath(_path(jvm, target), conf),
            schema,
            getattr(hadoop, "ParquetFileWriter$Mode").OVERWRITE,
            _GROUP_BYTES,
            _PADDING_BYTES,
            _INDEX_BYTES,
            _STATISTICS_BYTES,
            True,
        )
        stack.callback(writer.close)
        writer.start()
        for number, rows in enumerate(sides[0].rows):
            writer.startBlock(rows)
            for side in sides:
                side.copy(number, schema, writer)
            writer.endBlock()
        # What the footers say besides describes the columns of the one or of the other.
        writer.end(jvm.java.util.HashMap())
    return target.stat().st_size


class _Side:
    """One of the files that columns are taken from.

    Args:
        jvm: Spark's JVM.
        conf: Hadoop's settings.
        file: The file.
        stack: Closes it.

    Attributes:
        rows: Number of rows of each row group.
        fields: Its top-level fields that are taken.
    """

    def __init__(self, jvm: Any, conf: Any, file: Path, stack: ExitStack) -> None:
        hadoop = jvm.org.apache.parquet.hadoop
        given = hadoop.util.HadoopInputFile.fromPath(_path(jvm, file), conf)
        self._reader = hadoop.ParquetFileReader.open(given)
        stack.callback(self._reader.close)
        self._stream = given.newStream()
        stack.callback(self._stream.close)
        footer = self._reader.getFooter()
        self._blocks = list(footer.getBlocks())
        self.rows = [block.getRowCount() for block in self._blocks]
        self.fields = list(footer.getFileMetaData().getSchema().getFields())

    @property
    def names(self) -> set[str]:
        """Names of the fields that are taken."""
        return {str(field.getName()) for field in self.fields}

    def take(self, but: Collection[str]) -> None:
        """Take all fields but those with some names."""
        self.fields = [field for field in self.fields if field.getName() not in but]

    def copy(self, number: int, schema: Any, writer: Any) -> None:
        """Append the chunks of a row group to the file that is written."""
        names = self.names
        for chunk in self._blocks[number].getColumns():
            path = chunk.getPath().toArray()
            if path[0] in names:
                writer.appendColumnChunk(
                    schema.getColumnDescription(path),
                    self._stream,
                    chunk,
                    self._reader.readBloomFilter(chunk),
                    self._reader.readColumnIndex(chunk),
                    self._reader.readOffsetIndex(chunk),
                )


def _path(jvm: Any, file: Path) -> Any:
    return jvm.org.apache.hadoop.fs.Path(f"file://{file}")
