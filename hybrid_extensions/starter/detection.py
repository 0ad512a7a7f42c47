"""Detection of format, columns, event time and key from one file, for ``hybrid init``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

import duckdb
import pyarrow as pa

from hybrid_extensions.starter.csv_files import dialect_of, names_in_header
from hybrid_extensions.starter.json_integers import with_integers
from hybrid_extensions.starter.json_objects import begins_with_object, names_in_objects
from hybrid_extensions.starter.nested import columns_of_fields, expression_of, fields_of_type
from hybrid_extensions.starter.readable_types import readable_types, types_of_parquet
from sources.common.counting import counted
from sources.common.schema import normalize, type_name, with_leaves
from sources.common.sql.sql_names import quoted
from sources.errors import InputError

# By the suffix of a file's name, without `.gz` and the like.
_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json",
            ".csv": "csv"}  # fmt: skip
_PACKED = {".gz", ".zst"}
_READERS = {
    "parquet": "read_parquet(?, hive_partitioning = {folders})",
    "json": "read_json(?, format = 'newline_delimited', hive_partitioning = {folders})",
    "csv": "read_csv(?, hive_partitioning = {folders})",
}
_INTEGERS = ("int", "bigint")
_INDEX = re.compile(r"__index_level_\d+__")
_BOM = b"\xef\xbb\xbf"
_DELIMITERS = (b",", b";", b"\t", b"|")
_LIKELY_KEY = re.compile(r"(^|_)(id|key|no|nr|number|uuid|code)$|id$")
# Columns in which tools that copy tables note what they did, and when.
_OF_LOADER = re.compile(r"_(airbyte|ab|fivetran|sdc|dlt|hoodie)_", re.IGNORECASE)
_WHOLE_DECIMAL = re.compile(r"decimal\(\d+,0\)")
# Texts that a plan casts as Spark does (`hybrid_extensions.expressions`).
_TIME = r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?(Z| UTC|[+-](0\d|1[0-7]):\d\d)?)?)?"
_MOST_KEYS = 12
_DIGITS_OF_DOUBLE = 17
_MOST_DIGITS = 38
_MOST_LINES = 3
# Functions of `select` by the number of their units in a second.
_UNITS = {1: "timestamp_seconds", 1_000: "timestamp_millis", 1_000_000: "timestamp_micros"}
_HEAD_BYTES = 1 << 16
_EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
_AHEAD = timedelta(days=366)


@dataclass(frozen=True)
class Detected:
    """Format and columns of a pipeline's history.

    Attributes:
        format: Format of the files.
        columns: Names and Spark SQL types of the columns inside the files.
        folders: Names of the columns that only folder names contain (``name=value``).
        event_time: Column with the event time.
        instant: Spark SQL that turns the event time, at its ``{}``, into a timestamp, such as
            ``timestamp_millis({})``; None if it is a timestamp already.
        key: Columns that identify a row.
        index: Columns that pandas has added for the index of its rows, which are left out.
        unnamed: Columns that have no name of their own in the header of a CSV file, or in objects
            of JSON, which are left out, by the names that DuckDB gives them.
        why_key: What people should check about the key, as a sentence or two; empty if there is
            nothing.
        csv: Options of CSV that differ from the defaults, by name.
        fields: Columns that are made of fields of structs, in Spark SQL by name.
        texts: Columns that are texts, as runs could not read them as what they look like: a value
            by name.
        unread: Columns that runs can't read, not as texts either, which are left out.
    """

    format: str
    columns: dict[str, str]
    folders: list[str]
    event_time: str
    instant: str | None
    key: list[str]
    index: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    why_key: str = ""
    csv: dict[str, str | bool] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)


def detect(path: Path, event_time: str | None, key: Sequence[str]) -> Detected:
    """Detect format and columns of history from one of its files.

    Args:
        path: The file.
        event_time: Name of the event-time column; None to detect it.
        key: Names of the columns that identify a row; empty to detect them. Like the event time,
            one may be a field of a struct, such as ``event.id``.

    Raises:
        InputError: The format is not known, the file can't be read, the event time or the key
            can't be detected, or a column that was named is not one of the file's.
    """
    form = _format_of(path)
    every = _columns_of(path, form, folders=False)
    if list(every) == ["json"] and not begins_with_object(path):
        raise _no_objects(path)
    index = [name for name in _index_of(path, form, every) if name not in (event_time, *key)]
    dialect = dialect_of(path) if form == "csv" else {}
    names: dict[str, str | None] = {name: name for name in every}
    if form == "csv":
        names = names_in_header(path, dialect, every)
    elif form == "json":
        names = names_in_objects(path, every)
    unnamed = [name for name, own in names.items() if own is None and name not in index]
    columns = {name: kind for name, kind in every.items() if name not in (*index, *unnamed)}
    own = {names[name] or name: kind for name, kind in columns.items()}
    texts: dict[str, str] = {}
    if form == "parquet":
        types = types_of_parquet(path, own)
    else:
        types, texts = readable_types(path, form, dialect, own)
    unread = [name for name in own if name not in types]
    columns = {name: types[each] for name in columns if (each := names[name] or name) in types}
    if form == "csv":
        columns = {name: _exact(path, name, kind) for name, kind in columns.items()}
    folders = [name for name in _columns_of(path, form, folders=True) if name not in every]
    of_fields = columns_of_fields(columns, [each for each in (event_time, *key) if each])
    kinds, fields = dict(columns), {}
    for path_of_field, made in of_fields.items():
        fields[made], kinds[made] = expression_of(columns, path_of_field)
    for name in [event_time, *key]:
        if name is not None and name not in columns and name not in of_fields:
            raise _no_column(path, name, columns, folders, is_time=name == event_time)
    at = event_time or _find_event_time(path, form, columns)
    at, key = of_fields.get(at, at), [of_fields.get(name, name) for name in key]
    names.update({name: name for name in fields})
    if at in fields and kinds[at] != "timestamp":
        raise _no_column(path, str(event_time), columns, folders, is_time=True)
    found, why = (list(key), "") if key else _find_key(path, form, columns, at)
    return Detected(
        format=form,
        columns={names[name] or name: kind for name, kind in columns.items()},
        folders=folders,
        event_time=names[at] or at,
        instant=None if kinds[at] == "timestamp" else _instant_of(path, form, at, kinds[at]),
        key=[names[name] or name for name in found],
        index=index,
        unnamed=unnamed,
        why_key=why,
        csv=dialect,
        fields=fields,
        texts=texts,
        unread=unread,
    )


def _no_objects(path: Path) -> InputError:
    message = f"File {path} has no JSON object in each line, as `format: json` reads them."
    hint = (
        "Write the objects of an array as lines, such as with `jq -c '.[]' FILE > FILE.jsonl`, "
        "then run `hybrid init` again."
    )
    return InputError(message, hint, file=str(path))


def has_rows(path: Path) -> bool:
    """Return whether a file has a row; True if its format is not known or it can't be read."""
    try:
        return bool(_query(path, _format_of(path), "SELECT 1", rest="LIMIT 1").num_rows)
    except InputError:
        return True


