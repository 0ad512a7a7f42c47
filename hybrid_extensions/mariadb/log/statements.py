"""ALTER TABLE statements: changes of columns, and the values that older rows get.

Debezium's own reading of the statement is not used: it reports 1970 for ``CURRENT_TIMESTAMP`` and
nothing for ``DEFAULT (uuid())``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from hybrid_extensions.cdc.databases.captured_table import UnknownDefault
from hybrid_extensions.mariadb.snapshot.columns import Column

Value = bool | int | float | str
_EXECUTED = re.compile(r"/\*M?!")
"""Comments that some servers execute, and the parser leaves out."""
_RENAMES = re.compile(r"\b(RENAME|CHANGE|EXCHANGE)\b", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?")
_NUMBERS = {"tinyint", "smallint", "mediumint", "int", "bigint", "year"}
_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
# What says nothing about the values of rows that are there; the default and NOT NULL do.
_SILENT = (
    exp.CharacterSetColumnConstraint,
    exp.CheckColumnConstraint,
    exp.CollateColumnConstraint,
    exp.CommentColumnConstraint,
    exp.InvisibleColumnConstraint,
    exp.PrimaryKeyColumnConstraint,
    exp.Reference,
    exp.UniqueColumnConstraint,
    exp.ZeroFillColumnConstraint,
)


class Alteration:
    """Parsed ALTER TABLE statement. Making it raises nothing: see ``is_known``.

    Args:
        statement: The statement, as it is in the binary log.

    Attributes:
        is_known: Whether it is one ``ALTER TABLE`` that could be parsed.
    """

    def __init__(self, statement: str) -> None:
        self._statement = statement
        try:
            # What is not understood is a `Command`, after a warning, unless it begins otherwise.
            parsed = parse_one(statement, read="mysql") if _is_plain(statement) else None
        except SqlglotError:
            parsed = None
        self.is_known = isinstance(parsed, exp.Alter)
        self._actions = parsed.args.get("actions", []) if isinstance(parsed, exp.Alter) else []

    @property
    def may_rename(self) -> bool:
        """Whether the statement could not be parsed and may rename a column."""
        return not self.is_known and _RENAMES.search(self._statement) is not None

    def renames(self) -> dict[str, str]:
        """Return the new names of renamed columns, by the old ones, in lower case.

        Empty if the statement could not be parsed.
        """
        found = {}
        for action in self._actions:
            if isinstance(action, exp.RenameColumn):
                found[str(action.this.name).lower()] = str(action.args["to"].name).lower()
            old = action.args.get("rename_from")
            if old is not None and old.name.lower() != action.this.name.lower():
                found[str(old.name).lower()] = str(action.this.name).lower()
        return found

    def added(self) -> dict[str, exp.ColumnDef]:
        """Return the definitions of added columns, by name in lower case.

        Empty if the statement could not be parsed.
        """
        return {
            each.name.lower(): each for each in self._actions if isinstance(each, exp.ColumnDef)
        }

    def value_of(self, column: Column) -> Value | None:
        """Return the value that existing rows get in an added column; None for null.

        Args:
            column: The column, as the database has it.

        Raises:
            UnknownDefault: The statement does not say it, or it is no constant.
        """
        added = self.added().get(column.name.lower())
        if added is None:
            what = "adds none" if self.is_known else "is not sure to be understood"
            reason = f"`{column.name}` came by the statement `{self._statement}`, which {what}"
            raise UnknownDefault(reason)
        constraints = list(_constraints(added))
        is_serial = added.kind is not None and added.kind.this == exp.DataType.Type.SERIAL
        if is_serial or any(
            isinstance(each, exp.AutoIncrementColumnConstraint) for each in constraints
        ):
            reason = f"`{column.name}` is AUTO_INCREMENT, so that each row got a number of its own"
            raise UnknownDefault(reason)
        said = (*_SILENT, exp.DefaultColumnConstraint, exp.NotNullColumnConstraint)
        for each in constraints:
            if not isinstance(each, said):
                reason = (
                    f"what `{column.name}` holds is not followed, as it was added with "
                    f"`{each.sql('mysql')}`"
                )
                raise UnknownDefault(reason)
        for each in constraints:
            if isinstance(each, exp.DefaultColumnConstraint):
                return self._default(each.this, column)
        is_not_null = any(
            isinstance(each, exp.PrimaryKeyColumnConstraint)
            or (isinstance(each, exp.NotNullColumnConstraint) and not each.args.get("allow_null"))
            for each in constraints
        )
        return self._implicit(column, added) if is_not_null else None

    def _default(self, default: exp.Expression, column: Column) -> Value | None:
        """Return a literal default as the column holds it."""
        literal, sign = (default.this, "-") if isinstance(default, exp.Neg) else (default, "")
        if isinstance(default, exp.Null):
            return None
        if isinstance(default, exp.Boolean) and column.kind in _NUMBERS:
            return int(bool(default.this))
        if isinstance(literal, exp.Literal) and (not sign or not literal.is_string):
            found = _read(sign + str(literal.this), column)
            # Whether it begins an escape depends on the session's `sql_mode`.
            if found is not None and "\\" not in self._statement:
                return found
        reason = (
            f"the default of `{column.name}` ({default.sql('mysql')}) is no constant that a column "
            f"of the type `{column.full}` holds as it is written"
        )
        raise UnknownDefault(reason)

    def _implicit(self, column: Column, added: exp.ColumnDef) -> Value:
        """Return what a NOT NULL column without a default holds.

        https://mariadb.com/kb/en/alter-table/#add-column
        """
        if column.kind == "enum" and added.kind is not None and added.kind.expressions:
            return str(added.kind.expressions[0].this)
        if column.kind in _TEXTS - {"enum"}:
            return ""
        if column.kind in _NUMBERS - {"year"} | {"decimal", "float", "double"}:
            return 0
        reason = (
            f"`{column.name}` is NOT NULL without a default, and what a column of the type "
            f"`{column.full}` then holds is not followed"
        )
        raise UnknownDefault(reason)


def _is_plain(statement: str) -> bool:
    begins = statement.lstrip().upper().startswith("ALTER TABLE")
    # The log has statements in the character set of their session, and Debezium reads UTF-8.
    return begins and "\ufffd" not in statement and _EXECUTED.search(statement) is None


def _constraints(column: exp.ColumnDef) -> Iterator[exp.Expression]:
    for each in column.args.get("constraints") or []:
        if each.args.get("kind") is not None:
            yield each.args["kind"]


def _read(text: str, column: Column) -> Value | None:
    """Return a literal as a column holds it; None if that may look otherwise."""
    kind = column.kind
    if kind in _NUMBERS:
        is_year = kind == "year"
        return int(text) if re.fullmatch(r"\d{4}" if is_year else r"-?\d+", text) else None
    if kind in ("decimal", "float", "double"):
        return _number(text, column)
    if kind in _TEXTS:
        # CHAR loses spaces at its end.
        return text if kind != "char" or text == text.rstrip(" ") else None
    if kind == "date":
        return text if _DATE.fullmatch(text) else None
    if kind == "datetime" and _MOMENT.fullmatch(text):
        digits = len(text.partition(".")[2])
        kept = int(column.full.partition("(")[2].rstrip(")") or 0)
        return f"{text}+00:00" if digits <= kept else None
    return None


def _number(text: str, column: Column) -> Value | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if column.kind == "decimal":
        # A default with more digits than the type is refused by the type that is declared.
        return str(number)
    # `float(10,2)` rounds.
    return float(number) if "(" not in column.full else None
