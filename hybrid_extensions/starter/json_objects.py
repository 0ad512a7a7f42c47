"""Objects of JSON files for `hybrid init`: whether there are any, and the names in them."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pyarrow as pa

_LINES = 20_480
"""Lines of a file in which names are looked for: as many as DuckDB looks at."""
_NUMBERED = re.compile(r"_\d+$")


def begins_with_object(path: Path) -> bool:
    """Return whether the first line of a JSON file that is not blank begins an object.

    Only the first 64 KiB, after decompression, are looked at.
    """
    with pa.input_stream(str(path), compression="detect") as file:
        head: bytes = file.read(1 << 16)
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


def names_in_objects(path: Path, columns: Iterable[str]) -> dict[str, str | None]:
    """Return the name in a file's objects of each column, by the name that DuckDB gives it.

    DuckDB numbers names that differ in upper and lower case only.

    Args:
        path: The file, which DuckDB can read.
        columns: The names that DuckDB gives to its columns.

    Returns:
        None for each column whose name is there in two ways.
    """
    seen: set[str] = set()
    with pa.input_stream(str(path), compression="detect") as file:
        for line in islice(io.TextIOWrapper(file, "utf-8-sig"), _LINES):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                # A blank line, or what the plan says is wrong.
                continue
            seen.update(row if isinstance(row, dict) else ())
    twice = {name for name, count in Counter(map(str.casefold, seen)).items() if count > 1}

    def is_twice(name: str) -> bool:
        given = name if name in seen else _NUMBERED.sub("", name)
        return given.casefold() in twice

    return {name: None if is_twice(name) else name for name in columns}
