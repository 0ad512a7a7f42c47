"""Interface of a value format: its declared fields, and its decoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Self

from sources.common.fields import Declared
from sources.decoding.base import FieldReader
from sources.decoding.changes.declared_table import DeclaredTable
from sources.decoding.record_columns import EnvelopePart, RecordColumns
from sources.decoding.schema_registry import Registry


class ValueFormat(Declared):
    """Format of a record's value: the fields that have a meaning with it alone.

    A subclass adds those fields. In the YAML file they stand beside the fields of the source. Code
    that reads records asks these questions instead of asking which format it is.

    Attributes:
        format: Name of the format, as declared; a subclass gives it its literal.
        title: Name of the format for people.
        parser: What parses values in a run: the decoder of :meth:`reader`; the JSON parsers of
            Spark and Arrow; or nothing, as a column holds the bytes.
        has_tombstones: Whether a record without a value is no row, and not bad either.
        parts: What ``include`` may name besides the parts of every Kafka record.
        own_columns: Columns that all values have, and their Spark SQL types; None if they have to
            be declared.
    """

    title: ClassVar[str]
    parser: ClassVar[Literal["decoder", "json", "none"]] = "decoder"
    has_tombstones: ClassVar[bool] = False
    parts: ClassVar[frozenset[EnvelopePart]] = frozenset()
    own_columns: ClassVar[Mapping[str, str] | None] = None

    format: str

    @property
    def extras(self) -> Sequence[tuple[str, str]]:
        """Extras of this project that reading needs, each with what needs it; by default none."""
        return []

    @property
    def changes(self) -> DeclaredTable | None:
        """The table that the values are changes of; None if they are rows."""
        return None

    @property
    def key_registry(self) -> Registry | None:
        """The schema registry of the ids in front of records' keys; None if these have none."""
        return None

    def check(self, columns: RecordColumns) -> None:
        """Refuse columns that values of this format can't provide; by default nothing.

        Called while the declaration is validated.

        Args:
            columns: The declared columns.

        Raises:
            ValueError: Contains what is wrong, and what to declare.
        """

    def reader(self, columns: RecordColumns) -> FieldReader:
        """Build the decoder of values, on the driver; subclasses have to override this.

        Args:
            columns: The declared columns.

        Raises:
            InputError: A file of the declaration can't be read or used; or a library of the format
                is not installed.
        """
        raise NotImplementedError

    def contract(self) -> dict[str, object]:
        """Return the declared fields that decide what a value means, as JSON; by default none.

        They must not change under a checkpoint. Return a field that a later version adds only where
        it is declared, so that the digests of older states stay valid.
        """
        return {}

    def located(self, _locate: Callable[[str], str]) -> Self:
        """Return a copy in which paths are absolute; by default the same, as there are none.

        Args:
            _locate: Makes a path absolute that is relative to the pipeline's file.
        """
        return self
