"""Files of history as the audit reads them: found, fetched and parsed apart from Spark's way.

DuckDB reads Parquet, JSON lines, CSV and text; Avro and ORC, which it does not know, are read
whole by their libraries, without the regions of the plan. Where bad rows stop no run, JSON lines
and CSV are read line by line (:mod:`orchestration.audit.lines`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from glob import escape
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import orc

from orchestration.audit.lines import load_lines
from orchestration.audit.sql import (
    INSTANT,
    columns_of,
    duckdb_types,
    insert_arrow,
    literal,
    quoted,
)
from orchestration.audit.topic import bad_table
from sources.common.optional import needs_extra
from sources.common.positions import to_us
from sources.common.schema import names_and_types, normalize_schema
from sources.config.file_source import FileSource
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.hybrid import Boundedness

_MAGIC = re.compile(r"[*?\[]")
_BATCH_ROWS = 50_000


class AuditFiles:
    """All files of a pipeline's sources.

    Args:
        loaded: The pipeline.
        scratch: Folder for copies of what is on no disk of this machine.
    """

    def __init__(self, loaded: LoadedPipeline, scratch: Path) -> None:
        self._loaded = loaded
        self._copies = scratch / "objects"
        self._tables = 0

    def find(self, source: FileSource) -> list[str]:
        """All files that a source's globs match, sorted; a folder stands for all files below it.

        As everywhere in Spark, names that begin with ``_`` or ``.`` are no data. Found apart from
        :mod:`sources.storage.listing`: a file that one of the two overlooks shows up as a
        difference.

        Raises:
            InputError: No file matches, of a source that is read to its end.
        """
        folder = self._loaded.folder
        if source.format == "delta":
            return sorted(self._table(source).file_uris())
        patterns = [self._local_pattern(pattern) for pattern in source.patterns]
        found = {str(file) for pattern in patterns for file in _matches(pattern, folder)}
        if not found and source.boundedness is Boundedness.BOUNDED:
            message = f"Source `{source.name}`: no file matches {', '.join(source.patterns)}"
            hint = f"(looked from {folder}). Correct `path`, or put the files there."
            raise InputError(message, hint)
        return sorted(found)

    def local(self, path: str) -> str:
        """Where the copy of a planned file lies; itself, if it is on this machine."""
        return path if "://" not in path else str(self._copies / path.replace("://", "/", 1))

    def create_view(
        self, connection: duckdb.DuckDBPyConnection, source: FileSource, paths: list[str], view: str
    ) -> None:
        """Make a view of files, read as a source declares it.

        Args:
            connection: Gets the view.
            source: The declaration.
            paths: The files, on this machine.
            view: Its name, quoted.
        """
        outside = self._partitions(source)
        self._tables += 1
        name = f"{source.name}.{self._tables}"
        if source.format in ("avro", "orc"):
            reader = f"audit.{quoted(name)}"
            _load(connection, source, paths, reader)
        elif source.on_bad_record != "fail":
            folders = {path: _from_folders(path, source) for path in paths}
            rows = load_lines(connection, source, folders, name, bad_table(source.name))
            reader = f"(SELECT * EXCLUDE (_place, _offset, _reason) FROM {rows})"
        else:
            reader = _reader(source, paths, outside)
        types = columns_of(connection, f"SELECT * FROM {reader}")
        partitions = duckdb_types(outside)
        own = duckdb_types(source.columns) if source.columns else {}
        names = [*(own or (name for name in types if name not in partitions)), *partitions]
        wanted = {**own, **partitions}
        selected = ", ".join(_selected(name, types.get(name, ""), wanted) for name in names)
        rows = f"SELECT {selected} FROM {reader}"
        if source.select:
            made = (f"{source.selection.duckdb(at)} AS {quoted(at)}" for at in source.select)
            rows = f"SELECT {', '.join(made)} FROM ({rows})"
        connection.execute(
            f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM ({rows}) {self._range(source)}"
        )

    def _table(self, source: FileSource) -> DeltaTable:
        path = self._loaded.locate(self._local_pattern(source.patterns[0]))
        return DeltaTable(path, version=source.version)

    def _partitions(self, source: FileSource) -> dict[str, str]:
        """Columns that no file holds, and their types."""
        if source.format != "delta":
            return source.partitions
        table = self._table(source)
        types = names_and_types(normalize_schema(pa.schema(table.schema().to_arrow())))
        return {name: types[name] for name in table.metadata().partition_columns}

    def _range(self, source: FileSource) -> str:
        at, wanted = quoted(self._loaded.pipeline.event_time), source.time_range
        limits = [
            f"({at} IS NULL OR {at} {sign} make_timestamptz({to_us(moment)}))"
            for sign, moment in ((">=", wanted.since), ("<", wanted.until))
            if moment is not None
        ]
        return f"WHERE {' AND '.join(limits)}" if limits else ""

    def _local_pattern(self, pattern: str) -> str:
        """A glob on this machine, the files that it may match being copied."""
        if "://" not in pattern or pattern.startswith("file://"):
            return pattern.removeprefix("file://")
        scheme, _, rest = pattern.partition("://")
        place, _, key = rest.partition("/")
        prefix = key[: match.start()] if (match := _MAGIC.search(key)) else key
        if scheme == "hdfs":
            copies = self._copies / scheme / place
            self._copy_blocks(place, prefix, copies)
        else:
            copies = self._copies / "s3" / place
            self._copy_objects(place, prefix, copies)
        return str(copies / key)

    def _copy_objects(self, bucket: str, prefix: str, copies: Path) -> None:
        # boto3 takes a quarter of a second to import; most pipelines need none.
        from sources.storage.s3 import REFUSALS, connect, refused  # noqa: PLC0415

        settings = self._loaded.pipeline.s3
        store = connect(settings)
        try:
            pages = store.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            for item in (item for page in pages for item in page.get("Contents", [])):
                target = copies / item["Key"]
                if not item["Key"].endswith("/") and not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    store.download_file(bucket, item["Key"], str(target))
        except REFUSALS as error:
            raise refused(settings, f"s3://{bucket}/{prefix}*", "read", error) from None

    def _copy_blocks(self, namenode: str, prefix: str, copies: Path) -> None:
        """The client walks the folders that a prefix leaves open; each file is read whole."""
        from sources.storage.hdfs import connect, refused  # noqa: PLC0415

        base = f"/{prefix.rpartition('/')[0]}"
        try:
            client = connect(namenode, self._loaded.pipeline.hdfs)
            found = list(client.list_status(base, recursive=True))
        except FileNotFoundError:
            return
        except (OSError, RuntimeError) as error:
            folder = f"hdfs://{namenode}{base}"
            raise refused(folder, "listed", error) from None
        for status in found:
            target = copies / status.path[1:]
            if status.isdir or not status.path[1:].startswith(prefix) or target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with target.open("wb") as out:
                    for block in client.read(status.path).read_range_stream(0, status.length):
                        out.write(block)
            except (OSError, RuntimeError) as error:
                path = f"hdfs://{namenode}{status.path}"
                raise refused(path, "copied", error) from None


def _matches(pattern: str, folder: Path) -> Iterator[Path]:
    parts = (folder / Path(pattern.removeprefix("file://")).expanduser()).parts
    fixed = next((at for at, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    base = Path(*parts[:fixed])
    magic = parts[fixed:]
    for match in base.glob(str(Path(*magic))) if magic else [base]:
        for file in match.rglob("*") if match.is_dir() else [match]:
            names = file.relative_to(base).parts
            if file.is_file() and not any(name.startswith(("_", ".")) for name in names):
                yield file


def _reader(source: FileSource, paths: list[str], partitions: Mapping[str, str]) -> str:
    """DuckDB's function that reads the files."""
    files = ", ".join(literal(escape(path)) for path in paths)
    hive = "hive_partitioning = false"
    if partitions:
        hive = f"hive_partitioning = true, hive_types = {_struct(duckdb_types(partitions))}"
    if source.format == "text":
        lines = "unnest(regexp_split_to_array(regexp_replace(content, '\\r?\\n$', ''), '\\r?\\n'))"
        return f"(SELECT {lines} AS value FROM read_text([{files}]))"
    if source.is_parquet:
        return f"read_parquet([{files}], union_by_name = true, {hive})"
    assert source.columns is not None  # the declaration refuses it
    if source.format == "json":
        columns = _struct(duckdb_types(source.columns))
        return f"read_json([{files}], columns = {columns}, format = 'newline_delimited', {hive})"
    options = source.csv
    nulls = ", ".join(map(literal, options.null))
    names = "" if options.header else f", names = [{', '.join(map(literal, source.columns))}]"
    return (
        f"read_csv([{files}], all_varchar = true, header = {str(options.header).lower()}, "
        f"delim = {literal(options.delimiter)}, quote = {literal(options.quote)}, "
        f"escape = {literal(options.quote)}, nullstr = [{nulls}], allow_quoted_nulls = false, "
        f"auto_detect = false, union_by_name = {str(options.header).lower()}{names}, {hive})"
    )


