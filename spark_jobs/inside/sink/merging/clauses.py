"""Clauses of a MERGE, for Spark's SQL and for delta-rs.

Conditions and values name a row of the target ``t`` and a row of the micro-batch ``s``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from sources.common.sql.sql_names import in_backticks


class When(NamedTuple):
    """Clause of a MERGE; of several that match a row, the first one acts.

    Attributes:
        rows: Which rows it is about: those with a row of the same key on the other side
            (``MATCHED``), of the batch without one (``NOT MATCHED``), or of the target without one.
        action: What becomes of the target's row.
        condition: SQL that has to hold, too; empty for all rows.
        values: SQL for the columns that are written, by name; none for a ``DELETE``.
    """

    rows: Literal["MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"]
    action: Literal["UPDATE", "INSERT", "DELETE"]
    condition: str = ""
    values: Mapping[str, str] = MappingProxyType({})


def of_source(columns: Sequence[str]) -> dict[str, str]:
    """Return the assignments of a MERGE that write a row of the micro-batch unchanged.

    Args:
        columns: Names of the target's columns.

    Returns:
        SQL for the value by name of the column.
    """
    return {name: column("s", name) for name in columns}


def column(of: Literal["s", "t"], name: str) -> str:
    """Return SQL for a column in a MERGE: ``s`` is the micro-batch, ``t`` the target."""
    return f"{of}.{in_backticks(name)}"


def spark_sql(clauses: Sequence[When]) -> str:
    """Return a MERGE's clauses in Spark's SQL, in order, as they follow its ON condition."""
    return " ".join(_clause(each) for each in clauses)


def _clause(when: When) -> str:
    also = f" AND {when.condition}" if when.condition else ""
    return f"WHEN {when.rows}{also} THEN {_action(when)}"


def _action(when: When) -> str:
    match when.action:
        case "DELETE":
            return "DELETE"
        case "UPDATE":
            pairs = (f"{column('t', name)} = {value}" for name, value in when.values.items())
            return f"UPDATE SET {', '.join(pairs)}"
        case "INSERT":
            names = ", ".join(in_backticks(name) for name in when.values)
            return f"INSERT ({names}) VALUES ({', '.join(when.values.values())})"
