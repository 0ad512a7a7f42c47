"""Connector's lists of Java's patterns (`table.include.list`): whether a name is listed.

https://debezium.io/documentation/reference/stable/connectors/mysql.html#mysql-property-table-include-list
"""

from __future__ import annotations

import re

# A comma that is part of a pattern has a backslash before it.
_PATTERN = re.compile(r"(?:\\.|[^,\\])+", re.DOTALL)
_LITERAL = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)


def is_listed(name: str, listed: str) -> bool | None:
    """Return whether one of a connector's patterns matches a whole name, in any case.

    None if none matches, but one can't be evaluated here: it has a form that only Java reads, or
    refers to a value that only the worker of Kafka Connect knows.

    Args:
        name: The name.
        listed: Java's regular expressions, separated by commas.
    """
    is_read = "${" not in listed
    for each in _PATTERN.findall(listed):
        literal = _LITERAL.sub(lambda found: re.escape(found[1]), each.strip())
        try:
            if re.fullmatch(literal, name, re.IGNORECASE):
                return True
        except re.error:
            is_read = False
    return False if is_read else None
