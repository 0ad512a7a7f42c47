"""Rows of a Delta table by the files that they are in, and the removal of such a file."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaProtocolError
from deltalake.transaction import RemoveAction
from pyarrow.dataset import FileSystemDataset

from sources.errors import StateError
from sources.storage.tables.delta import dataset_of


class FileReader:
    """Reader of the rows of single files of a Delta table, at the version that was opened.

    Args:
        table: The table.

    Raises:
        StateError: The table has deletion vectors or mapped columns, so that files alone do not
            tell its rows.
    """

    def __init__(self, table: DeltaTable) -> None:
        try:
            self._all = dataset_of(table)
        except DeltaProtocolError:
            raise _is_told_by_more(table) from None
        self._files = {fragment.path: fragment for fragment in self._all.get_fragments()}

    def rows(self, row: dict[str, Any], columns: Iterable[str] | None = None) -> pa.Table:
        """Read the rows of one file of the table, in its order, partition columns included.

        Args:
            row: The file's row in ``DeltaTable.get_add_actions``.
            columns: Names of the columns to read; None for all.
        """
        fragment = self._files[unquote(row["path"])]
        single = FileSystemDataset(
            [fragment], self._all.schema, self._all.format, self._all.filesystem
        )
        return single.to_table(columns=None if columns is None else list(columns))


def _is_told_by_more(table: DeltaTable) -> StateError:
    """Return the error about a table whose files alone do not tell its rows."""
    names = ", ".join(table.protocol().reader_features or ()) or "columnMapping"
    message = (
        f"The table {table.table_uri} has features of Delta by which its files alone do not tell "
        f"its rows ({names}), so no rows of single files can be exchanged. Nothing was replaced."
    )
    hint = "Recompute the whole table as a new generation: `hybrid rerun P`."
    return StateError(message, hint, table=table.table_uri)


def remove_action(row: dict[str, Any]) -> RemoveAction:
    """Make the action of the Delta log that removes a file from its table; nothing is deleted.

    Args:
        row: The file's row in ``DeltaTable.get_add_actions``.
    """
    return RemoveAction(
        path=unquote(row["path"]),
        data_change=True,
        deletion_timestamp=int(time.time() * 1000),
        size=row["size_bytes"],
    )
