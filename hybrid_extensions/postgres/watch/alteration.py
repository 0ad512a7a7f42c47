"""Alterations of a PostgreSQL table that no change reports, from two catalog entries.

PostgreSQL decodes changes of rows only: what an ALTER TABLE does to the rows that are there, and
what becomes of a table whose name another one gets, is in no change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hybrid_extensions.postgres.watch.catalog_definition import Rows
from sources.common.table_definition import PostgresColumn, PostgresDefinition

_NUMBER = re.compile(r"numeric\((\d+),(-?\d+)\)")
_LENGTH = re.compile(r"(character varying|bit varying|timestamp|time|interval)\((\d+)\)(.*)")
_INTEGERS = ("smallint", "integer", "bigint")
_TEXTS = ("character varying", "text")
_WIDER = {
    ("real", "double precision"),
    ("character varying", "text"),
    ("text", "character varying"),
    ("json", "text"),
    ("uuid", "text"),
}


def find_alteration(
    before: PostgresDefinition,
    now: PostgresDefinition | None,
    names: Mapping[str, str],
    rows: Rows,
) -> str | None:
    """Return an alteration that no change reports, as a predicate; None if there is none.

    Other columns than those of the primary key may have been added, dropped or renamed: the changes
    show these. A key with a renamed column is another one, even if ``names`` has both names: the
    records of a row have another key since then, and may be in another partition.

    Args:
        before: The table at the last look, or at its snapshot.
        now: The table now; None if there is none of its name.
        names: Names of the captured columns now, by their names before.
        rows: Answers questions about the age of rows; may raise what it raises.

    Returns:
        A text such as ``has another primary key now: …``.
    """
    if now is None:
        return "is no longer there: it was dropped or renamed"
    if now.oid != before.oid:
        return "is a different table now: the captured one was dropped or renamed"
    if sorted(now.key) != sorted(before.key):
        were = _listed(before.key)
        return f"has another primary key now: {_listed(now.key)} instead of {were}"
    if now.identity in ("i", "n") and now.identity != before.identity:
        what = "NOTHING" if now.identity == "n" else "USING INDEX"
        return f"has REPLICA IDENTITY {what} now: deletes may no longer carry its key"
    both = {id_ for id_ in before.files if id_ in now.files}
    moved = {id_ for id_ in both if now.files[id_].node != before.files[id_].node}
    for name, present in names.items():
        if name not in before.columns or present not in now.columns:
            continue
        old, new = before.columns[name], now.columns[present]
        if (found := _column(present, old, new)) is not None:
            return found
        by = new.changed_by
        is_expected = by == old.changed_by or _rewrites(before, now, by)
        if not is_expected and any(rows.has_rewritten(id_, by) for id_ in moved):
            return (
                f"was rewritten by a statement on column `{present}`, as ALTER COLUMN … TYPE … "
                "USING does: the rows that were there may have other values"
            )
    writers = {each.changed_by for each in now.columns.values()}
    for id_ in sorted(moved):
        writer = now.files[id_].written_by
        if writer not in writers and rows.has_rewritten(id_, writer):
            return "was rewritten, as SET LOGGED does: changes while it was UNLOGGED are in no log"
    return _partitions(before, now, moved, rows)


def _column(name: str, old: PostgresColumn, new: PostgresColumn) -> str | None:
    """Return what was done to a column by itself."""
    if new.number != old.number:
        return f"has another column named `{name}`: it was dropped and added, or renamed"
    gone = [label for id_, label in old.labels.items() if new.labels.get(id_) != label]
    is_same = new.type == old.type or (old.labels and old.labels.keys() <= new.labels.keys())
    is_text = old.labels and not old.type.endswith("[]") and new.type in _TEXTS
    if not is_same and not is_text and not keeps_values(old.type, new.type):
        return (
            f"has column `{name}` of type {new.type} now, which was {old.type}: the rows that were "
            "there may have other values"
        )
    if gone and is_same:
        return (
            f"has other values in rows with `{gone[0]}` in column `{name}`, a value of {old.type} "
            "that was renamed"
        )
    return None


def _is_relabelled(old: PostgresColumn, new: PostgresColumn) -> bool:
    """Return whether PostgreSQL takes the values of a type for those of a wider one as they are.

    It then rewrites no row: https://www.postgresql.org/docs/current/sql-altertable.html (notes).
    """
    if _LENGTH.fullmatch(old.type) is not None or {old.type, new.type} == {*_TEXTS}:
        return True
    number, wider = _NUMBER.fullmatch(old.type), _NUMBER.fullmatch(new.type)
    return number is not None and (new.type == "numeric" or (wider and wider[2]) == number[2])


def _rewrites(before: PostgresDefinition, now: PostgresDefinition, transaction: str) -> bool:
    """Return whether a transaction changed a column so that rows have to be rewritten."""
    numbers = {column.number: column for column in before.columns.values()}
    for column in now.columns.values():
        if column.changed_by != transaction:
            continue
        old = numbers.get(column.number)
        if old is None and column.has_default:
            return True
        if old is not None and old.type != column.type and not _is_relabelled(old, column):
            return True
    return False


def _partitions(
    before: PostgresDefinition, now: PostgresDefinition, moved: set[str], rows: Rows
) -> str | None:
    """Return what was done to partitions by themselves."""
    old, new = before.files, now.files
    for id_, file in old.items():
        if id_ not in new:
            return f"has lost partition {file.name}, which was dropped or detached"
        # After pg_upgrade each entry of the catalog is of another transaction.
        is_same_catalog = file.created_by in ("", new[id_].created_by)
        if new[id_].attached_by != file.attached_by and is_same_catalog:
            return f"has partition {file.name} that was detached and attached again"
    for id_ in sorted(new.keys() - old.keys()):
        by, command, created_by = new[id_].attached_by, new[id_].attached_at, new[id_].created_by
        # Nobody else saw what one transaction created and attached; those inserted afterwards that
        # have an older id.
        if rows.has_earlier(id_, by, command) or (created_by != by and rows.has_older(id_, by)):
            return f"has got partition {new[id_].name} with rows that were there before"
    writers = {new[id_].written_by for id_ in moved}
    is_whole = len(old) > 1 and moved == old.keys() and len(writers) == 1
    # A TRUNCATE of the whole table is a change.
    if before.oid not in old and not is_whole:
        for id_ in sorted(moved):
            if not old[id_].is_empty and not rows.has_older_than_file(id_, before.horizon):
                return f"has partition {new[id_].name} that was truncated by itself"
    return None


def is_narrowed(old: PostgresColumn, new: PostgresColumn) -> bool:
    """Return whether a column's type holds less than before, and nothing else.

    False if it is another column now, or if that is not known.
    """
    is_same = old.number == new.number
    return is_same and keeps_values(new.type, old.type) and not keeps_values(old.type, new.type)


def keeps_values(old: str, new: str) -> bool:
    """Return whether every value of a type stays the same in another type.

    False where it is not known.

    Args:
        old: The type as PostgreSQL prints it, such as ``numeric(12,4)``.
        new: The other type, likewise.
    """
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS.index(new) >= _INTEGERS.index(old)
    if (old, new) in _WIDER:
        return True
    number = _NUMBER.fullmatch(old)
    if number is not None or old in _INTEGERS:
        if new == "numeric":
            return True
        wider = _NUMBER.fullmatch(new)
        digits, scale = (19, 0) if number is None else (int(number[1]), int(number[2]))
        return (
            wider is not None
            and int(wider[2]) >= scale
            and (int(wider[1]) - int(wider[2]) >= digits - scale)
        )
    if (length := _LENGTH.fullmatch(old)) is not None:
        kind, most, rest = length.groups()
        longer = _LENGTH.fullmatch(new)
        if longer is not None and (longer[1], longer[3]) == (kind, rest):
            return int(longer[2]) >= int(most)
        return new == f"{kind}{rest}" or (kind == "character varying" and new == "text")
    return False


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
