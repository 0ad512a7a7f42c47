"""Renamed columns of a captured table: changes are read under the names of the ``schema``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sources.decoding.changes.envelopes import Encoding
from sources.decoding.changes.renamed_columns import NewNames, all_names
from sources.errors import InputError


class Renaming:
    """Renames the columns of changes back to their names in ``schema``, which the target keeps.

    Args:
        table: The captured table, for messages.
        renamed: New names of each column, by its name in ``schema``.
        new_start: How to begin again with a new snapshot: the end of a sentence of a hint.
    """

    def __init__(self, table: str, renamed: Mapping[str, NewNames], new_start: str) -> None:
        self._table, self._new_start = table, new_start
        self._old = {new: name for name, names in renamed.items() for new in all_names(names)}
        # Records that share a schema share the object.
        self._before: Mapping[str, Encoding] = {}
        self._after: Mapping[str, Encoding] = {}

    def apply(
        self, row: Mapping[str, Any], encodings: Mapping[str, Encoding]
    ) -> tuple[Mapping[str, Any], Mapping[str, Encoding]]:
        """Return a row and the encodings of its columns, under the names of ``schema``.

        The arguments themselves are returned if no column has a new name.

        Args:
            row: Columns of a change by name, from before or after they were renamed.
            encodings: How each column is encoded, by the same names.

        Raises:
            InputError: The row has a column under two of its names.
        """
        if self._old.keys().isdisjoint(row):
            return row, encodings
        found = {self._old.get(name, name): value for name, value in row.items()}
        if len(found) < len(row):
            counts = Counter(self._old.get(name, name) for name in row)
            twice = counts.most_common(1)[0][0]
            both = [name for name in row if self._old.get(name, name) == twice]
            message = (
                f"A change of the source database's table `{self._table}` has the columns "
                f"{' and '.join(f'`{each}`' for each in both)}, which `renamed_columns` "
                "declares as names of one. The run stops before this change."
            )
            hint = (
                "If the column was not renamed, correct `renamed_columns`. If it was, and another "
                f"one was added under the old name: {self._new_start}."
            )
            raise InputError(message, hint, table=self._table, column=twice)
        if encodings is not self._before:
            self._before = encodings
            self._after = {self._old.get(name, name): each for name, each in encodings.items()}
        return found, self._after
