"""Headers of a Kafka record, also where a header's name is no UTF-8 text."""

from __future__ import annotations

from operator import methodcaller
from typing import Any

NOT_TEXT = "\ufffd"
"""What stands in the name of a header for bytes that are no UTF-8 text, as in Java."""
# The client returns a result and leaves an error set, which the interpreter finds in a call by
# other code, and overlooks in one that it has specialized.
_headers = methodcaller("headers")


def headers_of(message: Any) -> list[tuple[str, bytes | None]] | None:
    """Return names and values of a record's headers, in order; None if it has none.

    If a header's name is no UTF-8 text, the client returns no header at all; the result is then a
    single header of the name :data:`NOT_TEXT`. Call it once for each message, as a second call
    after such a failure may return incomplete headers.

    Args:
        message: A ``confluent_kafka.Message``.
    """
    try:
        found: list[tuple[str, bytes | None]] | None = _headers(message)
    except (SystemError, UnicodeDecodeError):
        return [(NOT_TEXT, None)]
    return found
