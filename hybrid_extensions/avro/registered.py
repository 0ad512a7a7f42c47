"""Decoders of values with a schema id in front, for the core: records, any type, envelopes."""

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
    """Implementation of the core's :class:`RegisteredValues`; its methods connect to nothing."""

    def records(self, registry: Registry) -> FieldReader:
        """Return the decoder of values that are Avro records."""
        return AvroReader(None, registry)

    def values(self, registry: Registry) -> Callable[[bytes], Any]:
        """Return a function that decodes a value of any type; raises as :func:`read_framed`."""
        return partial(read_framed, registry=registry)

    def envelopes(self, registry: Registry) -> Envelopes:
        """Return the parser of Debezium's change envelopes in Avro."""
        return AvroEnvelopes(registry)


REGISTERED = RegisteredAvro()
