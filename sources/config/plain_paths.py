"""Plain paths of tables on this machine: no percent escape and no backslash, due to delta-rs."""

from __future__ import annotations

import re

from sources.errors import InputError

# Escapes of addresses, and the separator of other systems.
_TAKEN_FOR_OTHERS = re.compile(r"%[0-9a-fA-F]{2}|\\")


def require_plain_path(field: str, place: str) -> None:
    """Refuse a table's folder on this machine whose path delta-rs would take for another one.

    Args:
        field: Field of the declaration that names it, for the message.
        place: The absolute path, or a URL, which passes.

    Raises:
        InputError: The path contains a percent escape such as ``%20``, or a backslash.
    """
    found = None if "://" in place else _TAKEN_FOR_OTHERS.search(place)
    if found is None:
        return
    message = f"`{field}` is {place}: delta-rs takes `{found[0]}` in a path for another character."
    hint = f"Declare a path without `{found[0]}`, or rename the folder of the pipeline that has it."
    raise InputError(message, hint, field=field, file=place)
