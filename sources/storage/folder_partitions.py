"""Partitions by folder: partition columns and time ranges in the names of folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.schema import TIMESTAMP, parse_type
from sources.errors import InputError

_DIGITS = {"Y": r"\d{4}", "m": r"\d{1,2}", "d": r"\d{1,2}", "H": r"\d{1,2}", "M": r"\d{1,2}"}
_NULL = "__HIVE_DEFAULT_PARTITION__"


class FolderTime:
    """Format of folder names that stand for a time range, such as ``dt=%Y-%m-%d/hour=%H``.

    Args:
        pattern: ``%Y``, then as many of ``%m %d %H %M`` as there are, in this order; UTC.

    Raises:
        ValueError: The pattern has no year, or leaves out a unit in between.
    """

    def __init__(self, pattern: str) -> None:
        units = re.findall(r"%(.)", pattern)
        if not units or units != list(_DIGITS)[: len(units)]:
            message = (
                f"`{pattern}` must contain %Y, then as many of %m %d %H %M as there are, in order, "
                "such as `dt=%Y-%m-%d/hour=%H`."
            )
            raise ValueError(message)
        self._unit = units[-1]
        text = re.escape(pattern)
        for letter in units:
            text = text.replace(f"%{letter}", f"(?P<{letter}>{_DIGITS[letter]})")
        self._regex = re.compile(f"(?:^|/){text}(?:/|$)")

    def range_of(self, folder: str) -> tuple[datetime, datetime] | None:
        """Return the UTC time range that a folder's path stands for: start, and exclusive end.

        None if the path does not match the format.

        Args:
            folder: Path of the folder.

        Raises:
            ValueError: The path contains a time that does not exist, such as month 13.
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
    """Return the values of partition columns in a folder's path (Hive's ``name=value``).

    Names are compared with their case, after their percent escapes are decoded.

    Args:
        folder: Path of the folder.
        names: Names of the partition columns.

    Returns:
        Text such as ``day=2024-01-01/hour=07``, in the order of ``names``, with values as they
        stand in the path; :func:`values_of` reads it.

    Raises:
        InputError: The path has no value for one of the columns, an empty one, or two.
    """
    pairs: dict[str, str] = {}
    for part in folder.split("/"):
        name, is_pair, value = part.partition("=")
        name = _unescaped(name)
        if not is_pair or name not in names:
            continue
        if value == "" or pairs.setdefault(name, value) != value:
            told = "an empty value" if value == "" else "two values"
            message = f"Folder {folder} has {told} for the partition column `{name}`."
            way = f"the folder, such as {name}={_NULL}" if value == "" else "one of the folders"
            hint = (
                f"Rename {way}; or remove `{name}` from `partitions`. Then plan again (`hybrid "
                "plan P`)."
            )
            raise InputError(message, hint, file=folder, column=name, field="partitions")
    if absent := [name for name in names if name not in pairs]:
        message = f"Folder {folder} has no value for the partition column `{absent[0]}`."
        hint = (
            f"Name the folders {absent[0]}=<value>, as `partitions` declares, or remove "
            f"`{absent[0]}` from `partitions`."
        )
        raise InputError(message, hint, file=folder, column=absent[0], field="partitions")
    return "/".join(f"{_escaped(name)}={pairs[name]}" for name in names)


def partition_from(values: Mapping[str, object]) -> str:
    """Write values of partition columns as in a folder's path, such as ``day=2024-01-01/hour=7``.

    The reverse of :func:`values_of`. Special characters are percent-encoded; None becomes Hive's
    ``__HIVE_DEFAULT_PARTITION__``.

    Args:
        values: Values by column, in the order of the folders.
    """
    return "/".join(f"{_escaped(name)}={_as_folder(value)}" for name, value in values.items())


def _as_folder(value: object) -> str:
    if value is None:
        return _NULL
    if isinstance(value, datetime):
        value = (value if value.tzinfo is None else value.astimezone(UTC)).replace(tzinfo=None)
        value = f"{value.isoformat()}Z"
    text = value.decode() if isinstance(value, bytes) else str(value)
    return quote(text, safe="")


