"""Interface of what lists and reads lake tables (Delta, Iceberg), which extensions implement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from sources.common.sql.select import EventColumn
from sources.config.source.file_source import FileSource
from sources.extensions import items_added, none_adds
from sources.files.tables.table_commits import Appended
from sources.files.tables.table_files import TableFiles
from sources.storage.stores import Stores


class TableLister(Protocol):
    """Interface of what lists the files of tables of one format; extensions implement it.

    Each method raises :class:`InputError` if the table, or the package that reads it, is not there,
    and :class:`UnavailableError` if a store does not answer.

    Attributes:
        format: Value of ``format`` in the declaration of sources with such tables.
    """

    format: str

    def list_table(
        self, source: FileSource, path: str, event: EventColumn, stores: Stores
    ) -> TableFiles:
        """Return the data files of the declared version, with statistics from the table's metadata.

        Called while planning; a file without statistics may be opened.

        Args:
            source: Declaration of the source.
            path: The table's folder or metadata file, absolute.
            event: The column with the event time.
            stores: Storages of the pipeline.
        """


class FollowedTables(TableLister, Protocol):
    """Interface for tables of a format whose commits a source may follow, such as Delta."""

    def list_appended(
        self,
        source: FileSource,
        path: str,
        event: EventColumn,
        stores: Stores,
        appended: Appended,
    ) -> TableFiles:
        """Return the data files that some commits append, as the table has them at their position.

        Called whenever the source has found such commits.

        Args:
            source: Declaration of the source.
            path: The table's folder, absolute.
            event: The column with the event time.
            stores: Storages of the pipeline.
            appended: What the commits append.
        """


class Lake(TableLister, Protocol):
    """Interface for lake tables whose catalog and rows another library reads, such as Iceberg."""

    def find_place(self, source: FileSource) -> str:
        """Return the absolute path of a table that the source declares by its name in a catalog.

        Called before planning; the plan keeps the path.

        Raises:
            InputError: There is no such table, or the package that asks the catalog is not
                installed.
            UnavailableError: The catalog does not answer.
        """

    def data_files(self, source: FileSource, path: str, stores: Stores) -> Iterator[str]:
        """Yield the paths of the data files of the declared version, for the audit.

        Nothing for a table without rows.

        Raises:
            InputError: There is no such table or version.
            UnavailableError: A store does not answer.
        """

    def rows(self, source: FileSource, path: str, stores: Stores) -> pa.RecordBatchReader:
        """Return the rows of the declared version as the format's own library reads them.

        For the audit.

        Raises:
            InputError: There is no such table or version.
            UnavailableError: A store does not answer.
        """


def lister_of(source: FileSource) -> TableLister:
    """Return what lists the files of a table, by the source's format; extensions add it.

    Raises:
        InputError: No installed extension reads tables of this ``format``.
    """
    lister: TableLister = _of(source)
    return lister


def followed_tables(source: FileSource) -> FollowedTables:
    """Return what lists the files that commits append to a table, by the source's format.

    Only for a source that follows its table, which a declaration allows for Delta alone.

    Raises:
        InputError: No installed extension reads tables of this ``format``.
    """
    tables: FollowedTables = _of(source)
    return tables


def lake_of(source: FileSource) -> Lake:
    """Return the reader of a lake table that is not Delta, such as Iceberg, by the source's format.

    Raises:
        InputError: No installed extension reads tables of this ``format``.
    """
    lake: Lake = _of(source)
    return lake


def _of(source: FileSource) -> Any:
    for lake in items_added("lakes"):
        if lake.format == source.format:
            return lake
    does = f"reads `format: {source.format}`, which source `{source.name}` declares"
    otherwise = "declare the table's files instead"
    raise none_adds(does, otherwise, source=source.name, field="format", value=source.format)
