"""Effects of DDL on a table's rows that no change reports: RENAME, partitions, ENGINE, IGNORE.

Found in the text of a statement: a connector reports definitions of tables, and not the effects
on rows. Names are compared without regard to case, as some servers do.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_NAME = r"(?:`(?:[^`]|``)+`|[\w$\u0080-\uffff]+)"
_TABLE = rf"({_NAME}(?:\s*\.\s*{_NAME})?)"
_IF = r"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?"
# Comments, but for those that the server executes; texts, which may look like anything else.
_SKIPPED = re.compile(
    r"(?P<comment>/\*(?![!M]).*?\*/|--\s[^\n]*|#[^\n]*)"
    r"|(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<name>`(?:[^`]|``)+`)",
    re.DOTALL,
)
_EXECUTED = re.compile(r"/\*M?!\d*(.*?)\*/", re.DOTALL)
_RENAME = re.compile(rf"^RENAME\s+TABLES?\s+{_IF}(.*)$", re.DOTALL | re.IGNORECASE)
_PAIR = re.compile(rf"{_TABLE}\s+(?:(?:WAIT\s+\d+|NOWAIT)\s+)?TO\s+{_TABLE}", re.IGNORECASE)
_ALTER = re.compile(
    rf"^ALTER\s+(?:ONLINE\s+|OFFLINE\s+)?(IGNORE\s+)?TABLE\s+{_IF}{_TABLE}(.*)$",
    re.DOTALL | re.IGNORECASE,
)
_NEW_NAME = re.compile(
    rf"\bRENAME\s+(?!COLUMN\b|INDEX\b|KEY\b|CONSTRAINT\b)(?:TO\s+|AS\s+|=\s*)?{_TABLE}",
    re.IGNORECASE,
)
_CREATE = re.compile(rf"^CREATE\s+(OR\s+REPLACE\s+)?TABLE\s+{_IF}{_TABLE}", re.IGNORECASE)
_DROP_DATABASE = re.compile(rf"^DROP\s+(?:DATABASE|SCHEMA)\s+{_IF}({_NAME})", re.IGNORECASE)
_PARTITION = re.compile(
    r"\b(DROP|TRUNCATE|EXCHANGE|DISCARD|IMPORT|CONVERT)\s+PARTITION\b", re.IGNORECASE
)
_OTHER_TABLE = re.compile(
    rf"\b(?:WITH\s+TABLE|TO\s+TABLE|CONVERT\s+TABLE)\s+{_TABLE}", re.IGNORECASE
)
_INTO_PARTITION = re.compile(r"\bCONVERT\s+TABLE\b", re.IGNORECASE)
_NEW_COLUMN = re.compile(
    rf"\bRENAME\s+COLUMN\s+{_IF}({_NAME})\s+TO\s+({_NAME})"
    rf"|\bCHANGE\s+(?:COLUMN\s+)?{_IF}({_NAME})\s+({_NAME})",
    re.IGNORECASE,
)
_FORMULA = re.compile(
    rf"\b(?:MODIFY|CHANGE)\s+(?:COLUMN\s+)?{_IF}({_NAME})(?:[^,(]|\([^()]*\))*?\bAS\s*\(",
    re.IGNORECASE,
)
_DROPPED = re.compile(
    r"\bDROP\s+(?!PRIMARY\b|INDEX\b|KEY\b|FOREIGN\b|CONSTRAINT\b|CHECK\b|PARTITION\b|DEFAULT\b)"
    rf"(?:COLUMN\s+)?{_IF}({_NAME})",
    re.IGNORECASE,
)
# Engines that do not keep the rows that a table has.
_ENGINE = re.compile(
    r"\bENGINE\s*=?\s*`?(BLACKHOLE|MEMORY|HEAP|CONNECT|FEDERATED|SPIDER)\b", re.IGNORECASE
)
# MariaDB: a statement with variables of its own.
_VARIABLES = re.compile(r"^SET\s+STATEMENT\s.*?\sFOR\s+", re.DOTALL | re.IGNORECASE)
_TABLESPACE = re.compile(r"\b(DISCARD|IMPORT)\s+TABLESPACE\b", re.IGNORECASE)


def effect_on(table: str, statement: str, database: str) -> str | None:
    """Return a statement's effect on a table's rows that no change reports, as a predicate.

    That a table was dropped or created is left out: the connector reports that.

    Args:
        table: The table, ``database.table``.
        statement: The statement, as it is in the binary log.
        database: The database that names without one belong to.

    Returns:
        A text such as ``was dropped with its database``; None if the statement has no such effect.
    """
    text, own = _plain(statement), table.casefold()

    def is_own(name: str) -> bool:
        full = _full(name, database)
        # What a session in another character set than UTF-8 wrote, Debezium can't read.
        unread = re.escape(full).replace("\ufffd", ".+")
        return full == own or ("\ufffd" in full and re.fullmatch(unread, own) is not None)

    if (renames := _RENAME.match(text)) is not None:
        return _renamed(_PAIR.findall(renames[1]), is_own)
    if (dropped := _DROP_DATABASE.match(text)) is not None:
        is_gone = _unquoted(dropped[1]).casefold() == own.partition(".")[0]
        return "was dropped with its database" if is_gone else None
    if (created := _CREATE.match(text)) is not None:
        if not created[1] or not is_own(created[2]):
            return None
        return "is a different table now: CREATE OR REPLACE TABLE dropped the captured one"
    if (altered := _ALTER.match(text)) is None:
        return None
    ignores, name, actions = altered.groups()
    if any(map(is_own, _OTHER_TABLE.findall(actions))):
        return "has other rows now: it was exchanged with a partition, or became one"
    pairs = [(name, new) for new in _NEW_NAME.findall(actions)]
    if (found := _renamed(pairs, is_own)) is not None:
        return found
    return _altered(actions, ignores=bool(ignores)) if is_own(name) else None


def reused_names(statement: str) -> set[str]:
    """Return the column names that a statement drops, or renames columns to, in lower case.

    One of these that the table has afterwards is the name of another column than before. Empty if
    there are none, or the statement is not understood; comments do not count.

    Args:
        statement: An ALTER TABLE, as it is in the binary log.
    """
    text = _plain(statement)
    renames = [(a or c, b or d) for a, b, c, d in _NEW_COLUMN.findall(text)]
    pairs = [(_unquoted(old).casefold(), _unquoted(new).casefold()) for old, new in renames]
    dropped = {_unquoted(name).casefold() for name in _DROPPED.findall(text)}
    return {new for old, new in pairs if old != new} | dropped


def formulas(statement: str) -> set[str]:
    """Return the names, in lower case, of columns that a statement makes generated columns.

    Empty if there are none.

    Args:
        statement: An ALTER TABLE, as it is in the binary log.
    """
    return {_unquoted(name).casefold() for name in _FORMULA.findall(_plain(statement))}


def _renamed(pairs: list[tuple[str, str]], is_own: Callable[[str], bool]) -> str | None:
    for old, new in pairs:
        if is_own(old) and not is_own(new):
            return f"is no longer there under its name: it was renamed to {_unquoted(new)}"
        if is_own(new) and not is_own(old):
            return f"is a different table now: {_unquoted(old)} was renamed to its name"
    return None


def _altered(actions: str, *, ignores: bool) -> str | None:
    if ignores:
        return "has lost rows: ALTER IGNORE TABLE removes those that are in the way"
    if (partition := _PARTITION.search(actions)) is not None:
        return f"has other rows now: {partition[1].upper()} PARTITION"
    if _INTO_PARTITION.search(actions) is not None:
        return "has other rows now: a table became a partition of it"
    if (engine := _ENGINE.search(actions)) is not None:
        return f"has lost rows: ENGINE = {engine[1].upper()} does not keep them"
    if (tablespace := _TABLESPACE.search(actions)) is not None:
        return f"has other rows now: {tablespace[1].upper()} TABLESPACE"
    return None


def _plain(statement: str) -> str:
    """Return a statement without comments and with empty texts."""

    def kept(found: re.Match[str]) -> str:
        return found["name"] or ("''" if found["text"] else " ")

    text = _EXECUTED.sub(r" \1 ", _SKIPPED.sub(kept, statement)).strip()
    return _VARIABLES.sub("", text)


def _full(name: str, database: str) -> str:
    full = _unquoted(name)
    return (full if len(re.findall(_NAME, name)) > 1 else f"{database}.{full}").casefold()


def _unquoted(name: str) -> str:
    return ".".join(
        each[1:-1].replace("``", "`") if each.startswith("`") else each
        for each in re.findall(_NAME, name)
    )