def _no_column(
    path: Path, name: str, columns: Mapping[str, str], folders: Sequence[str], *, is_time: bool
) -> InputError:
    option = "--event-time" if is_time else "--key"
    if name in folders:
        message = (
            f"`{name}` is a column of the folders of file {path}, not of the file, and records of "
            "a topic would not have it."
        )
        hint = (
            f"Name one of {', '.join(columns)} with `{option}`. To use `{name}` nevertheless, "
            "declare it under `partitions` of the source afterwards (docs/sources.md)."
        )
        return InputError(message, hint, file=str(path), column=name)
    message = f"File {path} has no column `{name}`; its columns: {', '.join(columns)}."
    return InputError(message, f"Name one of them with `{option}`.", file=str(path), column=name)


def _format_of(path: Path) -> str:
    suffixes = [suffix for suffix in path.suffixes if suffix not in _PACKED]
    if not suffixes or suffixes[-1] not in _FORMATS:
        message = (
            f"The format of file {path.name} is not known by its name; `hybrid init` knows "
            f"{', '.join(_FORMATS)}, also with .gz or .zst."
        )
        hint = (
            "Rename the files if they have one of these formats; for another one write the "
            "pipeline's file by hand (docs/sources.md lists all formats)."
        )
        raise InputError(message, hint, file=str(path))
    return _FORMATS[suffixes[-1]]


