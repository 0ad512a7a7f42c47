"""Record keys of a captured table: a changed primary key stops the run before that change.

If that is changed, rows that a sink takes for one by its own key may be several. Only the key of a
record shows it, before a change is merged: the envelope does not contain it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sources.common.conversion import BadValue
from sources.decoding.batch_cursor import as_mask
from sources.decoding.changes.declared_table import DeclaredTable
from sources.decoding.changes.renamed_columns import all_names
from sources.decoding.json.shapes import JsonShapes
from sources.decoding.key_document import key_document
from sources.decoding.registered_values import registered_values
from sources.decoding.schema_registry import FRAME_BYTES
from sources.errors import InputError

NEW_START = (
    "take a new snapshot later than this event, into a new folder, and begin a new generation with "
    "it: `hybrid generation new P`"
)
"""What a new snapshot needs, as the end of a sentence."""
# Shapes of keys that are looked for in a batch; what is left is looked at one by one.
_MOST_SHAPES = 8


class RecordKeys:
    """Reader of the key columns that the keys of a captured table's records have.

    Args:
        table: The table as it is declared.

    Raises:
        InputError: The table has a schema registry, and no installed extension decodes its values.
    """

    def __init__(self, table: DeclaredTable) -> None:
        self._table = table.table
        self._old = {
            new: name for name, names in table.renamed_columns.items() for new in all_names(names)
        }
        registry = table.registry
        self._reader = None if registry is None else registered_values().records(registry)

    def names(self, key: bytes | None) -> list[str] | None:
        """Return the names of a record's key columns as they are in ``schema``, sorted.

        None for a record without a key, as of a TRUNCATE, and for a key that can't be parsed.

        Args:
            key: The record's key.

        Raises:
            InputError: The schema registry refuses the login or the request.
            UnavailableError: The schema registry does not answer.
        """
        if key is None:
            return None
        try:
            fields = self._fields(key)
        except (BadValue, ValueError):
            return None
        return sorted(self._old.get(name, name) for name in fields)

    def first_other(
        self, keys: pa.BinaryArray, expected: Sequence[str]
    ) -> tuple[int, InputError] | None:
        """Return index and error of the first record with other key columns; None if all agree.

        The error is returned, so that the records before it are still read.

        Args:
            keys: Keys of records.
            expected: Columns by which rows were identified so far, sorted.

        Raises:
            InputError: The schema registry refuses the login or the request.
            UnavailableError: The schema registry does not answer.
        """
        for at in self._distinct(keys.cast(pa.binary())):
            found = self.names(keys[at].as_py())
            if found is not None and found != [*expected]:
                return at, self._changed(expected, found)
        return None

    def _distinct(self, keys: pa.BinaryArray) -> list[int]:
        """Return indexes of keys such that each other one has the columns of one of them."""
        found: list[int] = []
        left = np.flatnonzero(as_mask(keys.is_valid()))
        some = keys.drop_null()
        if self._reader is not None:
            # A schema id is in front of each.
            ids = pc.binary_slice(some, 0, FRAME_BYTES).dictionary_encode().indices.to_numpy()
            _, firsts = np.unique(ids, return_index=True)
            return sorted(left[firsts].tolist())
        shapes = JsonShapes(some)
        is_left = np.ones(len(left), np.bool_)
        for _ in range(_MOST_SHAPES):
            (others,) = np.nonzero(is_left)
            if not len(others):
                return sorted(found)
            at = int(others[0])
            found.append(int(left[at]))
            is_left &= ~shapes.like(at)
            is_left[at] = False
        return sorted([*found, *left[is_left].tolist()])

    def _fields(self, key: bytes) -> Mapping[str, Any]:
        if self._reader is not None:
            return self._reader.fields(key)
        document = key_document(key)
        if not isinstance(document, dict):
            reason = "the key is not an object"
            raise BadValue(reason)
        return document

    def _changed(self, before: Sequence[str], now: Sequence[str]) -> InputError:
        message = (
            f"The primary key of the source database's table `{self._table}` was changed: changes "
            f"are identified by {_listed(now)} now, and were by {_listed(before)}. Rows that "
            "`sink.key` takes for one may be several. The run stops before this change."
        )
        hint = (
            f"Declare the new key in `sink.key`, and {NEW_START}. If the table's key is the same, "
            "correct `message.key.columns` of the connector."
        )
        return InputError(message, hint, table=str(self._table), field="sink.key")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "no column"
