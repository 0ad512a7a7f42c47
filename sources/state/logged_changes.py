"""What an entry of the log of actions shows of a change: how versions of file and modules differ.

For people alone; nothing is decided by it. What counts as a changed declaration is in
:mod:`sources.planning.declaration_digests`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import yaml

_SHOWN = 12
"""Characters of a digest that are shown."""


def changes(
    copies: Mapping[str, bytes | None], contents: Mapping[str, bytes]
) -> tuple[dict[str, str], dict[str, str]]:
    """Compare kept copies of files with their present contents, for the log of actions.

    A YAML file is compared by its fields (dotted names; it contains no secret, only references to
    environment variables), other files by a digest.

    Args:
        copies: Kept content by name of the file; None where none was kept, which is left out.
        contents: Content now, of the same files.

    Returns:
        Two mappings from each changed field or file to its text: before, and now. A field that is
        missing on one side is ``not declared``. A file that differs in comments or order only is in
        both, by its name. Both are empty if no file was kept.
    """
    before: dict[str, str] = {}
    now: dict[str, str] = {}
    for name, copy in copies.items():
        if copy is None:
            continue
        old, new = _facts(name, copy), _facts(name, contents[name])
        for key in dict.fromkeys([*old, *new]):
            if old.get(key) != new.get(key):
                before[key], now[key] = old.get(key, "not declared"), new.get(key, "not declared")
        if old == new:
            before[name], now[name] = "as before", "other comments or order only"
    return before, now


def _facts(name: str, content: bytes) -> dict[str, str]:
    if name.endswith((".yaml", ".yml")):
        return dict(_fields(yaml.safe_load(content), ""))
    return {name: hashlib.sha256(content).hexdigest()[:_SHOWN]}


def _fields(value: object, place: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a YAML document that have no fields themselves, dotted, as text."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _fields(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            named = item.get("name", number) if isinstance(item, Mapping) else number
            yield from _fields(item, f"{place}.{named}")
    else:
        yield place, str(value)