def values_of(partition: str) -> dict[str, str | None]:
    """Parse the partition part of a path into values by column: decoded text, None for null.

    The reverse of :func:`partition_from`.

    Args:
        partition: Text such as ``day=2024-01-01/hour=07``; empty without partition columns, which
            gives an empty mapping.
    """
    values = {}
    for part in partition.split("/") if partition else []:
        name, _, text = part.partition("=")
        values[_unescaped(name)] = None if text == _NULL else _unescaped(text)
    return values


@cache
def spark_values_of(partition: str, columns: pa.Schema) -> dict[str, str | None]:
    """Return the values of :func:`values_of` as texts that Spark casts to what they mean here.

    Arrow takes `0x10` for an integer, and `2024-01-01T05Z` for a time; to Spark both are null.

    Args:
        partition: Text whose values fit their columns (:func:`check_partitions`).
        columns: Columns with their types; the values of others are returned as they are.
    """
    values = values_of(partition)
    for name in values.keys() & {*columns.names}:
        kind, text = columns.field(name).type, values[name]
        if text is not None and (pa.types.is_integer(kind) or kind == TIMESTAMP):
            values[name] = _unescaped(_as_folder(typed_value(text, kind).as_py()))
    return values


def _escaped(name: str) -> str:
    """Return the name of a column with what would end it in a folder's path percent-encoded."""
    return name.replace("%", "%25").replace("/", "%2F").replace("=", "%3D")


def _unescaped(text: str) -> str:
    """Return a part of a folder's name without percent escapes.

    They stand for bytes of UTF-8, as Arrow and other tools write them. Where the bytes are no
    UTF-8, each stands for one character, as Spark takes all of them.
    """
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return unquote(text, "latin-1")


def check_partitions(partitions: Sequence[str], columns: Mapping[str, str]) -> None:
    """Refuse values of partition columns that do not fit the columns' types.

    Args:
        partitions: Distinct texts, as :func:`partition_of` returns them.
        columns: Names of the partition columns and their Spark SQL types.

    Raises:
        InputError: Names column, value and type.
    """
    for name, kind in columns.items():
        for partition in partitions:
            text = values_of(partition)[name]
            try:
                typed_value(text, parse_type(kind))
            except pa.ArrowException:
                message = f"`{text}`, by folder the value of `{name}`, is not a valid {kind}."
                hint = (
                    f"Correct the type under `partitions.{name}` (such as string), or rename the "
                    "folder; then plan again."
                )
                raise InputError(
                    message, hint, file=partition, column=name, field=f"partitions.{name}"
                ) from None


def typed_value(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """Convert the text of a partition value to the column's type, as an Arrow scalar.

    A timestamp without a time zone is taken as UTC.

    Args:
        text: The value as text; None for null.
        kind: Type of the column.

    Raises:
        pyarrow.ArrowException: The text is not a value of this type.
    """
    scalar = pa.scalar(text, pa.string())
    if pa.types.is_timestamp(kind) and text is not None and not text.endswith("Z"):
        scalar = pa.scalar(f"{text}Z", pa.string())
    return pc.cast(scalar, kind)


def by_folder(files: pa.Table, value_of: Callable[[str], object], kind: pa.DataType) -> pa.Array:
    """Return an array with a value for each file, computed once for each folder.

    In the order of the files; empty without files.

    Args:
        files: A table of schema :data:`sources.storage.base.FILES`.
        value_of: Computes the value from the folder's path; called once for each folder. What it
            raises is raised.
        kind: Arrow type of the values.
    """
    known: dict[str, object] = {}

    def ask(path: str) -> object:
        folder = path.rpartition("/")[0]
        if folder not in known:
            known[folder] = value_of(folder)
        return known[folder]

    return pa.array((ask(path) for path in files["path"].to_pylist()), kind, size=len(files))
