"""Errors for a column that a change adds, lacks or widens, with what to declare for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sources.decoding.base import DifferentColumnsError
from sources.decoding.changes.envelopes import Encoding
from sources.errors import ErrorReport, InputError

_PLAIN = ("boolean", "smallint", "int", "bigint", "double", "float", "string")


class ChangedColumnsError(DifferentColumnsError):
    """Error of a change whose row has undeclared columns, or lacks declared ones.

    With ``on_schema_change`` the driver asks the database how the columns were altered, and starts
    the query again with the columns as they are then.

    Attributes:
        fields: ``value`` has the columns, as a JSON object: :class:`ColumnsOfChange`.
    """

    kind = "changed_columns"


class ColumnsOfChange(NamedTuple):
    """Columns of a change that differ from the declared ones.

    Attributes:
        new: Undeclared columns: their Spark SQL types by name, as the envelope's schema tells them;
            None where it does not.
        gone: Declared columns that the change lacks.
        present: Declared columns that it has, by their names in the ``schema``.
    """

    new: dict[str, str | None]
    gone: list[str]
    present: list[str]


class WidenedColumnError(DifferentColumnsError):
    """Error of a change with a value that the declared type of its column can't hold.

    With ``on_schema_change: follow`` the driver asks the database whether the column was widened,
    and starts the query again with the wider type.
    """

    kind = "widened_column"


def widened_column(table: str, name: str, kind: str, value: str, new_start: str) -> InputError:
    """Return the error, for the caller to raise, that a value does not fit its column's type.

    Args:
        table: The captured table, ``schema.table``.
        name: The column.
        kind: Its declared Spark SQL type.
        value: The value or type that does not fit, for the message.
        new_start: How to begin again with a new snapshot: the end of a sentence of the hint.
    """
    message = (
        f"A change of the source database's table `{table}` has {value} in column `{name}`, which "
        f"is declared as {kind}. The run stops before this change."
    )
    hint = (
        f"If the column was widened, declare its new type, `widened_columns: {{{name}: <type>}}`, "
        "and run `hybrid resume P`. If it is in `sink.key`, or the new type is no wider one: "
        f"correct the `schema`, {new_start}."
    )
    return WidenedColumnError(message, hint, table=table, column=name)


def columns_of_change(report: ErrorReport) -> ColumnsOfChange:
    """Return the columns that a reported :class:`ChangedColumnsError` is about.

    Args:
        report: Report of such an error, and of no other one.
    """
    return ColumnsOfChange(**json.loads(str(report.fields["value"])))


class ChangedTable(NamedTuple):
    """A captured table whose columns differ from the declared ones, as a change shows.

    Attributes:
        name: The captured table, ``schema.table``.
        encodings: How its columns are encoded, by the envelope's schema; empty without a schema.
        origin: The envelope's ``source`` block.
        new_start: How to begin again with a new snapshot: the end of a sentence of a hint.
    """

    name: str
    encodings: Mapping[str, Encoding]
    origin: Mapping[str, Any]
    new_start: str


def changed_columns(
    table: ChangedTable, new: Sequence[str], missing: Sequence[str], present: Sequence[str]
) -> InputError:
    """Return the error of a change whose row has undeclared columns, or lacks declared ones.

    For the caller to raise: a :class:`ChangedColumnsError`, whose hint says what to declare for all
    of the columns, so that one stop is enough. At least one column has to be new or missing.

    Args:
        table: The table, and what the change says of it.
        new: Columns that are not declared.
        missing: Declared columns that the row lacks.
        present: Declared columns that it has.
    """
    encodings = table.encodings
    news = _named(new)
    head = f"The source database's table `{table.name}`"
    has = f"{head} has {news} that {'is' if len(new) == 1 else 'are'} not declared"
    these = "this column" if len(new) == 1 else "these columns"
    add = f"`added_columns: {{{', '.join(_declared(name, encodings) for name in new)}}}`"
    drop = f"`dropped_columns: [{', '.join(missing)}]`"
    if new and missing:
        message = (
            f"{has}, and no longer has {_list(missing)}. The run stops before the first change "
            "with these columns."
        )
        renamed = " and ".join(
            f"`{old}` was renamed to `{name}`" for old, name in zip(missing, new, strict=False)
        )
        hint = (
            f"If {renamed}: declare {_renamed(new, missing)}; the target keeps the name of the "
            f"`schema`. If not: declare {add} and {drop}. Then run `hybrid resume P`."
        )
    elif new:
        message = f"{has}. The run stops before the first change with {these}."
        hint = (
            f"To add {these} to the target, declare {add} in the source of this topic"
            f"{_with_default(table, new)}; to leave a column out for good, list it there in "
            "`ignored_columns`. Then run `hybrid resume P`."
        )
    else:
        message = (
            f"{head} no longer has {'the column' if len(missing) == 1 else 'the columns'} "
            f"{_list(missing)} of the `schema`. The run stops before the first change without "
            f"{'it' if len(missing) == 1 else 'them'}."
        )
        hint = (
            f"If {_list(missing)} {'was' if len(missing) == 1 else 'were'} dropped, declare {drop} "
            "(null from then on), or `emptied_columns` to remove the values of all rows, then run "
            "`hybrid resume P`. If the connector leaves a column "
            "out, add it to the connector's `column.include.list`."
        )
        if table.origin.get("connector") == "postgresql":
            hint += (
                " A long array that an update left as it was may be missing, too: then run ALTER "
                f"TABLE {table.name} REPLICA IDENTITY FULL, {table.new_start}."
            )
    kinds = {name: encodings[name].kind if name in encodings else None for name in new}
    found = ColumnsOfChange(kinds, [*missing], [*present])
    return ChangedColumnsError(
        message,
        hint,
        table=table.name,
        column=[*new, *missing][0],
        value=json.dumps(found._asdict()),
    )


def where_defaults_are(table: str, names: Sequence[str], origin: Mapping[str, Any]) -> str:
    """Return, for an error's hint, where people find what older rows hold in an added column.

    For PostgreSQL it is a query of the catalog, for other databases the ALTER TABLE in a topic.

    Args:
        table: The captured table.
        names: The columns.
        origin: The envelope's ``source`` block.
    """
    if origin.get("connector") != "postgresql":
        those = "that column" if len(names) == 1 else "these columns"
        return (
            f"the DEFAULT in the ALTER TABLE that added {those}, which the connector has reported "
            f"in topic `{origin.get('name')}`"
        )
    listed = ", ".join(f"'{name}'" for name in names)
    where = f"= {listed}" if len(names) == 1 else f"IN ({listed})"
    attribute = "attmissingval" if len(names) == 1 else "attname, attmissingval"
    return (
        f"`SELECT {attribute} FROM pg_attribute WHERE attrelid = '{table}'::regclass AND "
        f"attname {where}`"
    )


def _declared(name: str, encodings: Mapping[str, Encoding]) -> str:
    """Return an added column as it is declared, as far as the envelope's schema tells."""
    encoding = encodings.get(name)
    kind = "<type>" if encoding is None or encoding.kind is None else encoding.kind
    kind = f'"{kind}"' if "," in kind else kind
    if encoding is None or encoding.default is None:
        return f"{name}: {kind}"
    return f"{name}: {{type: {kind}, default: {_default(encoding)}}}"


def _default(encoding: Encoding) -> str:
    default: Any = encoding.default
    if encoding.kind not in _PLAIN or encoding.name is not None:
        return "<default>"
    if isinstance(default, bool):
        return str(default).lower()
    return f'"{default}"' if isinstance(default, str) else str(default)


def _renamed(new: Sequence[str], missing: Sequence[str]) -> str:
    pairs = zip(missing, new, strict=False)
    return f"`renamed_columns: {{{', '.join(f'{old}: {name}' for old, name in pairs)}}}`"


def _with_default(table: ChangedTable, new: Sequence[str]) -> str:
    """Return a remark on the defaults of added columns, as the middle of a sentence."""
    known = [name for name in new if name in table.encodings]
    having = [name for name in known if table.encodings[name].default is not None]
    if having:
        return (
            f" after a look at what older rows hold, as Debezium knows constants only: "
            f"{where_defaults_are(table.name, having, table.origin)}"
        )
    return "" if len(known) == len(new) else ", with the default of each that has one"


def _named(names: Sequence[str]) -> str:
    return f"a column {_list(names)}" if len(names) == 1 else f"columns {_list(names)}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
