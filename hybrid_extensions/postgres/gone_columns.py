"""Columns that are gone from a change of a PostgreSQL table: dropped or renamed.

PostgreSQL gives each column of a table a number, which a renamed one keeps and no other one gets,
and keeps the entry of one that was dropped. The log has no statements, so a name of before the
present one is known only if nothing else can have had it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from hybrid_extensions.cdc.databases.captured_table import GoneColumns, UnknownDefault
from hybrid_extensions.postgres.added_columns import asking
from sources.common.table_definition import PostgresDefinition

_ATTRIBUTES = (
    "SELECT a.attnum::int, a.attname::text, a.attisdropped, age(a.xmin)::int FROM pg_attribute a "
    "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0"
)


class _Attribute(NamedTuple):
    """A column as the catalog has it.

    Attributes:
        number: Its number.
        name: Its name; one that no column can have if it was dropped.
        is_dropped: Whether it was dropped.
        age: Transactions since its entry was changed.
    """

    number: int
    name: str
    is_dropped: bool
    age: int


def find_gone_columns(asked: GoneColumns) -> dict[str, str | None]:
    """Return the new name of each column that a change lacks; None for one that was dropped.

    The numbers of columns in the catalog decide.

    Args:
        asked: The columns, their table, and how its database is reached.

    Raises:
        UnknownDefault: What became of a column can't be known; says why.
        InputError: The database refuses.
        UnavailableError: The database does not answer.
    """
    if not isinstance(asked.new.definition, PostgresDefinition):
        reason = "the numbers of the columns at the snapshot are not known"
        raise UnknownDefault(reason)
    numbers = {name: each.number for name, each in asked.new.definition.columns.items()}
    schema, _, table = asked.new.table.partition(".")
    with asking(asked.new.options, asked.new.table) as connection:
        rows = connection.execute(_ATTRIBUTES, [schema, table]).fetchall()
    there = {each.number: each for each in (_Attribute(*row) for row in rows)}
    found, last = dict[str, str | None](), list[int]()
    for name, before in asked.gone.items():
        if (now := there.get(numbers.get(name, 0))) is None:
            reason = f"the number of `{name}` at the snapshot is not known"
            raise UnknownDefault(reason)
        found[name] = None if now.is_dropped else _new_name(before, now, asked.new.names, there)
        last.append(now.age)
    for name, before in asked.present.items():
        _require_same(before, there.get(numbers.get(name, 0)), min(last))
    return found


def _new_name(
    before: str, now: _Attribute, new: Collection[str], there: Mapping[int, _Attribute]
) -> str:
    """Return the name that a column had in the change, in which it has one of some new names."""
    if now.name == before:
        reason = (
            f"the table has the column `{before}`: it was renamed and renamed back, or the "
            "connector left it out"
        )
        raise UnknownDefault(reason)
    if now.name in new:
        return now.name
    # It had none of the names that other columns have.
    others = {each.name for each in there.values() if each.number != now.number}
    possible = [name for name in new if name not in others]
    if len(possible) != 1:
        reason = f"which of its columns was `{before}` at this change is not known"
        raise UnknownDefault(reason)
    return possible[0]


def _require_same(before: str, now: _Attribute | None, last: int) -> None:
    """Refuse a column of the change that may have been another one under the same name.

    Args:
        before: Its name.
        now: Its entry; None if its number is not known.
        last: Age of what was done last to the columns that the change lacks.
    """
    if now is None or now.name == before or (now.is_dropped and now.age < last):
        return
    reason = (
        f"column `{before}`, which the change has, was dropped or renamed, too, so that the change "
        "may hold another column's values under that name"
    )
    raise UnknownDefault(reason)
