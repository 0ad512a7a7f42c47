"""Drifted files, whose columns differ: read as the common ones, by this project's own readers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from sources.config.source.file_options import SchemaDrift
from sources.files.columns.schema_drift import default_of
from sources.formats.arrow_columns import in_columns
from sources.formats.base import Format
from sources.formats.file_regions import Region
from sources.formats.lines import OnBad, refuse
from sources.formats.row_check import RowCheck
from sources.formats.wrapping_reader import WrappedFormat


class DriftedFiles(WrappedFormat):
    """Reader of files whose columns differ from file to file (``schema_drift``).

    Implements :class:`sources.formats.base.Format` around the reader of one format: reads each file
    by its own columns, and renames and fills them to the common ones.

    Args:
        form: Reader of the format.
        drift: Declared names and defaults of differing columns.
    """

    def __init__(self, form: Format, drift: SchemaDrift) -> None:
        super().__init__(form)
        self._drift = drift

    def read(
        self,
        file: pa.NativeFile,
        region: Region,
        columns: pa.Schema,
        bad: OnBad = refuse,
        check: RowCheck | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a byte region as the common columns, whatever columns the file has.

        A column that the file lacks has its declared default, or is null; others of the file are
        left out.

        Yields:
            Batches with exactly ``columns``, in the order of the file.

        Raises:
            InputError: A default is not a value of its column's type.
            pyarrow.ArrowException: The file is damaged, or a value does not fit its column.
        """
        own = self._form.columns(file)
        assert own is not None
        names = {self._drift.renamed.get(name, name): name for name in own.names}
        inside = [own.field(names[field.name]) for field in columns if field.name in names]
        for rows in self._form.read(file, region, pa.schema(inside), bad, check):
            values = {
                field.name: partial(rows.column, names[field.name])
                if field.name in names
                else partial(self._missing, field, rows.num_rows)
                for field in columns
            }
            yield in_columns(rows.num_rows, values, columns)

    def _missing(self, field: pa.Field, rows: int) -> pa.Array:
        default = default_of(self._drift, field.name, field.type)
        return pa.repeat(pa.scalar(default, field.type), rows)
