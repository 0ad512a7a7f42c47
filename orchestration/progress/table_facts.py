"""Facts of the target by its log: version, rows, size, newest time; ten of its rows as texts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from orchestration.display import exact
from sources.common.schema import names_and_types
from sources.common.sql.sql_names import quoted
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.serving import read_serving, target_of
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table, is_delta_table, query_rows, unreadable_table

_ROWS = 10
_NBSP = "\N{NO-BREAK SPACE}"
_DELETED = "deletion_vector.cardinality"


class TableFacts(NamedTuple):
    """Facts about a Delta table, known without reading its rows.

    Attributes:
        url: Its path or URL.
        version: Number of its newest version.
        written_ms: When a file with rows was last written, in ms since 1970; None without files.
            Starts of a query and promotions commit, but write none.
        newest_ms: Highest event time by the files' statistics, in ms since 1970; None if the table
            lacks the event-time column, or a file its statistics.
        rows: Number of rows; None if a file's statistics are missing.
        bytes: Size of the files that hold them.
        files: How many files these are.
        columns: Spark SQL types of the columns, by name.
    """

    url: str
    version: int
    written_ms: int | None
    newest_ms: int | None
    rows: int | None
    bytes: int
    files: int
    columns: dict[str, str]


def table_facts(loaded: LoadedPipeline) -> TableFacts | None:
    """Return facts about the table that readers see, from its log; None if there is none yet.

    Raises:
        InputError: The table can't be read.
        StateError: The state is damaged.
        UnavailableError: The store of the state or of the table does not answer.
    """
    folder = target_of(loaded, read_serving(loaded).generation)
    try:
        if not is_delta_table(folder):
            return None
        table = delta_table(folder)
        files = pa.table(table.get_add_actions(flatten=True))
        columns = names_and_types(pa.schema(table.schema().to_arrow()))
    except (DeltaError, OSError) as error:
        raise _unreadable(folder, error) from None
    counts = files["num_records"].to_pylist()
    deleted = files[_DELETED].to_pylist() if _DELETED in files.column_names else []
    return TableFacts(
        url=folder.url,
        version=int(table.version()),
        written_ms=pc.max(files["modification_time"].cast(pa.int64())).as_py(),
        newest_ms=_highest(files, loaded.pipeline.event_time.column),
        rows=None if None in counts else sum(counts) - sum(each or 0 for each in deleted),
        bytes=sum(files["size_bytes"].to_pylist()),
        files=files.num_rows,
        columns=columns,
    )


_FAR = "with dates outside of the years 1 to 9999"


def first_rows(loaded: LoadedPipeline, columns: Iterable[str]) -> list[dict[str, str]]:
    """Return up to ten rows of the table that readers see, each as texts by name of the column.

    Which rows these are is not defined; empty if the table has none. The table must exist. A null
    is the text ``NULL``; lists, structs and truth values are JSON.

    Args:
        loaded: The pipeline.
        columns: Names of the columns.

    Raises:
        InputError: The table can't be read.
        StateError: The state is damaged.
        UnavailableError: The store of the state or of the table does not answer.
    """
    folder = target_of(loaded, read_serving(loaded).generation)
    query = f"SELECT {', '.join(map(quoted, columns))} FROM target LIMIT {_ROWS}"
    try:
        rows = query_rows(delta_table(folder), query).read_all()
    except Exception as error:  # delta-rs has no type of its own for what a query meets
        raise _unreadable(folder, error) from None
    names = rows.column_names
    return [dict(zip(names, map(_text, row), strict=True)) for row in zip(*rows, strict=True)]


def _unreadable(folder: Folder, error: Exception) -> HybridError:
    """Return the error to raise for a table that can't be read; of its store, if that is silent.

    Raises:
        UnavailableError: The store does not answer now.
        InputError: The store refuses.
    """
    if isinstance(error, HybridError):
        return error
    repair = "Restore files that it or its `_delta_log` lacks from a backup, then look again."
    return unreadable_table(f"The table {folder.url} can't be read", folder, error, repair)


def _text(of: pa.Scalar) -> str:
    try:
        value = of.as_py()
    except (OverflowError, ValueError):
        # Python has no dates before the year 1 and after the year 9999.
        return _FAR if pa.types.is_nested(of.type) else of.cast(pa.string()).as_py()
    if value is None:
        return "NULL"
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    # Dagster's narrow tables break lines at spaces, and also at the hyphens of ISO dates.
    return exact(value).replace(" ", _NBSP) if isinstance(value, date) else str(value)


def _highest(files: pa.Table, column: str) -> int | None:
    """Return the highest time of a column by the files' statistics, in ms since 1970."""
    name = f"max.{column}"
    if name not in files.column_names or not pa.types.is_timestamp(files[name].type):
        return None
    empty = pc.equal(files[f"null_count.{column}"], files["num_records"])
    if not pc.all(pc.or_(pc.is_valid(files[name]), empty), skip_nulls=False).as_py():
        return None
    highest = pc.max(files[name].cast(pa.timestamp("ms", files[name].type.tz), safe=False))
    newest: int | None = highest.cast(pa.int64()).as_py()
    return newest
