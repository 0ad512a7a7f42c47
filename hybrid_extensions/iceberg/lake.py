"""Registration of Iceberg as a lake: a kind of tables that are read as history."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sources.common.sql.select import EventColumn
from sources.config.source.file_source import FileSource
from sources.files.tables.table_files import TableFiles
from sources.storage.stores import Stores


class Iceberg:
    """Reader of Iceberg tables, which implements :class:`sources.files.tables.lake.Lake`.

    PyIceberg, which is slow to import, is imported in methods. Without it they raise InputError.
    """

    format = "iceberg"

    def list_table(
        self, source: FileSource, path: str, event: EventColumn, stores: Stores
    ) -> TableFiles:
        """Return the data files of the declared snapshot, with columns, event times and deletes.

        Raises as :func:`hybrid_extensions.iceberg.listing.list_iceberg`.
        """
        from hybrid_extensions.iceberg.listing import list_iceberg

        return list_iceberg(source, path, event, stores)

    def find_place(self, source: FileSource) -> str:
        """Return the path of the metadata file of a table declared by its name in a catalog.

        Raises:
            InputError: The catalog is not configured or does not know the table, or refuses.
        """
        from hybrid_extensions.iceberg.stored_files import path_of
        from hybrid_extensions.iceberg.table import metadata_file_of

        return path_of(metadata_file_of(source))

    def data_files(self, source: FileSource, path: str, stores: Stores) -> Iterator[str]:
        """Yield the paths of the data files of the declared snapshot; for the audit.

        Raises:
            InputError: There is no such table or snapshot, or it can't be read.
            UnavailableError: The storage does not answer.
        """
        from hybrid_extensions.iceberg.stored_files import path_of
        from hybrid_extensions.iceberg.table import open_snapshot

        for task in open_snapshot(source, path, stores).plan_files():
            yield path_of(task.file.file_path)

    def rows(self, source: FileSource, path: str, stores: Stores) -> pa.RecordBatchReader:
        """Return the rows of the declared snapshot as PyIceberg reads them; for the audit.

        Raises:
            InputError: There is no such table or snapshot, or it can't be read.
            UnavailableError: The storage does not answer.
        """
        from hybrid_extensions.iceberg.table import open_snapshot

        return open_snapshot(source, path, stores).to_arrow_batch_reader()


LAKES = [Iceberg()]
