"""Declaration of a topic's format, and what a record without a value means (``on_tombstone``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Literal, get_args

import pyarrow as pa
from pydantic import (
    Field,
    GetJsonSchemaHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from sources.decoding.base import FieldReader
from sources.decoding.changes.declared_table import DeclaredTable
from sources.decoding.record_columns import RecordColumns, RecordPart
from sources.decoding.tombstones import RowOfKey, Tombstones
from sources.decoding.value_formats.json_values import JsonValues
from sources.decoding.value_formats.registry import (
    VALUE_FORMATS,
    AnyValueFormat,
    formats_of_fields,
)
from sources.errors import InputError
from sources.formats.map_keys import require_text_keys

FORMATS_FIELDS = "the fields of the format"
"""What Pydantic calls :attr:`RecordRows.value`; no field of a YAML file can have this name."""
_FORMATS_OF_FIELD = formats_of_fields()


class RecordRows(RecordColumns):
    """Part of a topic's declaration: how its records become rows.

    Attributes:
        value: Format of the values, with its own fields. In a YAML file these stand beside the
            others.
        format: Encoding of a record's value; ``raw`` keeps the bytes, in a column ``value``.
        on_tombstone: What a record with a key and no value means: ``delete`` removes the row of
            that key from a target that merges; ``ignore`` leaves the record out; ``refuse`` (the
            default) ends the run, whatever ``on_bad_record`` says. Debezium's tombstones need no
            declaration.
    """

    value: AnyValueFormat = Field(default=JsonValues(), validation_alias=FORMATS_FIELDS)
    on_tombstone: Literal["refuse", "ignore", "delete"] = "refuse"
    _row_of_key: RowOfKey | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _sets_the_formats_fields_apart(cls, document: Any) -> Any:
        if not isinstance(document, dict):
            return document
        form = document.get("format", "json")
        if not isinstance(form, str) or form not in VALUE_FORMATS:
            known = ", ".join(VALUE_FORMATS)
            message = f"`format: {form}` is not a format of a topic's values. Write one of {known}."
            raise ValueError(message)
        others, own = {}, {"format": form}
        for name, given in document.items():
            if name not in _FORMATS_OF_FIELD:
                others[name] = given
            elif form in _FORMATS_OF_FIELD[name]:
                own |= {} if given is None else {name: given}
            elif given is not None:
                allowed = " or ".join(f"`format: {each}`" for each in _FORMATS_OF_FIELD[name])
                message = (
                    f"`{name}` has no meaning with `format: {form}`. Remove it, or declare "
                    f"{allowed}."
                )
                raise ValueError(message)
        return {**others, FORMATS_FIELDS: own}

    @model_validator(mode="after")
    def _columns_fit_the_format(self) -> RecordRows:
        for name, what in self.envelope_columns.items():
            if what not in self.value.parts:
                having = [each for each, model in VALUE_FORMATS.items() if what in model.parts]
                message = (
                    f"`include.{name}: {what}` is available with `format: {' or '.join(having)}` "
                    f"only; here it is `format: {self.format}`. Remove it, or name a part of the "
                    f"Kafka record: {', '.join(get_args(RecordPart))}."
                )
                raise ValueError(message)
        if self.columns is not None:
            self.check_included(self.columns)
            self._check_keys(self.columns)
        self.value.check(self)
        if self.on_tombstone != "refuse" and self.value.has_tombstones:
            message = (
                f"`on_tombstone: {self.on_tombstone}` has no meaning with `format: {self.format}`, "
                "whose changes contain what is deleted; its tombstones are left out. Remove it."
            )
            raise ValueError(message)
        if self.on_tombstone != "delete" and "tombstone" in self.include.values():
            message = (
                "`include` has a column for `tombstone`, which is always false here. Remove it, or "
                "declare `on_tombstone: delete`, with which records without a value delete rows."
            )
            raise ValueError(message)
        return self

    @model_serializer(mode="wrap")
    def _flat(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the fields with those of the format beside them, as a YAML file has them."""
        dumped = dump(self)
        own = dumped.pop("value", {})
        return {**dumped, **own}

    @classmethod
    def written(cls) -> dict[str, FieldInfo]:
        """Return the fields by their names in the YAML file, with those of all value formats."""
        own: dict[str, FieldInfo] = {}
        for model in VALUE_FORMATS.values():
            for name, info in model.model_fields.items():
                optional = copy(info)
                if info.is_required():
                    # With the other formats it is left out.
                    optional.default = None
                own.setdefault(name, optional)
        fields: dict[str, FieldInfo] = {}
        for name, info in super().written().items():
            fields |= own if name == FORMATS_FIELDS else {name: info}
        return fields

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema of the YAML file, in which the formats' fields are flat."""
        reference = handler(core_schema)
        schema = handler.resolve_ref_schema(reference)
        fields: dict[str, Any] = {}
        for each in schema["properties"].pop(FORMATS_FIELDS)["oneOf"]:
            fields = {**handler.resolve_ref_schema(each)["properties"], **fields}
        fields["format"] = {**fields["format"], "enum": list(VALUE_FORMATS)}
        del fields["format"]["const"]
        schema["properties"] |= fields
        return reference

    @property
    def format(self) -> str:
        """Name of the format of the values."""
        return self.value.format

    @property
    def changes(self) -> DeclaredTable | None:
        """The table that the records are changes of; None if they are rows."""
        return self.value.changes

    @property
    def extras(self) -> Sequence[tuple[str, str]]:
        """Extras of this project that reading needs, each with what needs it, for messages.

        Empty if it needs none.
        """
        return self.value.extras

    @property
    def declared_columns(self) -> dict[str, str] | None:
        """All declared columns of a row and their Spark SQL types, those of ``include`` first.

        Computed. None if there is no ``schema`` and the format has no column of its own, such as
        ``value`` of ``raw``: those of the preceding source then apply.
        """
        columns = self.columns or self.value.own_columns
        return None if columns is None else {**self.included_types, **columns}

    @property
    def skips_tombstones(self) -> bool:
        """Whether records without a value are skipped: neither a row nor a bad record."""
        return self.value.has_tombstones or self.on_tombstone == "ignore"

    def delete_by(self, row: RowOfKey) -> None:
        """Set the columns by which tombstones delete rows; the pipeline calls it when validated."""
        self._row_of_key = row

    @property
    def row_of_key(self) -> RowOfKey | None:
        """Columns by which records without a value delete rows; None if they delete none."""
        return self._row_of_key

    def tombstones(self, columns: pa.Schema) -> Tombstones | None:
        """Return the reader of tombstones, which makes the deleted row of a key; else None.

        None if tombstones delete no rows here.

        Args:
            columns: Columns that are decoded from values.

        Raises:
            InputError: A column of ``sink.key`` is not among them, or no installed extension
                decodes keys with schemas of a registry.
        """
        if self._row_of_key is None:
            return None
        for name in self._row_of_key.key:
            if name not in columns.names:
                message = (
                    f"`on_tombstone: delete` finds rows by `sink.key`, and `{name}` is no column "
                    f"of the records, which have {', '.join(columns.names)}."
                )
                hint = "Let `sink.key` be columns that the source has and the transform keeps."
                raise InputError(message, hint, field="on_tombstone", column=name)
        return Tombstones(self._row_of_key, columns, self.value.key_registry)

    def columns_after(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return all columns of a row and their Spark SQL types, before ``select``.

        The declared ones, or else those of the source before.

        Args:
            before: Columns of the source before; empty if this is the first source.

        Raises:
            InputError: A column of ``include`` is not among them, or has another type; or values
                are JSON, and a map has other keys than texts.
        """
        if (declared := self.declared_columns) is not None:
            return declared
        for name in self.include:
            if name not in before:
                message = f"`include.{name}`: the preceding source has no column `{name}`."
                hint = (
                    f"Name one of its columns ({', '.join(before)}), or declare all columns of "
                    "this source in `schema`."
                )
                if not before:
                    hint = "Declare all columns of this source in `schema`."
                raise InputError(message, hint, field=f"include.{name}", column=name)
        self.check_included(before)
        self._check_keys(before)
        return dict(before)

    def _check_keys(self, columns: Mapping[str, str]) -> None:
        if self.value.parser == "json":
            of_value = {name: kind for name, kind in columns.items() if name not in self.include}
            require_text_keys(of_value)

    @property
    def value_columns(self) -> dict[str, str]:
        """Declared columns that are filled from a record's value, and their Spark SQL types.

        Computed; empty if no columns are declared, so that those of the preceding source apply.
        """
        columns = self.declared_columns or {}
        return {name: kind for name, kind in columns.items() if name not in self.include}

    def current(self, columns: Mapping[str, str]) -> dict[str, str]:
        """Return the columns that records have now; a captured table may have more or wider ones.

        As they are given, if records are rows.

        Args:
            columns: Names and Spark SQL types of the columns when the generation began.
        """
        return dict(columns) if self.changes is None else self.changes.current(columns)

    def reader(self) -> FieldReader:
        """Build the decoder of the values, on the driver; a registry is asked only for values.

        Raises:
            InputError: A file of the declaration can't be read or used; or a library of the format
                is not installed.
        """
        return self.value.reader(self)

    def checkpoint_contract(self) -> dict[str, object]:
        """Return the declared settings that decide what a record means, by name.

        They must not change while a checkpoint is in use, as earlier rows would not agree with
        later ones; the caller compares them with those recorded before. Empty for plain JSON.
        """
        shared = self.model_dump(include={"include", "select"}, exclude_defaults=True)
        return {**shared, **self.value.contract()}
