"""Declaration of `format: debezium` of a topic: what may not change under a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Self, get_args

from pydantic import field_validator

from hybrid_extensions.cdc.debezium.table_checks import check_columns
from hybrid_extensions.cdc.debezium.unchanged_long_values import Placeholder
from sources.decoding.base import FieldReader
from sources.decoding.changes.declared_table import DeclaredTable
from sources.decoding.record_columns import EnvelopePart, RecordColumns
from sources.decoding.value_formats.base import ValueFormat


class DebeziumValues(DeclaredTable, ValueFormat):
    """Declaration of a topic whose values are Debezium's change envelopes, in JSON or Avro."""

    title = "Debezium"
    # Debezium writes them for compaction, after a delete, which says all.
    has_tombstones = True
    parts = frozenset(get_args(EnvelopePart))

    format: Literal["debezium"]

    @field_validator("unavailable_value_placeholder")
    @classmethod
    def _is_a_placeholder(cls, declared: str) -> str:
        try:
            Placeholder(declared)
        except ValueError:
            message = (
                f"`{declared}` is not a placeholder: what follows `hex:` has to be an even number "
                "of hexadecimal digits. Write it as in the connector's configuration."
            )
            raise ValueError(message) from None
        return declared

    @property
    def extras(self) -> Sequence[tuple[str, str]]:
        """Extras of the schema registry, each with what needs it; empty without a registry."""
        return [] if self.registry is None else self.registry.extras

    @property
    def changes(self) -> DeclaredTable:
        """The table that the values are changes of."""
        return self

    def check(self, columns: RecordColumns) -> None:
        """Refuse a topic without ``schema``, and declared changes of columns that do not fit it.

        Raises:
            ValueError: Contains the column, and what to correct.
        """
        check_columns(self, columns)

    def reader(self, columns: RecordColumns) -> FieldReader:
        """Build the decoder of change events; a registry is asked only when values are decoded.

        Args:
            columns: Columns of a record, with the parts of the envelope that fill them.
        """
        # Few need it.
        from hybrid_extensions.cdc.debezium.change_reader import DebeziumReader  # noqa: PLC0415

        return DebeziumReader(self, columns)

    def contract(self) -> dict[str, object]:
        """Return the declared values that decide what a change means, by name.

        They are the table, whether a schema id is in front of values (``framed``), and how bytes
        are written as text, if that is not base64.
        """
        found: dict[str, object] = {"table": self.table}
        if self.registry is not None:
            found["framed"] = True
        # `bytes` and `base64` mean what is the default.
        if self.binary_handling_mode in ("base64-url-safe", "hex"):
            found["binary"] = self.binary_handling_mode
        return found

    def located(self, locate: Callable[[str], str]) -> Self:
        """Return a copy with absolute paths of the registry's TLS files.

        Itself without a registry.
        """
        if self.registry is None:
            return self
        return self.model_copy(update={"registry": self.registry.located(locate)})


FORMATS = {"debezium": DebeziumValues}
