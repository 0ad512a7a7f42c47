"""Debezium's change envelopes, as Kafka Connect's converters encode them: their parsers' interface.

Extensions parse them, in JSON or Avro (:mod:`sources.decoding.registered_values`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

SIDES = ("before", "after")
"""Fields of an envelope with the row as it was and as it is."""
OF_MYSQL = "io.debezium.connector.mysql.Source"
"""Name of the schema of ``source`` in envelopes of the MySQL connector."""
MYSQL_JSON = "mysql.json"
"""Logical type of a JSON document of MySQL, which other databases keep as text."""
_JSON = "io.debezium.data.Json"


class Encoding(NamedTuple):
    """How Kafka Connect encodes a table's column, by the schema in front of a change.

    Attributes:
        name: Logical type, such as ``io.debezium.time.MicroTimestamp``; None if there is none.
        scale: Digits after the point of a decimal; None if the schema does not contain it.
        default: Constant default of the column in the database; None if there is none.
        kind: Spark SQL type to declare for the column; None if the schema does not determine it.
        items: Encoding of an array's items; None if it is no array, or its items are not described.
    """

    name: str | None = None
    scale: int | None = None
    default: Any = None
    kind: str | None = None
    items: Encoding | None = None


class Envelopes(Protocol):
    """Interface of the parsers of Debezium's envelopes, one per converter of Kafka Connect.

    An envelope is the value of a Kafka record: the operation, the row before and after, and where
    the change comes from.
    """

    def open(self, value: bytes) -> tuple[Mapping[str, Any], Mapping[str, Encoding]]:
        """Parse a value into its envelope, and the encodings of the table's columns by name.

        Called for each change that is decoded by itself. The encodings are empty where the value
        carries no schema. They are the same object for records that share a schema.

        Raises:
            BadValue: The value can't be parsed.
            InputError: The schema registry refuses the login or the request.
            UnavailableError: The schema registry does not answer.
        """


def of_connector(encoding: Encoding, *, is_mysql: bool) -> Encoding:
    """Return a column's encoding as its connector means it: JSON of MySQL as :data:`MYSQL_JSON`.

    All others are returned as they are.

    Args:
        encoding: The encoding by the schema of the change.
        is_mysql: Whether the change is from the MySQL connector.
    """
    return encoding._replace(name=MYSQL_JSON) if is_mysql and encoding.name == _JSON else encoding
