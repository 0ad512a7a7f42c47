"""Values of a schema registry, which are Avro, as the core asks for their decoders."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hybrid_extensions.avro.decoder import AvroReader, read_framed
from hybrid_extensions.avro.envelopes import AvroEnvelopes
from sources.decoding.base import FieldReader
from sources.decoding.changes.envelopes import Envelopes
from sources.decoding.registered_values import RegisteredValues
from sources.decoding.schema_registry import Registry


class RegisteredAvro(RegisteredValues):
    """Decoders of Avro with a schema id in front."""

    def records(self, registry: Registry) -> FieldReader:
        """Return the decoder of records."""
        return AvroReader(None, registry)

    def values(self, registry: Registry) -> Callable[[bytes], Any]:
        """Return the decoder of values of any type."""
        return partial(read_framed, registry=registry)

    def envelopes(self, registry: Registry) -> Envelopes:
        """Return the parser of Debezium's envelopes."""
        return AvroEnvelopes(registry)


REGISTERED = RegisteredAvro()
