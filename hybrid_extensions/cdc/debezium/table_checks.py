"""Refused declarations of a captured table: added, dropped, renamed, widened columns; `select`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sources.decoding.changes.declared_table import DeclaredTable, lacking
from sources.decoding.changes.renamed_columns import NewNames, all_names
from sources.decoding.changes.schema_policies import ALL_STOP
from sources.decoding.changes.widened_columns import is_widened
from sources.decoding.record_columns import RecordColumns


def check_columns(table: DeclaredTable, columns: RecordColumns) -> None:
    """Refuse declared changes of columns that do not fit ``schema`` or ``select``.

    Called while the declaration is validated.

    Args:
        table: The declared table.
        columns: The declared columns of the topic.

    Raises:
        ValueError: Contains the column, and what to correct.
    """
    if columns.columns is None:
        raise ValueError(lacking("schema"))
    _check_select(table, columns)
    known = {name: kind for name, kind in columns.columns.items() if name not in columns.include}
    listed = ", ".join(sorted(known))
    for field, names in (
        ("dropped_columns", table.dropped_columns),
        ("emptied_columns", table.emptied_columns),
    ):
        for name in names:
            if name not in known and name not in table.added_columns:
                message = (
                    f"`{field}`: no column `{name}` is declared in the `schema`. Correct "
                    f"the name, or remove it; the declared columns are {listed}."
                )
                raise ValueError(message)
    for name in table.added_columns:
        if name in known or name in columns.include:
            message = (
                f"`added_columns`: there is a column `{name}` already, in `schema` or "
                "`include`. Remove it in one of the two places."
            )
            raise ValueError(message)
    for name, kind in table.widened_columns.items():
        if name not in known:
            message = (
                f"`widened_columns`: no column `{name}` is declared in the `schema`. Correct "
                f"the name, or remove it; the declared columns are {listed}."
            )
            raise ValueError(message)
        if not is_widened(known[name], kind):
            message = (
                f"`widened_columns`: {kind} does not hold every {known[name]}, the type of "
                f"column `{name}` in the `schema`. Correct it; another type needs a new "
                "generation with a new snapshot."
            )
            raise ValueError(message)
    taken = {*columns.columns, *columns.include, *table.added_columns, *table.ignored_columns}
    _check_renamed(table.renamed_columns, known, taken)
    for name in table.ignored_columns:
        if name in known or name in table.added_columns:
            message = (
                f"`ignored_columns`: column `{name}` is declared, so it can't be ignored. "
                "Remove it there, or from `schema` and `added_columns`."
            )
            raise ValueError(message)


def _check_select(table: DeclaredTable, columns: RecordColumns) -> None:
    """Refuse a ``select`` beside what has to know which columns of the table it leaves."""
    defines = "`select`, which defines all columns. Remove "
    unchanged = columns.envelope_column("unchanged")
    for is_declared, name, why in (
        (
            table.follows_truncates,
            "on_truncate: follow",
            "`select`, which may leave out the event or give it a key. Remove one of the two.",
        ),
        (table.policies != ALL_STOP, "on_schema_change", f"{defines}one of the two."),
        (
            unchanged is not None,
            f"include.{unchanged}: unchanged",
            "`select`, which may compute columns from a value that the change lacks. Remove "
            "one of the two.",
        ),
        (
            bool(table.added_columns),
            "added_columns",
            f"{defines}`added_columns`, or remove `select`.",
        ),
        (bool(table.widened_columns), "widened_columns", f"{defines}one of the two."),
        (bool(table.emptied_columns), "emptied_columns", f"{defines}one of the two."),
    ):
        if columns.select and is_declared:
            message = f"`{name}` has no meaning with {why}"
            raise ValueError(message)


def _check_renamed(
    renamed: Mapping[str, NewNames], known: Collection[str], taken: Collection[str]
) -> None:
    """Refuse new names for a column that is not declared, or that another column has.

    Args:
        renamed: New names of each column.
        known: Columns of the ``schema`` that are in the table.
        taken: Names that other columns have, or had.

    Raises:
        ValueError: Contains the column, and what to correct.
    """
    seen: set[str] = set()
    for name, new in renamed.items():
        if name not in known:
            message = (
                f"`renamed_columns`: no column `{name}` is declared in the `schema`. Write the "
                "name that it has there, then its new name; the declared columns are "
                f"{', '.join(sorted(known))}."
            )
            raise ValueError(message)
        for each in all_names(new):
            if each in taken or each in seen:
                message = (
                    f"`renamed_columns`: `{each}`, the new name of column `{name}`, is the name of "
                    "another column, so that a change does not tell which one it holds. Correct "
                    "it; or, if the table is like that, begin a new generation with a new "
                    "snapshot: `hybrid generation new P`."
                )
                raise ValueError(message)
            seen.add(each)
