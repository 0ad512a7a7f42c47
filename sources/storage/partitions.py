"""What the names of folders say: partition columns, and the time that a folder stands for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.schema import parse_type
from sources.errors import InputError

_DIGITS = {"Y": r"\d{4}", "m": r"\d{1,2}", "d": r"\d{1,2}", "H": r"\d{1,2}", "M": r"\d{1,2}"}
_NULL = "__HIVE_DEFAULT_PARTITION__"


class FolderTime:
    """The time range that a folder's name stands for, as ``dt=%Y-%m-%d/hour=%H`` writes it.

    Args:
        pattern: With ``%Y`` and further of ``%m %d %H %M``, largest first, in UTC.

    Raises:
        ValueError: The pattern does not say a year, or leaves one out in between.
    """

    def __init__(self, pattern: str) -> None:
        found = re.findall(r"%(.)", pattern)
        if not found or found != list(_DIGITS)[: len(found)]:
            message = (
                f"`{pattern}` must hold %Y, then as many of %m %d %H %M as there are, in order"
            )
            raise ValueError(message)
        self._unit = found[-1]
        text = re.escape(pattern)
        for letter in found:
            text = text.replace(f"%{letter}", f"(?P<{letter}>{_DIGITS[letter]})")
        self._regex = re.compile(f"(?:^|/){text}(?:/|$)")

    def range_of(self, folder: str) -> tuple[datetime, datetime] | None:
        """First moment, and the one after the last; None if the name does not match.

        Raises:
            ValueError: It names a time that is not in the calendar.
        """
        match = self._regex.search(folder)
        if match is None:
            return None
        parts = [int(match[letter]) for letter in _DIGITS if letter in match.groupdict()]
        year, month, day, hour, minute = [*parts, *(0, 1, 1, 0, 0)[len(parts) :]]
        low = datetime(year, month, day, hour, minute, tzinfo=UTC)
        if self._unit == "Y":
            return low, low.replace(year=low.year + 1)
        if self._unit == "m":
            return low, (low + timedelta(days=32)).replace(day=1)
        length = {"d": timedelta(days=1), "H": timedelta(hours=1), "M": timedelta(minutes=1)}
        return low, low + length[self._unit]


def partition_of(folder: str, names: Sequence[str]) -> str:
    """Values of partition columns in a folder's name (Hive's ``name=value``), as the name has them.

    Raises:
        InputError: One of the columns is not there.
    """
    pairs = dict(part.split("=", 1) for part in folder.split("/") if "=" in part)
    if absent := [name for name in names if name not in pairs]:
        message = f"{folder} tells no `{absent[0]}`."
        raise InputError(message, f"`partitions` needs folders named {absent[0]}=<value>.")
    return "/".join(f"{name}={pairs[name]}" for name in names)


def partition_from(values: Mapping[str, object]) -> str:
    """The same from values, as folders would be named after them; the reverse of values_of."""
    return "/".join(f"{name}={_as_folder(value)}" for name, value in values.items())


def _as_folder(value: object) -> str:
    if value is None:
        return _NULL
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return quote(text, safe="")


def values_of(partition: str) -> dict[str, str | None]:
    """The reverse of :func:`partition_of`: texts by column."""
    found = {}
    for part in partition.split("/") if partition else []:
        name, _, text = part.partition("=")
        found[name] = None if text == _NULL else unquote(text)
    return found


def check_partitions(partitions: Sequence[str], columns: Mapping[str, str]) -> None:
    """Refuse values that do not fit the types of their columns.

    Args:
        partitions: Distinct ones.
        columns: Types, as a pipeline declares them.

    Raises:
        InputError: Names column, value and type.
    """
    for name, kind in columns.items():
        for partition in partitions:
            text = values_of(partition)[name]
            try:
                typed(text, parse_type(kind))
            except pa.ArrowException:
                message = f"The folder {partition}: `{text}` is no {kind}."
                raise InputError(message, f"Correct `partitions.{name}`, or the folder.") from None


def typed(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """A value of a partition column."""
    scalar = pa.scalar(text, pa.string())
    if pa.types.is_timestamp(kind) and text is not None and not text.endswith("Z"):
        scalar = pa.scalar(f"{text}Z", pa.string())
    return pc.cast(scalar, kind)


def by_folder(files: pa.Table, tell: Callable[[str], object], kind: pa.DataType) -> pa.Array:
    """Something told by the name of each file's folder, asked once a folder."""
    known: dict[str, object] = {}

    def ask(path: str) -> object:
        folder = path.rpartition("/")[0]
        if folder not in known:
            known[folder] = tell(folder)
        return known[folder]

    return pa.array((ask(path) for path in files["path"].to_pylist()), kind, size=len(files))
