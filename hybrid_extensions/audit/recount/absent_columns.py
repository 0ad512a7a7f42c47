"""Absent columns: those that no row of JSON input has, whose names may be misspelled.

Run and audit look for the same names, so a comparison of their rows can't tell.
"""

from __future__ import annotations

import duckdb

from hybrid_extensions.comparison.duckdb_database import columns_of
from sources.common.sql.sql_names import quoted
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource


def absent_columns(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> list[str]:
    """Return a sentence for each JSON source that has rows, and columns without any value.

    Such a column's name may be misspelled in ``schema``. In the order of the sources; empty if
    there is none.

    Args:
        connection: The audit's database, with a view of each source.
        pipeline: The pipeline.
    """
    return [
        f"Source `{source.name}`: no row has a value of {', '.join(absent)}. If the data has that "
        "by another name, correct the source's `schema`: run and audit look for the declared one."
        for source in pipeline.sources
        if _is_json(source) and (absent := _without_values(connection, quoted(source.name)))
    ]


def _is_json(source: FileSource | KafkaSource) -> bool:
    if isinstance(source, FileSource):
        return source.format == "json"
    return source.value.parser == "json"


def _without_values(connection: duckdb.DuckDBPyConnection, view: str) -> list[str]:
    names = [*map(quoted, columns_of(connection, view))]
    counts = ", ".join(f"count({name})" for name in names)
    (found,) = connection.execute(f"SELECT count(*), {counts} FROM {view}").fetchall()
    return [name for name, number in zip(names, found[1:], strict=True) if found[0] and not number]
