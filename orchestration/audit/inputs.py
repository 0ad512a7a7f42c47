"""Raw input of an audit: one DuckDB view per source, and ``input``, every row once.

Files are found by their globs, topics are read from log start to log end. Where a topic ends that
is bounded, and where one starts that nothing comes before, only the state can tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from orchestration.audit.bad_records import recount_bad, recount_bad_rows
from orchestration.audit.files import AuditFiles
from orchestration.audit.report import BadLine
from orchestration.audit.sql import (
    columns_of,
    count_rows,
    duckdb_types,
    listed,
    literal,
    quoted,
)
from orchestration.audit.topic import TopicReading, create_topic_view
from sources.common.positions import Offsets
from sources.common.schema import normalize_schema, parse_schema
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.decoding.added_columns import AddedColumn, types_of
from sources.errors import InputError
from sources.hybrid import Boundedness, SwitchState
from sources.planning.topic_range import find_range


@dataclass(frozen=True)
class Inputs:
    """What was read.

    Attributes:
        rows: Number of rows by name of the source.
        distinct: Number of rows of ``input``.
        bad: Bad records of sources that may have some.
        notes: What was left out, in words.
    """

    rows: dict[str, int]
    distinct: int
    bad: list[BadLine]
    notes: list[str]


def create_inputs(
    connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline, files: AuditFiles
) -> Inputs:
    """Make a view for each source, named like it, and ``input`` over all of them.

    ``input`` holds the columns that all sources have. Of several rows with one key it holds one,
    from the first source that has it; without a key it holds all.

    Raises:
        InputError: No file matches, a file or a record can't be read, a broker does not answer,
            or the key is not in all sources.
    """
    pipeline = loaded.pipeline
    if any(source.name == "input" for source in pipeline.sources):
        message = "A source named `input` can't be audited."
        hint = "Rename it: in the audit's SQL, `input` is all sources together."
        raise InputError(message, hint)
    # All ends are asked for before anything is read: what comes later is in none of the counts.
    readings = {
        source.name: TopicReading(source, *_limits(loaded, source)) for source in pipeline.topics
    }
    notes: list[str] = []
    taken: set[str] = set()
    columns: dict[str, dict[str, str]] = {}
    rows: dict[str, int] = {}
    for source in pipeline.sources:
        view = quoted(source.name)
        try:
            if isinstance(source, FileSource):
                paths = files.find(source)
                if source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
                    # A folder that keeps filling is read for what no source before it reads.
                    paths = [path for path in paths if path not in taken]
                taken.update(paths)
                if paths or not columns:
                    files.create_view(connection, source, paths, view)
                else:
                    first = quoted(next(iter(columns)))
                    empty = f"SELECT * FROM {first} WHERE false"
                    connection.execute(f"CREATE VIEW {view} AS {empty}")
                columns[source.name] = columns_of(connection, view)
            else:
                earlier = next(iter(columns.items()), None)
                types = _topic_columns(connection, source, earlier)
                notes += create_topic_view(connection, source, readings[source.name], types)
                columns[source.name] = dict.fromkeys(source.select or types, "")
            rows[source.name] = count_rows(connection, view)
        except duckdb.Error as error:
            message = f"Source `{source.name}` can't be read: {error}"
            hint = "Correct its declaration, or repair the data."
            raise InputError(message, hint) from None
    _create_input(connection, pipeline, columns)
    bad = [
        recount_bad(connection, loaded, source, readings[source.name].starts)
        if isinstance(source, KafkaSource)
        else recount_bad_rows(connection, loaded, source, files)
        for source in pipeline.sources
        if source.on_bad_record != "fail"
    ]
    return Inputs(rows, count_rows(connection, "input"), bad, notes)


def _topic_columns(
    connection: duckdb.DuckDBPyConnection,
    source: KafkaSource,
    first: tuple[str, dict[str, str]] | None,
) -> dict[str, pa.DataType]:
    """Columns and types of a topic before ``select``: declared, or those of the first source.

    Args:
        connection: Holds the first source's view.
        source: The topic's source.
        first: Name and columns of the first source.
    """
    schema = parse_schema({**(source.declared_columns or {}), **source.added_types})
    if source.declared_columns is None:
        assert first is not None  # the declaration refuses it
        query = f"SELECT {listed(first[1])} FROM {quoted(first[0])} LIMIT 0"
        found = connection.sql(query).to_arrow_table().schema
        schema = normalize_schema(found)
    return dict(zip(schema.names, schema.types, strict=True))


def _limits(loaded: LoadedPipeline, source: KafkaSource) -> tuple[Offsets | None, Offsets | None]:
    """First offset and the one after the last of what a topic adds to the input, where decided."""
    generation = loaded.open_generation(create=False)
    if generation is None:
        return None, None
    chain = loaded.pipeline.hybrid_source()
    found = find_range(generation, source.name)
    if chain.index(source.name) == 0:
        start = SwitchState(chain, generation).start_of(source.name)
        first = None if start is None else start.offsets()
    else:
        # A topic that goes on from the end of a bounded source adds what comes after that.
        before = find_range(generation, loaded.pipeline.source_before(source.name).name)
        first = before.ends if before is not None and before.end.offsets is not None else None
    return first, None if found is None else found.ends


def _added(added: Mapping[str, AddedColumn], has: Mapping[str, str]) -> list[str]:
    """SQL: columns that a table got later; a source from before holds their defaults."""
    types = duckdb_types(types_of(added))
    return [
        quoted(name)
        if name in has
        else f"CAST({_default(added[name].value)} AS {kind}) AS {quoted(name)}"
        for name, kind in types.items()
    ]


def _default(value: object) -> str:
    return "NULL" if value is None else literal(str(value))


def _create_input(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, columns: dict[str, dict[str, str]]
) -> None:
    first, *others = columns.values()
    added = pipeline.added_columns
    common = [
        name for name in first if name not in added and all(name in other for other in others)
    ]
    absent = [name for name in pipeline.key if name not in common]
    if absent:
        message = f"`key`: column {', '.join(absent)} is not in all sources."
        raise InputError(message, f"They share {', '.join(common) or 'no column'}.")
    union = " UNION ALL ".join(
        f"SELECT {', '.join([listed(common), *_added(added, columns[name])])}, {place} AS _place "
        f"FROM {quoted(name)}"
        for place, name in enumerate(columns)
    )
    once = ""
    if pipeline.key:
        key = listed(pipeline.key)
        once = f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY _place) = 1"
    try:
        # A table, not a view over the views: the user's SQL may look at it several times.
        connection.execute(f"CREATE TABLE input AS SELECT * EXCLUDE (_place) FROM ({union}) {once}")
    except duckdb.Error as error:
        message = f"The sources can't be read together: {error}"
        raise InputError(message, "Correct their columns, or repair the data.") from None
