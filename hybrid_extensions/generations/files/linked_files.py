"""Files of one Delta table that another one lists: links to them, and the actions of its log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from deltalake.transaction import AddAction

from sources.errors import StateError
from sources.storage.folder import Folder

_COPIES = 16


def link_files(source: Folder, target: Folder, names: Mapping[str, str]) -> None:
    """Link files from one table's folder into another's; copy them where there are no links.

    It can be repeated.

    Args:
        source: Folder of the table that has them.
        target: Folder of the other one; files that it has already are left as they are.
        names: Name in the target by name in the source, both relative to the folder.

    Raises:
        StateError: A file is missing.
        InputError, UnavailableError: A store refuses, or does not answer.
    """

    def one(pair: tuple[str, str]) -> None:
        there, here = pair
        try:
            target.documents.copy(source.location(there), target.location(here))
        except FileNotFoundError:
            raise missing_file(source.location(there)) from None

    # A store answers each request after a while, and many at once.
    with ThreadPoolExecutor(_COPIES) as pool:
        for _ in pool.map(one, names.items()):
            pass


def missing_file(path: str) -> StateError:
    """Return the error to raise when a data file is missing whose rows another table was to get."""
    message = (
        f"File {path} is missing, so its rows can't be brought into the table, which is as it was "
        "before. If the file is one of an older version of a table, VACUUM may have removed it."
    )
    hint = (
        "Restore the file from a backup and try again; or compute the rows again in a new "
        "generation: `hybrid generation new P`."
    )
    return StateError(message, hint, file=path)


def add_action(row: dict[str, Any], path: str) -> AddAction:
    """Make the action of the Delta log that adds one table's file to another table.

    Args:
        row: The file's row in ``DeltaTable.get_add_actions`` of the first table.
        path: The file's path in the other table, relative to the table's folder.

    Returns:
        The action with size, partition values and those statistics that can be trusted.
    """
    statistics = {
        "numRecords": row["num_records"],
        "minValues": row.get("min"),
        "maxValues": row.get("max"),
        "nullCount": row.get("null_count"),
    }
    known = {name: _plain(value) for name, value in statistics.items() if value is not None}
    return AddAction(
        # The library writes it as a URI.
        path=path,
        size=row["size_bytes"],
        partition_values={
            name: _text(value) for name, value in (row.get("partition") or {}).items()
        },
        modification_time=row["modification_time"],
        data_change=True,
        stats=json.dumps(known),
    )


def _plain(value: Any) -> Any:
    """Return a value of the statistics in the log's form; unknown values are left out."""
    if isinstance(value, dict):
        plain = {name: _plain(each) for name, each in value.items()}
        return {name: each for name, each in plain.items() if each is not None}
    if isinstance(value, datetime):
        mark = "" if value.tzinfo is None else "Z"
        moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return moment.isoformat(timespec="milliseconds") + mark
    if isinstance(value, date):
        return value.isoformat()
    # Delta's Rust library rounds decimals, and never reports NaN as the highest number, as Spark
    # does: a reader would skip files that hold what it looks for.
    return None if isinstance(value, Decimal | float) else value


def _text(value: Any) -> str | None:
    """Return a partition value in the log's form."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return moment.isoformat(sep=" ", timespec="microseconds")
    return str(value)
