"""Declaration of a captured table: TRUNCATE, columns added, dropped, widened, renamed, emptied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from sources.common.fields import Columns, Declared
from sources.decoding.changes.added_columns import AddedColumnOrType, types_of
from sources.decoding.changes.renamed_columns import NewNames, all_names
from sources.decoding.changes.schema_policies import ALL_STOP, FOLLOWED, SchemaPolicies
from sources.decoding.changes.widened_columns import with_widened_types
from sources.decoding.schema_registry import Registry

BinaryMode = Literal["bytes", "base64", "base64-url-safe", "hex"]
"""The connector's ``binary.handling.mode``."""


class DeclaredTable(Declared):
    """A database table whose changes a topic holds.

    Attributes:
        registry: The schema registry of the ids in front of the values, where envelopes are Avro
            rather than JSON.
        table: The table that the changes are of, ``schema.table``; for MySQL ``database.table``.
        ignored_columns: Columns of the table that are left out. A column that is neither here nor
            in the ``schema`` or ``added_columns`` was added later: ``on_schema_change`` decides,
            and by default the run stops.
        added_columns: Columns that the table got after the ``schema`` was written, by name: a
            type, or ``{type: …, default: …}``. May be declared while a generation is in use: the
            target gets the columns, and its older rows the defaults.
        dropped_columns: Declared columns that the table no longer has; null in changes without
            them, while older rows keep their values. May be declared while a generation is in use.
        widened_columns: New types of columns that the table has widened after the ``schema`` was
            written, by name, such as ``{amount: "decimal(14,2)"}``: integers to wider ones,
            ``float`` to ``double``, decimals to ones with as many or more digits before and after
            the point. May be declared while a generation is in use: the target is rewritten with
            the new type, in one commit. No columns of ``sink.key``.
        renamed_columns: New names of columns that the table has renamed after the ``schema`` was
            written, by the name there, such as ``{name: full_name}``; a list, the newest last, of
            a column that was renamed several times. The target keeps the name of the ``schema``.
            May be declared while a generation is in use.
        on_truncate: What a TRUNCATE of the table does: ``stop`` ends the run before it, ``follow``
            removes all older rows from a target that merges changes. ``stop`` by default. May be
            declared while a generation is in use.
        emptied_columns: Declared columns that the table no longer has, and that are null in all
            rows of the target. May be declared while a generation is in use: the target loses
            their values, in one commit. Needs a sink that merges changes.
        on_schema_change: What happens when columns of the table change, by event, such as
            ``{added: follow, dropped: ignore}``; events that are not named are ``stop``, which ends
            the run before the first such change, and names what to declare. ``follow`` stops, too,
            where it can't be exact. ``follow`` alone is ``{added: follow, widened: follow}``.
            ``stop`` by default. All but ``added: ignore`` need a source with a ``snapshot`` before
            it, and ``follow`` a sink that merges changes. May be declared while a generation is in
            use.
        unavailable_value_placeholder: The connector's ``unavailable.value.placeholder``, which
            stands for a long value that an update left as it was. May be declared while a
            generation is in use.
        binary_handling_mode: The connector's ``binary.handling.mode``, for columns of type
            ``binary``: ``bytes`` and ``base64`` are base64 in JSON, ``base64-url-safe`` and
            ``hex`` texts of these forms. Left out, texts are base64, and one that may be
            hexadecimal makes a bad record.
    """

    registry: Registry | None = None
    table: str
    ignored_columns: list[str] = Field(default_factory=list)
    added_columns: dict[str, AddedColumnOrType] = Field(default_factory=dict)
    dropped_columns: list[str] = Field(default_factory=list)
    widened_columns: Columns = Field(default_factory=dict)
    renamed_columns: dict[str, NewNames] = Field(default_factory=dict)
    on_truncate: Literal["stop", "follow"] = "stop"
    emptied_columns: list[str] = Field(default_factory=list)
    on_schema_change: Literal["stop", "follow"] | SchemaPolicies = "stop"
    unavailable_value_placeholder: str = "__debezium_unavailable_value"
    binary_handling_mode: BinaryMode | None = None

    @model_validator(mode="before")
    @classmethod
    def _names_the_table(cls, given: Any) -> Any:
        if isinstance(given, dict) and "table" not in given:
            raise ValueError(lacking("table"))
        return given

    @property
    def follows_truncates(self) -> bool:
        """Whether a TRUNCATE removes the target's older rows."""
        return self.on_truncate == "follow"

    @property
    def policies(self) -> SchemaPolicies:
        """What a run does at each kind of change of the table's columns.

        ``on_schema_change`` in full: ``stop`` is that for all, ``follow`` that for added and
        widened columns alone.
        """
        if isinstance(self.on_schema_change, SchemaPolicies):
            return self.on_schema_change
        return FOLLOWED if self.on_schema_change == "follow" else ALL_STOP

    @property
    def gone_columns(self) -> list[str]:
        """Declared columns that the table no longer has; computed, may be empty."""
        return [*self.dropped_columns, *self.emptied_columns]

    @property
    def added_types(self) -> dict[str, str]:
        """Spark SQL types of the columns in ``added_columns``, by name; computed, may be empty."""
        return types_of(self.added_columns)

    def current(self, columns: Mapping[str, str]) -> dict[str, str]:
        """Return the columns that the table has now: with added columns and widened types.

        Columns that it lost are kept.

        Args:
            columns: Names and Spark SQL types of the columns when the generation began.
        """
        return {**with_widened_types(columns, self.widened_columns), **self.added_types}

    def name_in_table(self, column: str) -> str:
        """Return the name that a column of ``schema`` has in the database now, after renaming.

        The column itself if it was not renamed; whether there is such a column is not checked.
        """
        return all_names(self.renamed_columns.get(column, column))[-1]


def lacking(field: str) -> str:
    """Return the message that a captured table is declared without a field, such as ``table``."""
    return (
        "`format: debezium` needs a `schema`, and the `table`, such as `public.orders`. "
        f"Declare `{field}`."
    )
