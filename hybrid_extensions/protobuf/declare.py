"""Declaration of ``format: protobuf``: each value is a message of Protocol Buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

from pydantic import model_validator

from sources.decoding.base import FieldReader
from sources.decoding.record_columns import RecordColumns
from sources.decoding.value_formats.base import ValueFormat

_NEEDED = {
    "descriptor": (
        "as `descriptor` the file that `protoc --include_imports --descriptor_set_out=<file> "
        "<name>.proto` writes"
    ),
    "message": "as `message` the full name of the message type, such as `shop.Order`",
}


class ProtobufValues(ValueFormat):
    """Messages of Protocol Buffers, all of one type.

    Attributes:
        descriptor: File with the message's ``FileDescriptorSet``, imports included
            (``protoc --include_imports -o``). Relative to the pipeline's file.
        message: Full name of the message type, with its package.
        wire_format: ``confluent`` if values are in Confluent's wire format, with a schema id in
            front; ``plain`` or left out if not.
    """

    title = "Protobuf"

    format: Literal["protobuf"]
    descriptor: str
    message: str
    wire_format: Literal["plain", "confluent"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _names_the_message(cls, given: Any) -> Any:
        if isinstance(given, dict) and (lacking := _NEEDED.keys() - given.keys()):
            names = " and ".join(f"`{name}`" for name in _NEEDED if name in lacking)
            fields = "; and ".join(text for name, text in _NEEDED.items() if name in lacking)
            message = (
                f"`format: protobuf` needs {names} next to it, and there is none. Declare {fields}."
            )
            raise ValueError(message)
        return given

    def reader(self, _columns: RecordColumns) -> FieldReader:
        """Return the decoder of the values.

        Raises:
            InputError: The file of ``descriptor`` can't be read, is not a ``FileDescriptorSet``
                with all imports, or does not have the message type.
        """
        # Few need it.
        from hybrid_extensions.protobuf.decoder import ProtobufReader  # noqa: PLC0415

        framed = self.wire_format == "confluent"
        return ProtobufReader.of_file(self.descriptor, self.message, framed=framed)

    def contract(self) -> dict[str, object]:
        """Return the fields that a checkpoint depends on: message type and wire format."""
        return self.model_dump(include={"message", "wire_format"}, exclude_defaults=True)

    def located(self, locate: Callable[[str], str]) -> Self:
        """Return a copy with the absolute path of the descriptor.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
        """
        return self.model_copy(update={"descriptor": locate(self.descriptor)})


FORMATS: Mapping[str, type[ValueFormat]] = {"protobuf": ProtobufValues}
