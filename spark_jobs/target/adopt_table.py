"""One Delta table takes over all rows of another one, or of an older version, in one commit.

Nothing is rewritten: files of another table are linked into the folder, and the log's next version
lists them instead of those before. Readers see the one version or the other
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from sources.errors import InputError, StateError

NO_MORE = 2**62
"""Transaction version beyond any micro-batch: whoever writes under its id writes nothing more."""


def transactions_of(path: str, ids: Sequence[str], version: int | None = None) -> dict[str, int]:
    """The last transaction version of each application id that a table knows, by id."""
    table = open_table(path, version)
    found = {each: table.transaction_version(each) for each in ids}
    return {each: number for each, number in found.items() if number is not None}


def version_of(path: str) -> int:
    """The newest version of a table.

    Raises:
        InputError: It can't be read.
    """
    return int(open_table(path).version())


def paths_of(path: str) -> list[str]:
    """The files of a table as it is now, as its log names them.

    Raises:
        InputError: It can't be read.
    """
    found = pa.table(open_table(path).get_add_actions())
    return [str(name) for name in found["path"].to_pylist()]


def take_over(
    path: str,
    source: str,
    version: int | None,
    transactions: Mapping[str, int],
    properties: Mapping[str, str],
) -> None:
    """Give a table the rows, and the columns, of another one.

    Args:
        path: The table's folder.
        source: Folder of the other one; it may be the same, at an older version.
        version: Its version; the newest, if left out.
        transactions: Transaction versions by application id that are to hold from then on.
        properties: Table properties, likewise; they follow in a commit of their own.

    Raises:
        InputError: One of them can't be read, or they are not partitioned alike.
        StateError: A file of the other one is gone.
    """
    table, other = open_table(path), open_table(source, version)
    partitions = table.metadata().partition_columns
    if other.metadata().partition_columns != partitions:
        message = (
            f"{source} is partitioned by {other.metadata().partition_columns or 'nothing'}, "
            f"{path} by {partitions or 'nothing'}."
        )
        raise InputError(message, "Readers' queries rely on that: give both the same.")
    rows = pa.table(other.get_add_actions()).to_pylist()
    for row in rows:
        name = unquote(row["path"])
        bring(Path(source) / name, Path(path) / name)
    table.create_write_transaction(
        [add_action(row, unquote(row["path"])) for row in rows],
        "overwrite",
        other.schema(),
        partition_by=partitions,
        commit_properties=CommitProperties(
            app_transactions=[Transaction(each, number) for each, number in transactions.items()]
        ),
    )
    table = open_table(path)
    if any(table.metadata().configuration.get(name) != value for name, value in properties.items()):
        table.alter.set_table_properties(dict(properties), raise_if_not_exists=False)


def open_table(path: str, version: int | None = None) -> DeltaTable:
    """A Delta table, at a version or as it is now.

    Raises:
        InputError: It can't be read.
    """
    try:
        return DeltaTable(path, version=version)
    except (DeltaError, OSError) as error:
        message = f"The table {path} can't be read: {error}"
        raise InputError(message, "Repair its `_delta_log`, or name the right one.") from None


def bring(there: Path, here: Path) -> None:
    """Have a file of one table in the folder of another one too, without a copy if possible.

    Raises:
        StateError: It is gone.
    """
    if here.exists():
        return
    here.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(there, here)
    except FileNotFoundError:
        message = f"{there} is gone: these rows can't be had back."
        raise StateError(message, "VACUUM removes files of older versions; begin anew.") from None
    except OSError:
        # Another file system, or one without links.
        part = here.with_name(f".{here.name}.part")
        shutil.copyfile(there, part)
        part.replace(here)


def add_action(row: dict[str, Any], path: str) -> AddAction:
    """A file of one table as another one's log has it.

    Args:
        row: What ``DeltaTable.get_add_actions`` tells of it.
        path: Where it is now, relative to the table's folder.
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
    """A value of the statistics as the log has it; what is not known is left out."""
    if isinstance(value, dict):
        plain = {name: _plain(each) for name, each in value.items()}
        return {name: each for name, each in plain.items() if each is not None}
    if isinstance(value, datetime):
        mark = "" if value.tzinfo is None else "Z"
        moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return moment.isoformat(timespec="milliseconds") + mark
    if isinstance(value, date):
        return value.isoformat()
    # Delta's Rust library rounds decimals, and its highest number is never NaN, Spark's highest: a
    # reader would leave out files that hold what it looks for.
    return None if isinstance(value, Decimal | float) else value


def _text(value: Any) -> str | None:
    """A partition value as the log has it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return moment.isoformat(sep=" ", timespec="microseconds")
    return str(value)
