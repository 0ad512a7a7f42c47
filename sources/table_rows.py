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
    table = _open(path, version)
    found = {each: table.transaction_version(each) for each in ids}
    return {each: number for each, number in found.items() if number is not None}


def version_of(path: str) -> int:
    """The newest version of a table.

    Raises:
        InputError: It can't be read.
    """
    return int(_open(path, None).version())


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
    table, other = _open(path, None), _open(source, version)
    partitions = table.metadata().partition_columns
    if other.metadata().partition_columns != partitions:
        message = (
            f"{source} is partitioned by {other.metadata().partition_columns or 'nothing'}, "
            f"{path} by {partitions or 'nothing'}."
        )
        raise InputError(message, "Readers' queries rely on that: give both the same.")
    rows = pa.table(other.get_add_actions()).to_pylist()
    for row in rows:
        _bring(Path(source), Path(path), unquote(row["path"]))
    table.create_write_transaction(
        [_add(row) for row in rows],
        "overwrite",
        other.schema(),
        partition_by=partitions,
        commit_properties=CommitProperties(
            app_transactions=[Transaction(each, number) for each, number in transactions.items()]
        ),
    )
    table = _open(path, None)
    if any(table.metadata().configuration.get(name) != value for name, value in properties.items()):
        table.alter.set_table_properties(dict(properties), raise_if_not_exists=False)


def _open(path: str, version: int | None) -> DeltaTable:
    try:
        return DeltaTable(path, version=version)
    except (DeltaError, OSError) as error:
        message = f"The table {path} can't be read: {error}"
        raise InputError(message, "Repair its `_delta_log`, or name the right one.") from None


def _bring(source: Path, target: Path, name: str) -> None:
    """Have a file of one table in the folder of another one too."""
    there, here = source / name, target / name
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


def _add(row: dict[str, Any]) -> AddAction:
    statistics = {
        "numRecords": row["num_records"],
        "minValues": row.get("min"),
        "maxValues": row.get("max"),
        "nullCount": row.get("null_count"),
    }
    known = {name: _plain(value) for name, value in statistics.items() if value is not None}
    return AddAction(
        # The library writes it as a URI again.
        path=unquote(row["path"]),
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
        return {name: _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, datetime):
        mark = "" if value.tzinfo is None else "Z"
        moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return moment.isoformat(timespec="milliseconds") + mark
    if isinstance(value, date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value


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
