"""Renamed columns of a captured table, which keep their name of the ``schema`` in the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from sources.decoding.changes.envelopes import Encoding
from sources.errors import InputError

NewNames = str | list[str]
"""A column's new name; a list, the newest last, if it was renamed several times."""


def all_names(names: NewNames) -> list[str]:
    """Return the declared new names of a column, one or several, as a list, the newest last."""
    return [names] if isinstance(names, str) else names


def check_renamed(
    renamed: Mapping[str, NewNames], known: Collection[str], taken: Collection[str]
) -> None:
    """Refuse new names for a column that is not declared, or that another column has.

    Args:
        renamed: New names of each column.
        known: Columns of the ``schema`` that are in the table.
        taken: Names that other columns have, or had.

    Raises:
        ValueError: Contains the column, and what to correct.
    """
    seen: set[str] = set()
    for name, new in renamed.items():
        if name not in known:
            message = (
                f"`renamed_columns`: no column `{name}` is declared in the `schema`. Write the "
                "name that it has there, then its new name; the declared columns are "
                f"{', '.join(sorted(known))}."
            )
            raise ValueError(message)
        for each in all_names(new):
            if each in taken or each in seen:
                message = (
                    f"`renamed_columns`: `{each}`, the new name of column `{name}`, is the name of "
                    "another column, so that a change does not show which one it holds. Begin a "
                    "new generation with a new snapshot: `hybrid generation new P`."
                )
                raise ValueError(message)
            seen.add(each)


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
            message = (
                f"A change of the source database's table `{self._table}` has column `{twice}` and "
                "a column that is declared as its new name. The run stops before this change."
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