def _query(
    path: Path, form: str, select: str, *, folders: bool = False, rest: str = "", text: str = ""
) -> pa.Table:
    """Return the result of a query over the file.

    Args:
        path: The file.
        form: Its format.
        select: The query up to its FROM.
        folders: Whether names and values in folder names count as columns.
        rest: The query after its FROM.
        text: Name of a column of CSV that is read as text, whatever it looks like.
    """
    reader = _READERS[form].format(folders=str(folders).lower())
    if text and form == "csv":
        name = text.replace("'", "''")
        reader = f"{reader.removesuffix(')')}, types = {{'{name}': 'VARCHAR'}})"
    try:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            query = f"{select} FROM {reader} {rest}"
            return connection.sql(query, params=[str(path)]).to_arrow_table()
    except duckdb.Error as error:
        reason, encoding = _reason(error), ""
        message = f"File {path} can't be read as {form}, the format of its name: {reason}"
        if form == "csv" and not _is_utf8(path):
            encoding = (
                "If it is text in another encoding, run `hybrid init` on a copy in UTF-8, and "
                "declare the encoding afterwards, such as `csv: {encoding: latin-1}`. "
            )
        hint = (
            f"{encoding}Correct a row that is named; rename the file if it has another format; "
            "restore or remove it if it is damaged. Then run `hybrid init` again."
        )
        raise InputError(message, hint, file=str(path)) from None


def _reason(error: duckdb.Error) -> str:
    """Return what DuckDB says is wrong, and in which row, without its options as ways out."""
    told, _, _ = str(error).partition("\nPossible ")
    said = [line.strip() for line in told.splitlines() if line.strip()]
    return "; ".join(said[:_MOST_LINES])


def _is_utf8(path: Path) -> bool:
    try:
        with pa.input_stream(str(path), compression="detect") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        # The error already says what is wrong with the file.
        return True
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # The last character may be cut.
        return error.start > len(head) - len("\U0010ffff".encode())
    return True


def _columns_of(path: Path, form: str, *, folders: bool) -> dict[str, str]:
    """Return names and Spark SQL types of the columns, as DuckDB detects them."""
    found = _query(path, form, "SELECT *", folders=folders, rest="LIMIT 0").schema
    # What has no value is read so: of Parquet by the runs, of JSON by Spark.
    none = pa.int32() if form == "parquet" else pa.string()
    kinds = dict(zip(found.names, found.types, strict=True))
    if form == "json":
        kinds = with_integers(path, kinds)
    types = {name: _type_of(kind, none) for name, kind in kinds.items()}
    # DuckDB has numbers of any length, as bytes in Arrow, and CSV has no bytes.
    return {
        name: "string" if form == "csv" and kind == "binary" else kind
        for name, kind in types.items()
    }


def _type_of(kind: pa.DataType, none: pa.DataType) -> str:
    """Return the Spark SQL type of a column; ``none`` is that of what has no value."""
    try:
        known = normalize(kind)
        return type_name(with_leaves(known, lambda leaf: none if pa.types.is_null(leaf) else leaf))
    except InputError:
        # Types without a counterpart in Spark, such as times of day.
        return "string"


