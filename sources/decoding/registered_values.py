"""Registered values: those that refer to the schemas of a registry; an extension decodes them.

Each has the id of its schema in front (:mod:`sources.decoding.schema_registry`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from sources.decoding.base import FieldReader
from sources.decoding.changes.envelopes import Envelopes
from sources.decoding.schema_registry import Registry
from sources.extensions import required


class RegisteredValues(ABC):
    """Interface of the decoders of values with schemas of a registry; its extension implements it.

    Decoders are built on the driver and pickled to tasks, and ask the registry only when values are
    decoded. All methods raise InputError if the library of the format is not installed.
    """

    @abstractmethod
    def records(self, registry: Registry) -> FieldReader:
        """Return the decoder of records, each by the schema that it was written with."""

    @abstractmethod
    def values(self, registry: Registry) -> Callable[[bytes], Any]:
        """Return the decoder of values of any type, such as the key of a record.

        It raises :class:`sources.common.conversion.BadValue` for bytes that do not match their
        schema, and otherwise as :meth:`sources.decoding.base.FieldReader.fields`.
        """

    @abstractmethod
    def envelopes(self, registry: Registry) -> Envelopes:
        """Return the parser of Debezium's envelopes whose values carry a schema id."""


def registered_values() -> RegisteredValues:
    """Return the decoders of registered values that the first installed extension adds.

    Raises:
        InputError: No installed extension decodes such values.
    """
    does = "decodes values with schemas of a `registry`"
    otherwise = "let values be JSON, and remove `registry`"
    found: RegisteredValues = required("registered_values", does, otherwise, field="registry")
    return found
