"""Which extension is for a database, by its connection string (`dsn`); the extra it needs."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any, Literal

from hybrid_extensions.cdc.databases.access import Access
from sources.common.optional import needs_extra
from sources.config.database_kind import kind_of


def access_to(dsn: str) -> Access:
    """Return the operations for the kind of database that a connection string is for.

    Nothing is connected yet.

    Args:
        dsn: How the database is reached, as ``snapshot.dsn``.

    Raises:
        InputError: The extra of this kind of database, or its extension, is not installed.
    """
    access: Access = part_for(dsn, "access")
    return access


def part_for(dsn: str, part: Literal["access", "starter", "compared_rows"]) -> Any:
    """Import the part of an extension that handles the database of a connection string.

    Args:
        dsn: How the database is reached.
        part: The field of :class:`~sources.config.database_kind.DatabaseKind` that names it.

    Raises:
        InputError: The extra of this kind of database, or its extension, is not installed.
    """
    kind = kind_of(dsn)
    with needs_extra(kind.name, f"A `snapshot` of {kind.title}"):
        return resolve_name(getattr(kind, part))
