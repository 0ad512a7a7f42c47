"""A table in the catalog of MariaDB or MySQL, and which changes of it leave all values as they are.

An ALTER TABLE that rewrites rows writes no changes of rows to the binary log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sources.common.optional import needs_extra
from sources.common.table_definition import BinlogColumn, BinlogDefinition
from sources.databases.mariadb.server import ask
from sources.databases.mariadb.snapshot.keys import key_of

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.cursors import Cursor

_COLUMNS = (
    "SELECT column_name, column_type, character_set_name, is_nullable, "
    "extra REGEXP '(VIRTUAL|STORED|PERSISTENT) GENERATED' FROM information_schema.columns "
    "WHERE table_schema = BINARY %s AND table_name = BINARY %s ORDER BY ordinal_position"
)
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
_FOUR_BYTES = {"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"}
_THREE_BYTES = {"utf8", "utf8mb3", "ucs2"}


def read_definition(connection: Connection[Cursor], table: str) -> BinlogDefinition | None:
    """Return what the catalog says of a table.

    Args:
        connection: Open connection to the server.
        table: The table, ``database.table``.

    Returns:
        None if there is no such table, or its columns can't be read.

    Raises:
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    schema, _, name = table.partition(".")
    columns = {
        str(column): BinlogColumn(
            type=plain_type(str(kind)),
            charset=str(charset or ""),
            is_nullable=nullable == "YES",
            is_generated=bool(generated),
        )
        for column, kind, charset, nullable, generated in ask(connection, _COLUMNS, schema, name)
    }
    if not columns:
        return None
    return BinlogDefinition(key=key_of(connection, table), columns=columns)


def reported_definition(table: Mapping[str, Any]) -> BinlogDefinition:
    """Return what a connector says of a table in the topic of statements.

    Args:
        table: The part ``table`` of one of the ``tableChanges``.
    """
    columns = {}
    for column in table.get("columns") or []:
        parameters = [column.get("length"), column.get("scale")]
        listed = column.get("enumValues") or [each for each in parameters if each is not None]
        kind = str(column["typeExpression"]).lower()
        name, _, sign = kind.partition(" unsigned")
        written = f"({','.join(map(str, listed))})" if listed else ""
        unsigned = " unsigned" if "unsigned" in kind else ""
        columns[str(column["name"])] = BinlogColumn(
            type=plain_type(f"{name}{written}{unsigned}{sign}"),
            charset=str(column.get("charsetName") or ""),
            is_nullable=bool(column.get("optional")),
            is_generated=bool(column.get("generated")),
        )
    key = [str(name) for name in table.get("primaryKeyColumnNames") or []]
    return BinlogDefinition(key=key, columns=columns)


def plain_type(written: str) -> str:
    """Return a type without what only says how it is displayed, such as ``int(11) zerofill``.

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


def find_alteration(
    before: BinlogDefinition, after: BinlogDefinition, names: Mapping[str, str]
) -> str | None:
    """Return what changed in a table that no change reports, as a predicate; None if nothing.

    Columns that were added, dropped or renamed are not looked at: the changes show these.

    Args:
        before: The table before.
        after: The table after.
        names: Names of the captured columns before, and after.
    """
    if sorted(before.key) != sorted(after.key):
        were = _listed(before.key)
        return f"has another primary key now: {_listed(after.key)} instead of {were}"
    for name, present in names.items():
        if name not in before.columns or present not in after.columns:
            continue
        old, new = before.columns[name], after.columns[present]
        if not keeps_values(old, new):
            return (
                f"has column `{present}` as {_described(new)} now, which was {_described(old)}: "
                "the rows that were there may have other values"
            )
    return None


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
    """Return whether each value that a column may hold is the same after it was changed.

    What becomes of nulls in a column that becomes NOT NULL is not looked at.

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
    if not old or not new or old == new or new in _FOUR_BYTES:
        return True
    return new in _THREE_BYTES and old not in _FOUR_BYTES


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


def _described(column: BinlogColumn) -> str:
    parts = [column.type]
    if column.charset and column.charset not in _FOUR_BYTES:
        parts.append(f"of {column.charset}")
    if column.is_generated:
        parts.append("that is generated")
    return f"{' '.join(parts)}{'' if column.is_nullable else ' NOT NULL'}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
