"""Raw input of an audit: a DuckDB view for each source, and their union ``input``.

Files are found by expanding the globs, topics are read from log start to log end. Only where a
bounded topic ends, and where a topic starts that no files or an exact end precede, is taken from
the state: nothing else records it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from hybrid_extensions.audit.computed.event_times import bounds_of
from hybrid_extensions.audit.computed.versions import create_input
from hybrid_extensions.audit.readers.files import AuditFiles, LeftOut
from hybrid_extensions.audit.readers.topic_reader import TopicReader
from hybrid_extensions.audit.readers.topic_view import create_topic_view
from hybrid_extensions.audit.recount.absent_columns import absent_columns
from hybrid_extensions.audit.recount.quarantine import create_claims
from hybrid_extensions.audit.recount.recounted_bad_records import (
    recount_bad_records,
    recount_bad_rows,
)
from orchestration.audit.report import AuditExample, BadLine
from orchestration.audit.sql import columns_of, count_rows, duckdb_types, error_text
from sources.common.positions import Offsets, now_ms
from sources.common.schema import normalize_schema, parse_schema
from sources.common.sql.sql_names import column_list, literal, quoted
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.changes.added_columns import AddedColumn, types_of
from sources.errors import InputError
from sources.hybrid import Boundedness, SwitchState
from sources.planning.topics.topic_range import find_range

_ORC = (
    "Source `{}`: the rows of its ORC files were compared as the runs' own reader reads them, as "
    "the audit has no other one: what the bytes mean is not proved."
)


@dataclass(frozen=True)
class Inputs:
    """Row counts and bad records of the raw input.

    Attributes:
        rows: Number of rows by name of the source.
        distinct: Number of rows of the table ``input``: of all sources, each key counted once.
        ambiguous: Number of keys whose rows differ while nothing says which of them counts.
        examples: Up to :data:`orchestration.audit.report.EXAMPLES` examples of them.
        bad_records: Lines of the report about bad records, in the order of the sources.
        notes: Sentences about records that are not counted as rows.
        unchecked: Sentences about sources whose rows no other reader than that of the runs reads.
        unproven: Why a column is in no row, by name: only Spark evaluates its expression.
    """

    rows: dict[str, int]
    distinct: int
    ambiguous: int
    examples: list[AuditExample]
    bad_records: list[BadLine]
    notes: list[str]
    unchecked: list[str]
    unproven: Mapping[str, str]


def create_inputs(
    connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline, files: AuditFiles
) -> Inputs:
    """Create a view for each source, named like it, and the table ``input`` over all of them.

    ``input`` has the columns that all sources have in common, and each row once by ``key``:
    :mod:`hybrid_extensions.audit.computed.versions` says which one. The table ``audit.rows`` has
    the rows of every source, with the number of its source as ``_place``, after values that changes
    left out were filled in and each TRUNCATE has removed the rows before it.

    Args:
        connection: The audit's database.
        loaded: The pipeline.
        files: Finds and reads the files.

    Returns:
        How many rows and bad records there are, keys with several last rows, and what could not be
        proved.

    Raises:
        InputError: A source can't be read or is named ``input``, the sources lack a column of
            ``key``, or their columns can't be combined.
        NotProvenError: An expression that only Spark evaluates decides about rows.
        StateError: The state is damaged.
        UnavailableError: A store, a broker or a schema registry does not answer.
    """
    pipeline = loaded.pipeline
    if any(source.name == "input" for source in pipeline.sources):
        message = (
            "A pipeline with a source named `input` can't be audited: in `audit.sql`, `input` is "
            "the table of all sources together."
        )
        hint = (
            "Give the source another name. A pipeline that has run already needs a new generation "
            "for that: `hybrid generation new P`."
        )
        raise InputError(message, hint, source="input", field="sources.name")
    # All end offsets are fetched before anything is read, so that no count has later records.
    readers = {
        source.name: TopicReader(source, *_offset_limits(loaded, source))
        for source in pipeline.topics
    }
    clock_ms = now_ms()
    generation = loaded.open_generation(create=False)
    notes: list[str] = []
    left_out: dict[str, LeftOut] = {}
    unproven: dict[str, str] = {}
    earlier_paths: set[str] = set()
    columns: dict[str, dict[str, str]] = {}
    rows: dict[str, int] = {}
    for source in pipeline.sources:
        view = quoted(source.name)
        try:
            if isinstance(source, FileSource):
                paths = files.find(source)
                if source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
                    # A folder that is still being filled adds only files that no source before
                    # it reads.
                    paths = [path for path in paths if path not in earlier_paths]
                earlier_paths.update(paths)
                if paths or not columns:
                    left_out[source.name] = files.create_view(connection, source, paths, view)
                    unproven |= left_out[source.name].columns
                    notes += files.notes(source)
                else:
                    _create_empty_view(connection, view, next(iter(columns)))
                columns[source.name] = columns_of(connection, view)
            else:
                types = _topic_columns(connection, source, next(iter(columns.items()), None))
                bounds = bounds_of(pipeline.event_time, source, generation, clock_ms)
                create_claims(connection, source, generation, pipeline.stores)
                reader = readers[source.name]
                made = create_topic_view(connection, source, reader, types, bounds, pipeline)
                notes += made.notes
                unproven |= made.columns
                columns[source.name] = dict.fromkeys(
                    [name for name in source.select or types if name not in made.columns], ""
                )
            rows[source.name] = count_rows(connection, view)
        except duckdb.Error as error:
            message = f"Source `{source.name}` can't be read by the audit: {error_text(error)}"
            hint = (
                "Correct the source's `format`, `schema` or `select` if they don't fit the data; "
                "otherwise restore the file or record that the error names."
            )
            raise InputError(message, hint, source=source.name) from None
    _create_rows(connection, pipeline, columns)
    ambiguous, examples = create_input(connection, pipeline)
    bad_records: list[BadLine] = []
    for source in pipeline.sources:
        if isinstance(source, KafkaSource):
            bad_records += recount_bad_records(
                connection, loaded, source, readers[source.name].starts
            )
        else:
            bad_records += recount_bad_rows(
                connection, loaded, source, files, left_out.get(source.name)
            )
    return Inputs(
        rows=rows,
        distinct=count_rows(connection, "input"),
        ambiguous=ambiguous,
        examples=examples,
        bad_records=bad_records,
        notes=[*notes, *absent_columns(connection, pipeline)],
        unchecked=[
            _ORC.format(source.name)
            for source in pipeline.sources
            if isinstance(source, FileSource) and source.format == "orc"
        ],
        unproven=unproven,
    )


def _create_empty_view(connection: duckdb.DuckDBPyConnection, view: str, like: str) -> None:
    """Create a view without rows that has the columns of another source's view."""
    connection.execute(f"CREATE VIEW {view} AS SELECT * FROM {quoted(like)} WHERE false")


