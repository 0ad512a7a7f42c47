"""A reader of files that changes what another one reads."""

from __future__ import annotations

import pyarrow as pa

from sources.formats.base import Format


class WrappedFormat:
    """Part of a :class:`sources.formats.base.Format` that is that of another one.

    Args:
        form: The other reader.
    """

    def __init__(self, form: Format) -> None:
        self._form = form
        self.title, self.splits, self.checks = form.title, form.splits, form.checks

    def columns(self, file: pa.NativeFile) -> pa.Schema | None:
        """Return the columns, as :meth:`sources.formats.base.Format.columns` does.

        Raises:
            InputError: Spark has no type for a column.
            pyarrow.ArrowException: The file is damaged.
        """
        return self._form.columns(file)

    def rows(self, file: pa.NativeFile) -> int | None:
        """Return the number of rows, as :meth:`sources.formats.base.Format.rows` does.

        Raises:
            pyarrow.ArrowException: The file is damaged.
        """
        return self._form.rows(file)
