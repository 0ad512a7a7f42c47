"""Views of the sources' rows in the audit's database: which files and offsets belong to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from hybrid_extensions.audit.computed.event_times import bounds_of
from hybrid_extensions.audit.input_tables import input_tables
from hybrid_extensions.audit.readers.file_views import AuditFiles, LeftOut
from hybrid_extensions.audit.readers.topic_reader import TopicReader
from hybrid_extensions.audit.readers.topic_view import create_topic_view
from hybrid_extensions.audit.recount.quarantine import create_claims
from hybrid_extensions.comparison.duckdb_database import columns_of, count_rows, error_text
from sources.common.positions import Offsets
from sources.common.schema import normalize_schema, parse_schema
from sources.common.sql.sql_names import column_list, quoted
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.source_kinds import AnySource
from sources.errors import InputError
from sources.hybrid import Boundedness, SwitchState
from sources.planning.topics.topic_range import find_range
from sources.state.generation import Generation

Columns = dict[str, str]
"""DuckDB types of columns by name; empty texts where they are not known."""


class SourceViews:
    """Maker of a view for each source, which collects row counts and remarks for the report.

    The constructor fetches the end offsets of all topics, before anything is read, so that no count
    includes later records. The attributes are complete once :meth:`create` was called for all.

    Args:
        connection: The audit's database.
        loaded: The pipeline.
        files: Finds and reads the files.

    Attributes:
        readers: Readers of the topics, by name of the source.
        rows: Number of rows by name of the source.
        left_out: Queries of the rows of files that are left out, by name of the source.
        unproven: Why a column is in no row, by name: only Spark evaluates its expression.
        notes: Sentences about records that are not counted as rows.

    Raises:
        InputError: A topic can't be read.
        StateError: The state is damaged.
        UnavailableError: A broker or a store does not answer.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline, files: AuditFiles
    ) -> None:
        self._connection, self._pipeline, self._files = connection, loaded.pipeline, files
        self._generation = loaded.open_generation(create=False)
        self.readers = {
            source.name: TopicReader(source, *_offset_limits(own, source, self._generation))
            for own in input_tables(loaded.pipeline).values()
            for source in own.topics
        }
        self._clock_ms = now_ms()
        self.rows: dict[str, int] = {}
        self.left_out: dict[str, LeftOut] = {}
        self.unproven: dict[str, str] = {}
        self.notes: list[str] = []

    def create(self, sources: Sequence[AnySource]) -> dict[str, Columns]:
        """Create a view of each source of a chain, named like it; return their columns by source.

        A growing folder has only files that no source before it has, by the same call. The columns
        are after ``select``, without those that only Spark evaluates. All rows are counted, and the
        attributes are filled with what is found.

        Args:
            sources: The sources, in reading order.

        Raises:
            InputError: A source can't be read.
            NotProvenError: An expression that only Spark evaluates decides about rows.
            StateError: The state is damaged.
            UnavailableError: A store, a broker or a schema registry does not answer.
        """
        columns: dict[str, Columns] = {}
        earlier_paths: set[str] = set()
        for source in sources:
            try:
                columns[source.name] = (
                    self._create_of_files(source, earlier_paths, columns)
                    if isinstance(source, FileSource)
                    else self._create_of_topic(source, columns)
                )
                self.rows[source.name] = count_rows(self._connection, quoted(source.name))
            except duckdb.Error as error:
                message = f"Source `{source.name}` can't be read by the audit: {error_text(error)}"
                hint = (
                    "Correct the source's `format`, `schema` or `select` if they don't fit the "
                    "data; otherwise restore the file or record that the error names."
                )
                raise InputError(message, hint, source=source.name) from None
        return columns

    def _create_of_files(
        self, source: FileSource, earlier_paths: set[str], before: Mapping[str, Columns]
    ) -> Columns:
        """Create the view of a file source, and add its paths to those of earlier ones."""
        view, paths = quoted(source.name), self._files.find(source)
        if source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
            # A folder that is still being filled adds only files that no source before it reads.
            paths = [path for path in paths if path not in earlier_paths]
        earlier_paths.update(paths)
        if paths or not before:
            left_out = self._files.create_view(self._connection, source, paths, view)
            self.left_out[source.name] = left_out
            self.unproven |= left_out.columns
            self.notes += self._files.versions.notes(source)
        else:
            # Without rows, it has the columns of another source.
            like = quoted(next(iter(before)))
            self._connection.execute(f"CREATE VIEW {view} AS SELECT * FROM {like} WHERE false")
        return columns_of(self._connection, view)

    def _create_of_topic(self, source: KafkaSource, before: Mapping[str, Columns]) -> Columns:
        """Create the view of a topic's rows."""
        connection, pipeline = self._connection, self._pipeline
        types = _topic_columns(connection, source, next(iter(before.items()), None))
        bounds = bounds_of(pipeline.event_time, source, self._generation, self._clock_ms)
        create_claims(connection, source, self._generation, pipeline.stores)
        reader = self.readers[source.name]
        made = create_topic_view(connection, source, reader, types, bounds, pipeline)
        self.notes += made.notes
        self.unproven |= made.columns
        names = [name for name in source.select or types if name not in made.columns]
        return dict.fromkeys(names, "")


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
    pipeline: Pipeline, source: KafkaSource, generation: Generation | None
) -> tuple[Offsets | None, Offsets | None]:
    """Return the offsets between which a topic adds rows to the input, as the state records them.

    Args:
        pipeline: The pipeline, with the sources of the topic's own input only.
        source: The topic's source.
        generation: Its state; None if nothing was planned yet.

    Returns:
        By partition, the first offset, and the offset after the last. None where nothing limits
        them, or nothing is decided yet: then log start or log end apply.
    """
    if generation is None:
        return None, None
    chain = pipeline.hybrid_source()
    planned = find_range(generation, source.name)
    if chain.index(source.name) == 0:
        start = SwitchState(chain, generation).start_of(source.name)
        first = None if start is None else start.offsets()
    else:
        # A topic that continues at the exact end of a bounded source adds only later records.
        before = find_range(generation, pipeline.source_before(source.name).name)
        first = before.ends if before is not None and before.end.offsets is not None else None
    return first, None if planned is None else planned.ends
