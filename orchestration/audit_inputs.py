"""Raw input of an audit: one DuckDB view per source, and ``input``, every row once.

Files are found by their globs, topics are read from log start to log end. Where a topic ends that
is bounded, and where one starts that nothing comes before, only the state can tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from glob import escape
from pathlib import Path

import duckdb

from orchestration.audit_sql import (
    INSTANT,
    columns_of,
    count_rows,
    duckdb_types,
    listed,
    literal,
    quoted,
)
from orchestration.audit_topic import TopicReading, create_topic_view
from sources.document import LoadedPipeline
from sources.errors import InputError
from sources.file_source import FileSource
from sources.hybrid import HybridSplitEnumerator
from sources.kafka_source import KafkaSource
from sources.pipeline import Pipeline
from sources.positions import Offsets
from sources.topic_range import find_range

_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Inputs:
    """What was read.

    Attributes:
        rows: Number of rows by name of the source.
        distinct: Number of rows of ``input``.
        notes: What was left out, in words.
    """

    rows: dict[str, int]
    distinct: int
    notes: list[str]


def create_inputs(connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline) -> Inputs:
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
    columns: dict[str, dict[str, str]] = {}
    rows: dict[str, int] = {}
    for source in pipeline.sources:
        view = quoted(source.name)
        try:
            if isinstance(source, FileSource):
                create_file_view(connection, source, find_raw_files(source, loaded.folder), view)
                columns[source.name] = columns_of(connection, view)
            else:
                declared = duckdb_types(source.columns) if source.columns else None
                columns[source.name] = declared or next(iter(columns.values()))
                reading, types = readings[source.name], columns[source.name]
                notes += create_topic_view(connection, source, reading, types)
            rows[source.name] = count_rows(connection, view)
        except duckdb.Error as error:
            message = f"Source `{source.name}` can't be read: {error}"
            hint = "Correct its declaration, or repair the data."
            raise InputError(message, hint) from None
    _create_input(connection, pipeline, columns)
    return Inputs(rows, count_rows(connection, "input"), notes)


def _limits(loaded: LoadedPipeline, source: KafkaSource) -> tuple[Offsets | None, Offsets | None]:
    """First offset and the one after the last of what a topic adds to the input, where decided."""
    generation = loaded.open_generation(create=False)
    if generation is None:
        return None, None
    chain = loaded.pipeline.hybrid_source()
    found = find_range(generation, source.name)
    if chain.index(source.name) == 0:
        start = HybridSplitEnumerator(chain, generation).start_of(source.name)
        first = None if start is None else start.offsets()
    else:
        # A topic that goes on from the end of a bounded source adds what comes after that.
        before = find_range(generation, loaded.pipeline.source_before(source.name).name)
        first = before.ends if before is not None and before.end.offsets is not None else None
    return first, None if found is None else found.ends


def find_raw_files(source: FileSource, folder: Path) -> list[str]:
    """All files that a source's globs match, sorted; a folder stands for all files below it.

    As everywhere in Spark, names that begin with ``_`` or ``.`` are no data. Found apart from
    :func:`sources.files.find_files`: a file that one of the two overlooks shows up as a
    difference.

    Raises:
        InputError: No file matches.
    """
    found = {str(file) for pattern in source.patterns for file in _matches(pattern, folder)}
    if not found:
        message = f"Source `{source.name}`: no file matches {', '.join(source.patterns)}"
        hint = f"(looked from {folder}). Correct `path`, or put the files there."
        raise InputError(message, hint)
    return sorted(found)


def _matches(pattern: str, folder: Path) -> Iterator[Path]:
    parts = (folder / Path(pattern).expanduser()).parts
    fixed = next((at for at, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    base = Path(*parts[:fixed])
    magic = parts[fixed:]
    for match in base.glob(str(Path(*magic))) if magic else [base]:
        for file in match.rglob("*") if match.is_dir() else [match]:
            names = file.relative_to(base).parts
            if file.is_file() and not any(name.startswith(("_", ".")) for name in names):
                yield file


def create_file_view(
    connection: duckdb.DuckDBPyConnection, source: FileSource, paths: list[str], view: str
) -> None:
    """Make a view of files, read as a source declares it.

    Args:
        connection: Gets the view.
        source: The declaration.
        paths: The files.
        view: Its name, quoted.
    """
    files = ", ".join(literal(escape(path)) for path in paths)
    declared = duckdb_types(source.columns) if source.columns else None
    if source.format == "json":
        assert declared is not None  # the declaration refuses it
        fields = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in declared.items())
        reader = (
            f"read_json([{files}], columns = {{{fields}}}, format = 'newline_delimited', "
            "hive_partitioning = false)"
        )
    else:
        reader = f"read_parquet([{files}], union_by_name = true, hive_partitioning = false)"
    types = columns_of(connection, f"SELECT * FROM {reader}")
    selected = ", ".join(_selected(name, types.get(name, "")) for name in declared or types)
    connection.execute(f"CREATE OR REPLACE VIEW {view} AS SELECT {selected} FROM {reader}")


def _selected(name: str, kind: str) -> str:
    """A column; a timestamp without a zone is UTC, as :func:`sources.schema.normalize` has it."""
    if kind.startswith("TIMESTAMP") and kind != INSTANT:
        return f"CAST({quoted(name)} AS {INSTANT}) AS {quoted(name)}"
    return quoted(name)


def _create_input(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, columns: dict[str, dict[str, str]]
) -> None:
    first, *others = columns.values()
    common = [name for name in first if all(name in other for other in others)]
    absent = [name for name in pipeline.key if name not in common]
    if absent:
        message = f"`key`: column {', '.join(absent)} is not in all sources."
        raise InputError(message, f"They share {', '.join(common) or 'no column'}.")
    union = " UNION ALL ".join(
        f"SELECT {listed(common)}, {place} AS _place FROM {quoted(name)}"
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