def _exact(path: Path, name: str, kind: str) -> str:
    """Return the type of a column of CSV: a decimal if a number has more digits than a double."""
    if kind != "double":
        return kind
    column = f"ltrim(trim({quoted(name)}), '+-')"
    query = (
        f"SELECT bool_and(regexp_full_match({column}, '[0-9]+([.][0-9]+)?')), "
        f"max(length(trim(replace({column}, '.', ''), '0'))), "
        f"max(length(split_part({column}, '.', 1))), max(length(split_part({column}, '.', 2)))"
    )
    found = _query(path, "csv", query, text=name)
    are_plain, digits, whole, scale = (each[0].as_py() for each in found)
    is_exact = are_plain and digits > _DIGITS_OF_DOUBLE and whole + scale <= _MOST_DIGITS
    return f"decimal({_MOST_DIGITS},{scale})" if is_exact else kind


def _unit_of(path: Path, form: str, name: str) -> str | None:
    """Return the function by which all integers of a column are plausible times; None if none."""
    column = quoted(name)
    low, high = (
        found[0].as_py() for found in _query(path, form, f"SELECT min({column}), max({column})")
    )
    if low is None:
        return None
    latest = datetime.now(UTC) + _AHEAD
    for units, function in _UNITS.items():
        begin, end = _EARLIEST.timestamp() * units, latest.timestamp() * units
        if begin <= int(low) <= int(high) <= end:
            return function
    return None


def _instant_of(path: Path, form: str, name: str, kind: str) -> str:
    """Return the Spark SQL that turns an event time that is no timestamp into one."""
    found = _unit_of(path, form, name) if kind in _INTEGERS else None
    if found is not None:
        return f"{found}({{}})"
    if form != "parquet" and (kind == "date" or _are_times(path, form, name, kind)):
        return "CAST({} AS TIMESTAMP)"
    message = (
        f"Column `{name}` of file {path} is no event time: its type is {kind}, and its values are "
        "no seconds, milliseconds or microseconds since 1970 of the years from 1990 on."
    )
    made = {
        "string": f"to_timestamp({name}, 'MM/dd/yyyy HH:mm:ss')",
        "double": f"timestamp_millis(CAST({name} * 1000 AS BIGINT))",
        "bigint": f"timestamp_micros({name} div 1000)",
    }.get(kind, name)
    hint = (
        "Name another column with `--event-time`, or write the pipeline's file by hand with a "
        f"`select` that makes a timestamp of `{name}`, such as `CAST({made} AS TIMESTAMP)` "
        "(docs/sources.md)."
    )
    if form == "parquet":
        hint = (
            "Name another column with `--event-time`, or write the files again with a timestamp: "
            "the event time of Parquet is one, or integers since 1970 (docs/sources.md)."
        )
    raise InputError(message, hint, file=str(path), column=name)


def _are_times(path: Path, form: str, name: str, kind: str) -> bool:
    """Return whether all values of a column of texts are times that Spark casts, as with a zone."""
    if kind != "string":
        return False
    column = f"CAST({quoted(name)} AS VARCHAR)"
    cast = f"TRY_CAST({column} AS TIMESTAMPTZ)"
    is_usual = f"regexp_full_match({column}, '{_TIME}')"
    query = f"SELECT count({column}), count(IF({is_usual}, {cast}, NULL))"
    known, times = (found[0].as_py() for found in _query(path, form, query, text=name))
    return bool(known) and known == times


