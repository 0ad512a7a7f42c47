"""Rows of a file source as the audit reads them, without a chain."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from hybrid_extensions.audit.readers.file_views import AuditFiles
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource


def read_by_audit(loaded: LoadedPipeline, folder: Path) -> pa.Table:
    """The rows of a pipeline's only source, in no order.

    Args:
        loaded: The pipeline.
        folder: Where copies of files may be made.
    """
    (source,) = loaded.pipeline.sources
    assert isinstance(source, FileSource)
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute("CREATE SCHEMA audit")
        files = AuditFiles(loaded, folder)
        files.create_view(connection, source, files.find(source), "rows_read")
        return connection.sql("SELECT * FROM rows_read").to_arrow_table()
