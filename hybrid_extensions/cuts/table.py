"""Delta table of the cuts: a row for each table of a cut, one commit for each cut."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    TableNotFoundError,
)

from sources.common.sql.sql_names import quoted
from sources.common.times import iso
from sources.errors import HybridError, InputError
from sources.storage.folder import Folder
from sources.storage.tables.delta import dataset_of, delta_table, query_rows, unreadable_table

if TYPE_CHECKING:
    import duckdb
    import pyarrow.dataset as ds

    from sources.storage.stores import Stores

_APPLICATION = "hybrid-cuts"
_VECTORS = "deletionVectors"
_SCHEMA = pa.schema(
    [
        pa.field("cut", pa.int64(), nullable=False),
        pa.field("position", pa.string(), nullable=False),
        pa.field("committed_at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("table", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
    ]
)


class TableVersion(NamedTuple):
    """Version of one table in a cut.

    Attributes:
        path: Path or URL of the Delta table.
        version: Its version.
    """

    path: str
    version: int


class Cut(NamedTuple):
    """Versions of tables that together equal the database as of one commit.

    Attributes:
        number: Number of the cut, from 1.
        position: Position in the database's log, such as ``0/1A2B3C8``; later commits are not in.
        committed_at: Time of the position, by the clock of the database.
        tables: The tables by their names in the database, ``schema.table``.
    """

    number: int
    position: str
    committed_at: datetime
    tables: dict[str, TableVersion]

    def __str__(self) -> str:
        """Return number and time of the cut as text."""
        return f"cut {self.number} of {iso(int(self.committed_at.timestamp() * 1000))}"

    def open(self, name: str, stores: Stores) -> DeltaTable:
        """Return a table of the cut at its version; all its files exist, with deletion vectors.

        Args:
            name: Name of the table in the database, ``schema.table``.
            stores: Clients of the storages, such as ``CutGroup.stores``.

        Raises:
            InputError: The cut has no such table; or its version is gone: its log, or a file that
                VACUUM has removed. Names the cut.
            UnavailableError: The store does not answer.
        """
        found = self.tables.get(name)
        if found is None:
            message = f"{self} has no table `{name}`; it has {', '.join(self.tables)}."
            raise InputError(message, "Name one of these.", table=name, value=str(self.number))
        folder = stores.folder(found.path)
        try:
            table = delta_table(folder, found.version)
            gone = next((each for each in _files(table) if not folder.exists(each)), None)
            if _VECTORS in (table.protocol().reader_features or ()):
                # VACUUM removes one that a later version has replaced, and leaves the file's rows.
                deque(table.deletion_vectors(), maxlen=0)
        except DeltaError as error:
            raise self._gone(name, str(error).rstrip(".")) from None
        except OSError as error:
            what = f"Table `{name}` of {self} can't be read"
            raise unreadable_table(what, folder, error, "Read a later cut.") from None
        if gone is not None:
            raise self._gone(name, f"file {folder.location(gone)} is missing")
        return table

    def create_views(self, connection: duckdb.DuckDBPyConnection, stores: Stores) -> None:
        """Create a DuckDB view for each table, named as in the database (``public.orders``).

        Existing views of these names are replaced. The rows of a table with deletion vectors are
        held in memory.

        Args:
            connection: The connection that the views are for; others do not see them.
            stores: Clients of the storages, such as ``CutGroup.stores``.

        Raises:
            InputError: The version of a table is gone; no view was created or replaced.
            UnavailableError: A store does not answer; no view was created or replaced.
        """
        opened = {name: _rows_of(self.open(name, stores)) for name in self.tables}
        for name, found in opened.items():
            schema, _, own = name.rpartition(".")
            # Not by its place: an earlier cut has other tables, and their views stay.
            rows = f"_cut_{name}"
            connection.register(rows, found)
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
            view = f"{quoted(schema)}.{quoted(own)}"
            connection.execute(f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {quoted(rows)}")

    def _gone(self, name: str, why: str) -> InputError:
        at = self.tables[name]
        message = (
            f"Table `{name}` of {self} can't be read any more: version {at.version} of {at.path} "
            f"is gone ({why})."
        )
        hint = (
            "Read a later cut. To read cuts for longer, raise the table's properties "
            "`delta.deletedFileRetentionDuration` and `delta.logRetentionDuration`, and let "
            "VACUUM retain as much."
        )
        return InputError(message, hint, table=name, value=str(self.number))


def _rows_of(table: DeltaTable) -> ds.Dataset | pa.Table:
    """Return the rows of a table as DuckDB reads them: in memory if it has deletion vectors."""
    try:
        return dataset_of(table)
    except DeltaProtocolError:
        return query_rows(table, "SELECT * FROM target").read_all()


def _files(table: DeltaTable) -> list[str]:
    paths: list[str] = pa.table(table.get_add_actions())["path"].to_pylist()
    return paths


def append_cut(folder: Folder, cut: Cut) -> bool:
    """Write a cut in one commit; the first one creates the table.

    Args:
        folder: Folder of the table of the cuts.
        cut: The cut, whose number is one higher than that of the last one.

    Returns:
        Whether it was written; False if another process has written a cut of this number.

    Raises:
        InputError: The folder has another table, or can't be written.
        UnavailableError: The login to the store has expired; nothing was written.
    """
    rows = [
        {
            "cut": cut.number,
            "position": cut.position,
            "committed_at": cut.committed_at,
            "table": name,
            "path": each.path,
            "version": each.version,
        }
        for name, each in cut.tables.items()
    ]
    properties = CommitProperties(app_transactions=[Transaction(_APPLICATION, cut.number)])
    table = _open(folder)
    if table is not None and (table.transaction_version(_APPLICATION) or 0) >= cut.number:
        return False
    try:
        # Refuses a commit of this transaction that was made after the table was opened.
        write_deltalake(
            folder.url if table is None else table,
            pa.Table.from_pylist(rows, _SCHEMA),
            mode="append",
            commit_properties=properties,
            storage_options=folder.documents.delta_options,
        )
    except CommitFailedError:
        return False
    except (DeltaError, OSError, ValueError) as error:
        raise _unusable(folder, error) from None
    return True


def last_number(folder: Folder) -> int:
    """Return the number of the last consistent cut that was published; 0 if there is none.

    Raises:
        InputError: The folder has another table, or can't be read.
        UnavailableError: The store does not answer.
    """
    table = _open(folder)
    return 0 if table is None else table.transaction_version(_APPLICATION) or 0


def read_cut(folder: Folder, at: datetime | None = None) -> Cut:
    """Return the last cut, or the last one up to a time.

    Args:
        folder: Folder of the table of the cuts.
        at: Latest time of the cut by the database's clock (inclusive), with a time zone; None for
            the last cut.

    Raises:
        InputError: There is no cut, or none as early; or the table can't be read.
        UnavailableError: The store does not answer.
    """
    rows = _rows(folder)
    if not rows:
        message = f"There is no cut in {folder} yet."
        hint = "Publish cuts: `hybrid publish-cuts P`. The first one takes until all tables follow."
        raise InputError(message, hint, table=folder.url)
    eligible = [row for row in rows if at is None or row["committed_at"] <= at]
    if not eligible:
        first = _cut_of(rows, min(row["cut"] for row in rows))
        assert at is not None
        wanted = at.astimezone(UTC).isoformat()
        message = f"No cut is as early as {wanted}: the first is {first}."
        hint = f"Name a time from {first.committed_at.astimezone(UTC).isoformat()} on with `--at`."
        raise InputError(message, hint, table=folder.url, value=wanted)
    return _cut_of(rows, max(row["cut"] for row in eligible))


def list_cuts(folder: Folder) -> list[Cut]:
    """Return all cuts, the oldest first; empty if there is none.

    Args:
        folder: Folder of the table of the cuts.

    Raises:
        InputError: The folder has another table, or can't be read.
        UnavailableError: The store does not answer.
    """
    rows = _rows(folder)
    return [_cut_of(rows, number) for number in sorted({row["cut"] for row in rows})]


def _cut_of(rows: list[dict[str, Any]], number: int) -> Cut:
    own = [row for row in rows if row["cut"] == number]
    tables = {row["table"]: TableVersion(row["path"], row["version"]) for row in own}
    return Cut(number, own[0]["position"], own[0]["committed_at"], dict(sorted(tables.items())))


def _rows(folder: Folder) -> list[dict[str, Any]]:
    table = _open(folder)
    if table is None:
        return []
    try:
        rows: list[dict[str, Any]] = table.to_pyarrow_table().to_pylist()
    except (DeltaError, OSError) as error:
        raise _unusable(folder, error) from None
    return rows


def _open(folder: Folder) -> DeltaTable | None:
    """Open the table of the cuts; None if it does not exist."""
    try:
        table = delta_table(folder)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise _unusable(folder, error) from None
    names = [field.name for field in table.schema().fields]
    if names != _SCHEMA.names:
        message = (
            f"{folder} is not a table of cuts: it has the columns {', '.join(names)}, not "
            f"{', '.join(_SCHEMA.names)}."
        )
        raise InputError(
            message, "Name another folder in `cuts.path`, then publish again.", table=folder.url
        )
    return table


def _unusable(folder: Folder, error: Exception) -> HybridError:
    repair = "Correct `cuts.path`, or restore the table; or name a new folder there."
    return unreadable_table(
        f"The table of the cuts, {folder}, can't be used", folder, error, repair
    )
