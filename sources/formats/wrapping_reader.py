"""Base of wrapping file readers, which modify what another reader returns."""

from __future__ import annotations

import pyarrow as pa

from sources.formats.base import Format


class WrappedFormat:
    """Base of readers that modify what another reader returns; delegates all but ``read``.

    Args:
        form: The other reader.
    """

    def __init__(self, form: Format) -> None:
        self._form = form
        self.title, self.splits, self.checks = form.title, form.splits, form.checks

    def columns(self, file: pa.NativeFile) -> pa.Schema | None:
        """Return the columns that the wrapped reader finds in a file; None if it finds none.

        Raises:
            InputError: Spark has no type for a column.
            pyarrow.ArrowException: The file is damaged.
        """
        return self._form.columns(file)

    def rows(self, file: pa.NativeFile) -> int | None:
        """Return the number of rows as the wrapped format's reader knows it, without reading rows.

        None if files of this format do not record it.

        Raises:
            pyarrow.ArrowException: The file is damaged.
        """
        return self._form.rows(file)
