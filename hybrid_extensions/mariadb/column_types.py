"""Column types of MariaDB and MySQL, and which of them hold all values of another."""

from __future__ import annotations

import re
from typing import NamedTuple

from sources.common.table_definition import BinlogColumn

_QUOTED = re.compile(r"'((?:[^']|'')*)'")
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_DIGITS = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20}
_FLOATS = ("float", "double")
_TEXTS = ("tinytext", "text", "mediumtext", "longtext")
_BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
_SIZES = (255, 65_535, 16_777_215, 4_294_967_295)
_FRACTIONS = {"datetime", "timestamp", "time"}
_OTHER_NAMES = {
    "integer": "int",
    "bool": "tinyint",
    "boolean": "tinyint",
    "int1": "tinyint",
    "int2": "smallint",
    "int3": "mediumint",
    "int4": "int",
    "int8": "bigint",
    "numeric": "decimal",
    "dec": "decimal",
    "fixed": "decimal",
    "double precision": "double",
    "real": "double",
    "character": "char",
    "nchar": "char",
    "character varying": "varchar",
    "nvarchar": "varchar",
}
# What a type has if nothing is written: `decimal` is `decimal(10,0)`.
_PARAMETERS = {"decimal": "10,0", "char": "1", "binary": "1", "bit": "1"}
FOUR_BYTES = {"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"}
"""Character sets that hold each character."""
_THREE_BYTES = {"utf8", "utf8mb3", "ucs2"}


def plain_type(written: str) -> str:
    """Return a type in one spelling, without display attributes: ``int`` for ``INT(11) zerofill``.

    Args:
        written: The type as the database or a connector writes it.
    """
    text = re.sub(r"\b(zerofill|signed)\b", "", written, flags=re.IGNORECASE)
    head, parameters, rest = _split(text)
    name = _OTHER_NAMES.get(head, head)
    if name in _BITS or name == "year" or (name in _FRACTIONS and parameters == "0"):
        parameters = ""
    parameters = parameters or _PARAMETERS.get(name, "")
    if name in _TEXTS or name in _BLOBS:
        parameters = ""
    if name == "decimal" and "," not in parameters:
        parameters += ",0"
    if name in ("enum", "set"):
        parameters = ",".join(f"'{each}'" for each in _QUOTED.findall(parameters))
    unsigned = " unsigned" if "unsigned" in rest else ""
    return f"{name}({parameters}){unsigned}" if parameters else f"{name}{unsigned}"


def _split(text: str) -> tuple[str, str, str]:
    """Return name, parameters and the rest of a type."""
    head, bracket, after = text.partition("(")
    if not bracket:
        name, _, rest = head.strip().lower().partition(" unsigned")
        return name.strip(), "", f" unsigned{rest}" if "unsigned" in head.lower() else ""
    parameters, _, rest = after.rpartition(")")
    return head.strip().lower(), parameters.strip(), rest.lower()


class _Type(NamedTuple):
    name: str
    parameters: list[str]
    is_unsigned: bool

    @classmethod
    def of(cls, text: str) -> _Type:
        name, parameters, rest = _split(text)
        listed = _QUOTED.findall(parameters) if name in ("enum", "set") else parameters.split(",")
        return cls(name, listed if parameters else [], "unsigned" in rest)

    @property
    def length(self) -> int:
        """The first parameter; 0 without one."""
        return int(self.parameters[0]) if self.parameters and self.name != "enum" else 0


def keeps_values(old: BinlogColumn, new: BinlogColumn) -> bool:
    """Return whether a change of a column's type keeps every value that it may hold.

    Nulls in a column that becomes NOT NULL are not considered. False where it is not known, such as
    for a number that becomes a text.

    Args:
        old: The column before.
        new: The column after.
    """
    if old.is_generated != new.is_generated or not _holds_texts(old.charset, new.charset):
        return False
    if old.type == new.type:
        return True
    one, other = _Type.of(old.type), _Type.of(new.type)
    checks = (_is_wider_number, _is_longer, _has_all_members)
    return any(check(one, other) for check in checks)


def _holds_texts(old: str, new: str) -> bool:
    if not old or not new or old == new or new in FOUR_BYTES:
        return True
    return new in _THREE_BYTES and old not in FOUR_BYTES


def _is_wider_number(old: _Type, new: _Type) -> bool:
    if old.name in _BITS and new.name in _BITS:
        bits, wider = _BITS[old.name], _BITS[new.name]
        if old.is_unsigned == new.is_unsigned:
            return wider >= bits
        return old.is_unsigned and wider > bits
    if new.name == "decimal" and (old.name == "decimal" or old.name in _BITS):
        if new.is_unsigned and not old.is_unsigned:
            return False
        whole = [str(_DIGITS.get(old.name)), "0"]
        return _has_more_digits(
            old if old.name == "decimal" else old._replace(parameters=whole), new
        )
    is_float = old.name in _FLOATS and new.name in _FLOATS
    if not is_float or (new.is_unsigned and not old.is_unsigned):
        return False
    if old.name == new.name:
        return not new.parameters or _has_more_digits(old, new)
    # Digits that a float shows are not those of its double.
    return new.name == "double" and not old.parameters and not new.parameters


def _has_more_digits(old: _Type, new: _Type) -> bool:
    if not len(old.parameters) == len(new.parameters) == 2:
        return False
    (digits, scale), (most, kept) = map(int, old.parameters), map(int, new.parameters)
    return kept >= scale and most - kept >= digits - scale


def _is_longer(old: _Type, new: _Type) -> bool:
    if old.name == new.name and old.name in {*_FRACTIONS, "varchar", "varbinary", "char", "bit"}:
        return new.length >= old.length
    if (old.name, new.name) == ("char", "varchar"):
        return new.length >= old.length
    for short, ladder, bytes_each in (
        (("varchar", "char"), _TEXTS, 4),
        (("varbinary",), _BLOBS, 1),
    ):
        if new.name not in ladder:
            continue
        if old.name in ladder:
            return ladder.index(new.name) >= ladder.index(old.name)
        if old.name in short:
            return _SIZES[ladder.index(new.name)] >= old.length * bytes_each
    return False


def _has_all_members(old: _Type, new: _Type) -> bool:
    if old.name == new.name == "set":
        # The members of a value are in the order of the definition.
        return new.parameters[: len(old.parameters)] == old.parameters
    if old.name != "enum":
        return False
    if new.name == "enum":
        return {*old.parameters} <= {*new.parameters}
    longest = max(map(len, old.parameters), default=0)
    return new.name == "varchar" and new.length >= longest
