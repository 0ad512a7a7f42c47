"""Texts that Debezium writes differently from the server: JSON, and names of enumerations."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from hybrid_extensions.cdc.databases.captured_table import Misfit
from hybrid_extensions.cdc.debezium.mysql_json import canonical_json

# No JSON document begins with it.
_MARK = "!"
# As the server writes bytes, and times of which Debezium leaves out the last zeros.
_OTHER_FORM = re.compile(r'"base64:type[0-9]+:|:[0-9]{2}\.[0-9]{5}0"')
_OF_FOUR_BYTES = r"[\x{10000}-\x{10FFFF}]"


def quoted(name: str) -> str:
    """Return a name quoted for the database's SQL, in backticks."""
    return f"`{name.replace('`', '``')}`"


def json_expression(name: str) -> str:
    """Return SQL for a JSON column of MySQL, as text that :func:`canonical_texts` converts."""
    text = f"CAST({quoted(name)} AS CHAR CHARACTER SET utf8mb4)"
    # Dates, times, bytes and long decimals do not come back from a text.
    return f"IF({quoted(name)} = CAST({text} AS JSON), {text}, CONCAT('{_MARK}', {text}))"


def canonical_texts(name: str, texts: pa.Array) -> pa.Array:
    """Return MySQL's JSON documents in canonical form, as in their changes.

    Args:
        name: Name of the column, for messages.
        texts: Values of :func:`json_expression`.

    Raises:
        Misfit: A document has a time or bytes, which Debezium writes in another form.
    """
    found = []
    for text in texts.to_pylist():
        if text is not None and text.startswith(_MARK) and _OTHER_FORM.search(text):
            column = quoted(name)
            message = (
                f"column {column} has a time or bytes in a JSON document, which Debezium writes in "
                f"another form: {text[1:61]}. Make it a text: `UPDATE … SET {column} = "
                f"CAST(CAST({column} AS CHAR) AS JSON)`"
            )
            raise Misfit(message)
        found.append(None if text is None else canonical_json(text.removeprefix(_MARK)))
    return pa.array(found, pa.string())


def require_short_characters(name: str, kind: str, texts: pa.Array) -> None:
    """Refuse names of an enumeration that Debezium can't write, as of characters of four bytes.

    Args:
        name: Name of the column, for messages.
        kind: Its type, ``enum`` or ``set``.
        texts: Its values.

    Raises:
        Misfit: Names the value.
    """
    long = pc.filter(texts, pc.match_substring_regex(texts, _OF_FOUR_BYTES))
    if len(long):
        message = (
            f"column `{name}` has the value {long[0].as_py()!r}; in names of the type `{kind}` "
            "Debezium writes `?` for a character of four bytes: rename it, or make the column a "
            "varchar"
        )
        raise Misfit(message)
