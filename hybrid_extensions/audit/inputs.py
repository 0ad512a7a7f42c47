"""Raw input of an audit: a DuckDB view for each source, and table `input` of the shared columns.

Of several inputs each has a union of its own, a table of the input's name. Files are found by
expanding the globs, topics are read from log start to log end
(:mod:`hybrid_extensions.audit.source_views`). Only where a bounded topic ends, and where a topic
starts that no files or an exact end precede, is taken from the state: nothing else records it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from hybrid_extensions.audit.computed.row_versions import create_input
from hybrid_extensions.audit.computed.snapshot_rows import leave_out_held
from hybrid_extensions.audit.input_tables import input_tables
from hybrid_extensions.audit.readers.file_views import AuditFiles
from hybrid_extensions.audit.recount.absent_columns import absent_columns
from hybrid_extensions.audit.recount.recounted_bad_records import (
    recount_bad_records,
    recount_bad_rows,
)
from hybrid_extensions.audit.source_views import SourceViews
from hybrid_extensions.comparison.duckdb_database import count_rows, duckdb_types, error_text
from orchestration.comparison.report import EXAMPLES, AuditExample, BadLine
from sources.common.positions import EndPosition
from sources.common.sql.sql_names import literal, quoted
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.changes.added_columns import AddedColumn, types_of
from sources.errors import InputError

_ORC = (
    "Source `{}`: the rows of its ORC files were compared as the runs' own reader reads them, as "
    "the audit has no other one: what the bytes mean is not proved."
)


@dataclass(frozen=True)
class Inputs:
    """Row counts and bad records of the raw input.

    Attributes:
        rows: Number of rows by name of the source.
        distinct: Number of rows of the table ``input``, or of those of several inputs: of all
            sources, each key counted once.
        ambiguous: Number of keys whose rows differ while nothing says which of them counts.
        examples: Up to :data:`orchestration.comparison.report.EXAMPLES` examples of them.
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
    connection: duckdb.DuckDBPyConnection,
    loaded: LoadedPipeline,
    files: AuditFiles,
    ends: Sequence[EndPosition],
) -> Inputs:
    """Create a view for each source, named like it, and the table ``input`` over all of them.

    ``input`` has the columns that all sources have in common, and each row once by ``key``:
    :mod:`hybrid_extensions.audit.computed.row_versions` says which one, and
    :mod:`hybrid_extensions.audit.computed.snapshot_rows` which changes a snapshot contains. With
    several inputs there is such a table of each, by its name, in place of ``input``. The table
    ``audit.rows`` has the rows of every source, with the number of its source as ``_place``, after
    values that changes left out were filled in and each TRUNCATE has removed the rows before it;
    with several inputs, those of the last one.

    Args:
        connection: The audit's database.
        loaded: The pipeline.
        files: Finds and reads the files.
        ends: End positions of the planned sources, in order; those of a captured table only.

    Returns:
        How many rows and bad records there are, keys with several last rows, and what could not be
        proved.

    Raises:
        InputError: A source can't be read or is named ``input`` or like an input, the sources lack
            a column of ``key``, or their columns can't be combined.
        NotProvenError: An expression that only Spark evaluates decides about rows.
        StateError: The state is damaged.
        UnavailableError: A store, a broker or a schema registry does not answer.
    """
    pipeline = loaded.pipeline
    tables = input_tables(pipeline)
    _require_other_names(pipeline, tables)
    views = SourceViews(connection, loaded, files)
    ambiguous, examples = 0, list[AuditExample]()
    for table, own in tables.items():
        _create_rows(connection, own, views.create(own.sources))
        leave_out_held(connection, own, ends)
        number, shown = create_input(connection, own, table)
        ambiguous, examples = ambiguous + number, [*examples, *shown]
    bad_records: list[BadLine] = []
    for source in pipeline.sources:
        if isinstance(source, KafkaSource):
            log_start = views.readers[source.name].starts
            bad_records += recount_bad_records(connection, loaded, source, log_start)
        else:
            left_out = views.left_out.get(source.name)
            bad_records += recount_bad_rows(connection, loaded, source, files, left_out)
    return Inputs(
        rows=views.rows,
        distinct=sum(count_rows(connection, quoted(table)) for table in tables),
        ambiguous=ambiguous,
        examples=examples[:EXAMPLES],
        bad_records=bad_records,
        notes=[*views.notes, *absent_columns(connection, pipeline)],
        unchecked=[
            _ORC.format(source.name)
            for source in pipeline.sources
            if isinstance(source, FileSource) and source.format == "orc"
        ],
        unproven=views.unproven,
    )


def _require_other_names(pipeline: Pipeline, tables: Iterable[str]) -> None:
    """Refuse a source that has the name of a table over all sources."""
    for name in tables:
        if any(source.name == name for source in pipeline.sources):
            what = f"of the input `{name}`" if pipeline.inputs else "of all sources together"
            message = (
                f"A pipeline with a source named `{name}` can't be audited: in `audit.sql`, "
                f"`{name}` is the table {what}."
            )
            hint = (
                "Give the source another name. A pipeline that has run already needs a new "
                "generation for that: `hybrid generation new P`."
            )
            raise InputError(message, hint, source=name, field="sources.name")


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
            f"`key` names {', '.join(absent)}, which not all sources have; what they share: "
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
        connection.execute(f"CREATE OR REPLACE TABLE audit.rows AS {union}")
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
