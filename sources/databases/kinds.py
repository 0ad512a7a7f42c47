"""What extensions have for each kind of database, found by how the database is reached."""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from sources.common.optional import needs_extra
from sources.config.database_kind import DatabaseKind, kind_of
from sources.databases.access import Access
from sources.extensions import contributions


@dataclass(frozen=True)
class DatabaseParts:
    """What an extension has for a kind of database, each by the name of an object.

    A name is ``module:object``, or that of a module. It is imported when somebody asks for it, as
    each kind needs an extra of its own.

    Attributes:
        kind: The kind.
        access: An :class:`~sources.databases.access.Access`.
        starter: What ``hybrid init`` has to know of it, an
            :class:`orchestration.cli.starter.capture.CapturedKind`.
        compared_rows: What reads its rows for ``hybrid compare``, an
            :class:`orchestration.audit.database.compared_sides.DatabaseRows`.
    """

    kind: DatabaseKind
    access: str
    starter: str
    compared_rows: str


def access_to(dsn: str) -> Access:
    """Return the access to the kind of database that a connection string leads to.

    Args:
        dsn: How the database is reached, as ``snapshot.dsn``.

    Raises:
        InputError: As :func:`part_for`.
    """
    access: Access = part_for(dsn, "access")
    return access


def part_for(dsn: str, part: str) -> Any:
    """Return what there is for the kind of database that a connection string leads to.

    Args:
        dsn: How the database is reached.
        part: A field of :class:`DatabaseParts`.

    Raises:
        InputError: The extra of this kind of database, or its extension, is not installed.
    """
    kind = kind_of(dsn)
    every: list[DatabaseParts] = [each for some in contributions("databases") for each in some]
    found = next(each for each in every if each.kind is kind)
    with needs_extra(kind.name, f"A `snapshot` of {kind.title}"):
        return resolve_name(getattr(found, part))
