"""Declaration of `format: avro` of a topic: either `avro_schema` or `registry`, never both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Self

from pydantic import model_validator

from sources.decoding.base import FieldReader
from sources.decoding.record_columns import RecordColumns
from sources.decoding.schema_registry import Registry
from sources.decoding.value_formats.base import ValueFormat


class AvroValues(ValueFormat):
    """Declaration of a topic whose values are Avro records, of one schema or each of a schema id.

    Attributes:
        avro_schema: File with the schema of all values, which carry no schema id. Relative to the
            pipeline's file.
        registry: The schema registry of the ids in front of the values, instead of
            ``avro_schema``.
    """

    title = "Avro"

    format: Literal["avro"]
    avro_schema: str | None = None
    registry: Registry | None = None

    @model_validator(mode="after")
    def _has_one_origin_of_schemas(self) -> AvroValues:
        if (self.avro_schema is None) == (self.registry is None):
            both = self.avro_schema is not None
            message = (
                "`format: avro` needs either `avro_schema` or `registry`; "
                f"{'both are' if both else 'neither is'} declared. Declare `registry` if each "
                "value has a schema id in front, and `avro_schema` if one schema is that of all "
                "values."
            )
            raise ValueError(message)
        return self

    @property
    def extras(self) -> Sequence[tuple[str, str]]:
        """Extras for Avro, and for the schema registry if there is one, each with what needs it."""
        return [("avro", "`format: avro`"), *(self.registry.extras if self.registry else [])]

    @property
    def key_registry(self) -> Registry | None:
        """The schema registry of the values, which Avro keys use, too; None if there is none."""
        return self.registry

    def reader(self, _columns: RecordColumns) -> FieldReader:
        """Build the decoder; the registry is asked only when values are decoded.

        Raises:
            InputError: The file of ``avro_schema`` can't be read, or does not contain an Avro
                schema of type record; or the library is not installed.
        """
        # Its library is optional.
        from hybrid_extensions.avro.decoder import AvroReader  # noqa: PLC0415

        if self.avro_schema is not None:
            return AvroReader.of_file(self.avro_schema)
        return AvroReader(None, self.registry)

    def contract(self) -> dict[str, object]:
        """Return ``{"framed": True}`` if values have a schema id in front; else an empty mapping.

        That must not change under a checkpoint.
        """
        return {} if self.registry is None else {"framed": True}

    def located(self, locate: Callable[[str], str]) -> Self:
        """Return a copy with absolute paths of the schema and of the registry's TLS files.

        Whether the files exist is not checked.
        """
        if self.registry is not None:
            return self.model_copy(update={"registry": self.registry.located(locate)})
        return self.model_copy(update={"avro_schema": locate(str(self.avro_schema))})


FORMATS: Mapping[str, type[ValueFormat]] = {"avro": AvroValues}