def _find_event_time(path: Path, form: str, columns: Mapping[str, str]) -> str:
    own = {name: kind for name, kind in columns.items() if not _OF_LOADER.match(name)}
    times = [name for name, kind in own.items() if kind == "timestamp"]
    # Numbers of orders are times of some year by chance.
    numbers = [
        name
        for name, kind in own.items()
        if kind in _INTEGERS and not times and not _LIKELY_KEY.search(name.lower())
    ]
    times += [name for name in numbers if _unit_of(path, form, name) is not None]
    if not times and form != "parquet":
        times = [name for name, kind in own.items() if _are_times(path, form, name, kind)]
    if len(times) == 1:
        return times[0]
    number = f"{len(times)} columns" if times else "no column"
    message = (
        f"The event time can't be detected: {number} of file {path} {'have' if times else 'has'} "
        "the type timestamp, or the time since 1970 as integers, and it has to be one; those of "
        "loaders (such as `_airbyte_…`), and integers that are named as a key, do not count."
    )
    choice = f"one of {', '.join(times or fields_of_type(columns, 'timestamp') or columns)}"
    raise InputError(message, f"Name the column with `--event-time`: {choice}.", file=str(path))


def _index_of(path: Path, form: str, columns: Mapping[str, str]) -> list[str]:
    """Return the columns that pandas writes for an index without a name."""
    if form == "parquet":
        return [name for name in columns if _INDEX.fullmatch(name)]
    if form != "csv" or "column0" not in columns:
        return []
    # DuckDB gives a name to a column that has none in the header.
    with pa.input_stream(str(path), compression="detect") as file:
        head = file.read(_HEAD_BYTES).lstrip(_BOM)
    return ["column0"] if head[:1] in _DELIMITERS or head[:2] == b'""' else []


def _find_key(path: Path, form: str, columns: Mapping[str, str], at: str) -> tuple[list[str], str]:
    """Return the columns that identify a row, and why: `id`, or else what is unique in the file."""
    if "id" in columns:
        return ["id"], _why_check_id(path, form)
    kinds = (*_INTEGERS, "string", "date")
    named = [
        name
        for name, kind in columns.items()
        if (kind in kinds or _WHOLE_DECIMAL.fullmatch(kind))
        and name != at
        and not _OF_LOADER.match(name)
    ]
    # By their names first, as in a small file much is unique by chance.
    likely = sorted(named[:_MOST_KEYS], key=lambda name: not _LIKELY_KEY.search(name.lower()))
    sets = [[name] for name in likely] + [[name, at] for name in likely]
    for each in [*sets, *map(list, combinations(likely, 2))]:
        rows = _rows_if_unique(path, form, each)
        if rows is not None:
            why = (
                f"The key is [{', '.join(each)}], as its value is another one in each of "
                f"{counted(rows, 'row')} of {path.name}. Check that it is so in all files."
            )
            return each, why
    message = (
        f"The key can't be detected: file {path} has no column `id`, and of its columns of "
        f"integers, texts and dates (the first {_MOST_KEYS}) no one or two have values that are "
        "unique in it."
    )
    hint = f"Name each column that identifies a row with `--key`: of {', '.join(columns)}."
    raise InputError(message, hint, file=str(path))


def _why_check_id(path: Path, form: str) -> str:
    rows, distinct = _rows_and_values(path, form, ["id"])
    if rows == distinct:
        return ""
    return (
        f"The key is [id], which has {counted(distinct, 'value')} in {counted(rows, 'row')} of "
        f"{path.name}. If these are versions of rows, declare `mode: merge`; if they are different "
        "rows, name the columns that identify one with `--key`."
    )


def _rows_if_unique(path: Path, form: str, columns: Sequence[str]) -> int | None:
    """Return the number of rows if each has its own values of some columns, none of them null."""
    rows, distinct = _rows_and_values(path, form, columns)
    return rows if rows == distinct and rows > 1 else None


def _rows_and_values(path: Path, form: str, columns: Sequence[str]) -> tuple[int, int]:
    """Return the number of rows, and of different values of some columns without a null."""
    names = ", ".join(map(quoted, columns))
    known = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in columns)
    query = f"SELECT count(*), count(DISTINCT ({names})) FILTER ({known})"
    rows, distinct = (found[0].as_py() for found in _query(path, form, query))
    return rows, distinct