def _topic_columns(
    connection: duckdb.DuckDBPyConnection,
    source: KafkaSource,
    first: tuple[str, dict[str, str]] | None,
) -> dict[str, pa.DataType]:
    """Return the columns of a topic before ``select``: declared, or those of the first source.

    Args:
        connection: The audit's database, with the view of the first source.
        source: The topic's source.
        first: Name and columns of the first source; None if the topic is the first,
            which declares its schema.

    Returns:
        Arrow types by name.
    """
    schema = parse_schema(source.current(source.declared_columns or {}))
    if source.declared_columns is None:
        assert first is not None  # the declaration refuses it
        query = f"SELECT {column_list(first[1])} FROM {quoted(first[0])} LIMIT 0"
        schema = normalize_schema(connection.sql(query).to_arrow_table().schema)
    return dict(zip(schema.names, schema.types, strict=True))


def _offset_limits(
    loaded: LoadedPipeline, source: KafkaSource
) -> tuple[Offsets | None, Offsets | None]:
    """Return the offsets between which a topic adds rows to the input, as the state records them.

    Returns:
        By partition, the first offset, and the offset after the last. None where nothing limits
        them, or nothing is decided yet: then log start or log end apply.
    """
    generation = loaded.open_generation(create=False)
    if generation is None:
        return None, None
    chain = loaded.pipeline.hybrid_source()
    planned = find_range(generation, source.name)
    if chain.index(source.name) == 0:
        start = SwitchState(chain, generation).start_of(source.name)
        first = None if start is None else start.offsets()
    else:
        # A topic that continues at the exact end of a bounded source adds only later records.
        before = find_range(generation, loaded.pipeline.source_before(source.name).name)
        first = before.ends if before is not None and before.end.offsets is not None else None
    return first, None if planned is None else planned.ends


def _added_columns(added: Mapping[str, AddedColumn], columns: Mapping[str, str]) -> list[str]:
    """Return SQL for columns that a captured table was given later.

    Args:
        added: The columns, with their defaults, by name.
        columns: The columns of one source; one that it lacks gets the default.
    """
    types = duckdb_types(types_of(added))
    return [
        quoted(name)
        if name in columns
        else f"CAST({_default_literal(added[name].value)} AS {kind}) AS {quoted(name)}"
        for name, kind in types.items()
    ]


def _default_literal(value: object) -> str:
    """Return the default of a column as SQL."""
    return "NULL" if value is None else literal(str(value))


def _create_rows(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, columns: dict[str, dict[str, str]]
) -> None:
    """Create the table ``audit.rows`` from the views of all sources.

    Args:
        connection: The audit's database, with the views.
        pipeline: Declares the key and columns that were added later.
        columns: By source, in the declared order: its columns and their types.
    """
    first, *others = columns.values()
    added = pipeline.added_columns
    common = [
        name for name in first if name not in added and all(name in other for other in others)
    ]
    absent = [name for name in pipeline.key if name not in common]
    if absent:
        message = (
            f"`key`: column {', '.join(absent)} is not in all sources; the sources share "
            f"{', '.join(common) or 'no column'}."
        )
        hint = "Set `key` to columns that all sources have, or add the column with `select`."
        raise InputError(message, hint, field="key", column=absent[0])
    emptied = pipeline.emptied_columns
    shared = ", ".join(
        f"CAST(NULL AS {first[name]}) AS {quoted(name)}" if name in emptied else quoted(name)
        for name in common
    )
    union = " UNION ALL ".join(
        f"SELECT {', '.join([shared, *_added_columns(added, columns[name])])}, {place} AS _place "
        f"FROM {quoted(name)}"
        for place, name in enumerate(columns)
    )
    try:
        # A table instead of a view, because it is read several times.
        connection.execute(f"CREATE TABLE audit.rows AS {union}")
    except duckdb.Error as error:
        message = (
            f"The rows of sources {', '.join(columns)} can't be put into one table: "
            f"{error_text(error)}"
        )
        hint = (
            "Declare the same type for a column in all sources (`schema` or `select`), or restore "
            "the file or record that the error names."
        )
        raise InputError(message, hint, pipeline=pipeline.name) from None