def _struct(types: dict[str, str]) -> str:
    return f"{{{', '.join(f'{literal(name)}: {literal(kind)}' for name, kind in types.items())}}}"


def _selected(name: str, kind: str, declared: dict[str, str]) -> str:
    """Return the SQL of a column; a timestamp without a zone is UTC, as everywhere."""
    wanted = declared.get(name, INSTANT if kind.startswith("TIMESTAMP") else kind)
    return quoted(name) if wanted == kind else f"CAST({quoted(name)} AS {wanted}) AS {quoted(name)}"


def _load(
    connection: duckdb.DuckDBPyConnection, source: FileSource, paths: list[str], table: str
) -> None:
    """Make a table of files that DuckDB does not read."""
    made = False
    for path in paths:
        constants = _from_folders(path, source)
        for rows in _batches(source, path):
            named = rows
            for name, text in constants.items():
                named = named.append_column(name, pa.array([text] * len(rows), pa.string()))
            if not made:
                connection.register("_first", named.slice(0, 0))
                connection.execute(f"CREATE TABLE {table} AS SELECT * FROM _first")
                connection.unregister("_first")
                made = True
            insert_arrow(connection, table, named)


def _batches(source: FileSource, path: str) -> Iterator[pa.Table]:
    if source.format == "orc":
        yield orc.read_table(path)
        return
    with needs_extra("avro", "An audit of Avro files"):
        import fastavro  # noqa: PLC0415 - few need it
    with Path(path).open("rb") as file:
        rows = iter(fastavro.reader(file))
        while batch := list(islice(rows, _BATCH_ROWS)):
            yield pa.Table.from_pylist(batch)


def _from_folders(path: str, source: FileSource) -> dict[str, str]:
    pairs = dict(part.split("=", 1) for part in Path(path).parent.parts if "=" in part)
    return {name: unquote(pairs[name]) for name in source.partitions}
