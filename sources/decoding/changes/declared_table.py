"""Declaration of a captured table as its topic reports it, and of its later columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from sources.common.fields import Columns, Declared
from sources.decoding.changes.added_columns import AddedColumnOrType, types_of
from sources.decoding.changes.placeholders import PLACEHOLDER, Placeholder
from sources.decoding.changes.renamed_columns import NewNames, all_names, check_renamed
from sources.decoding.changes.schema_policies import ALL_STOP, FOLLOWED, SchemaPolicies
from sources.decoding.changes.widened_columns import is_widened, with_widened_types
from sources.decoding.record_columns import RecordColumns
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
    unavailable_value_placeholder: str = PLACEHOLDER
    binary_handling_mode: BinaryMode | None = None

    @model_validator(mode="before")
    @classmethod
    def _names_the_table(cls, given: Any) -> Any:
        if isinstance(given, dict) and "table" not in given:
            raise ValueError(_lacking("table"))
        return given

    @field_validator("unavailable_value_placeholder")
    @classmethod
    def _is_a_placeholder(cls, declared: str) -> str:
        try:
            Placeholder(declared)
        except ValueError as error:
            message = (
                f"`{declared}` is not a placeholder: {error}. Write it as in the connector's "
                "configuration: a text, or `hex:` and an even number of hexadecimal digits."
            )
            raise ValueError(message) from None
        return declared

    @property
    def follows_truncates(self) -> bool:
        """Whether a TRUNCATE removes the target's older rows."""
        return self.on_truncate == "follow"

    @property
    def policies(self) -> SchemaPolicies:
        """What a run does at each kind of change of the table's columns."""
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

        Args:
            columns: Names and Spark SQL types of the columns when the generation began.
        """
        return {**with_widened_types(columns, self.widened_columns), **self.added_types}

    def name_in_table(self, column: str) -> str:
        """Return the name that a column of ``schema`` has in the database now, after renaming."""
        return all_names(self.renamed_columns.get(column, column))[-1]

    def check_columns(self, columns: RecordColumns) -> None:
        """Refuse declared changes of columns that do not fit ``schema`` or ``select``.

        Called while the declaration is validated.

        Args:
            columns: The declared columns of the topic.

        Raises:
            ValueError: Contains the column, and what to correct.
        """
        if columns.columns is None:
            raise ValueError(_lacking("schema"))
        self._check_select(columns)
        known = {
            name: kind for name, kind in columns.columns.items() if name not in columns.include
        }
        listed = ", ".join(sorted(known))
        for field, names in (
            ("dropped_columns", self.dropped_columns),
            ("emptied_columns", self.emptied_columns),
        ):
            for name in names:
                if name not in known and name not in self.added_columns:
                    message = (
                        f"`{field}`: no column `{name}` is declared in the `schema`. Correct "
                        f"the name, or remove it; the declared columns are {listed}."
                    )
                    raise ValueError(message)
        for name in self.added_columns:
            if name in known or name in columns.include:
                message = (
                    f"`added_columns`: there is a column `{name}` already, in `schema` or "
                    "`include`. Remove it in one of the two places."
                )
                raise ValueError(message)
        for name, kind in self.widened_columns.items():
            if name not in known:
                message = (
                    f"`widened_columns`: no column `{name}` is declared in the `schema`. Correct "
                    f"the name, or remove it; the declared columns are {listed}."
                )
                raise ValueError(message)
            if not is_widened(known[name], kind):
                message = (
                    f"`widened_columns`: {kind} does not hold every {known[name]}, the type of "
                    f"column `{name}` in the `schema`. Correct it; another type needs a new "
                    "generation with a new snapshot."
                )
                raise ValueError(message)
        taken = {*columns.columns, *columns.include, *self.added_columns, *self.ignored_columns}
        check_renamed(self.renamed_columns, known, taken)
        for name in self.ignored_columns:
            if name in known or name in self.added_columns:
                message = (
                    f"`ignored_columns`: column `{name}` is declared, so it can't be ignored. "
                    "Remove it there, or from `schema` and `added_columns`."
                )
                raise ValueError(message)

    def _check_select(self, columns: RecordColumns) -> None:
        """Refuse a ``select`` next to what has to know which columns of the table it leaves."""
        defines = "`select`, which defines all columns. Remove "
        unchanged = columns.envelope_column("unchanged")
        for is_declared, name, why in (
            (
                self.follows_truncates,
                "on_truncate: follow",
                "`select`, which may leave out the event or give it a key. Remove one of the two.",
            ),
            (self.policies != ALL_STOP, "on_schema_change", f"{defines}one of the two."),
            (
                unchanged is not None,
                f"include.{unchanged}: unchanged",
                "`select`, which may compute columns from a value that the change lacks. Remove "
                "one of the two.",
            ),
            (
                bool(self.added_columns),
                "added_columns",
                f"{defines}`added_columns`, or remove `select`.",
            ),
            (bool(self.widened_columns), "widened_columns", f"{defines}one of the two."),
            (bool(self.emptied_columns), "emptied_columns", f"{defines}one of the two."),
        ):
            if columns.select and is_declared:
                message = f"`{name}` has no meaning with {why}"
                raise ValueError(message)


def _lacking(field: str) -> str:
    return (
        "`format: debezium` needs a `schema`, and the `table`, such as `public.orders`. "
        f"Declare `{field}`."
    )
