"""Detection of format, columns, event time and key from some files, for ``hybrid init``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hybrid_extensions.starter.csv_files import dialect_of, names_in_header
from hybrid_extensions.starter.event_times import find_event_time, instant_of
from hybrid_extensions.starter.file_queries import HEAD_BYTES, format_of, run_query
from hybrid_extensions.starter.json_integers import with_integers
from hybrid_extensions.starter.json_objects import begins_with_object, names_in_objects
from hybrid_extensions.starter.keys import find_key
from hybrid_extensions.starter.nested import columns_of_fields, expression_of
from hybrid_extensions.starter.readable_types import readable_types, types_of_parquet
from hybrid_extensions.starter.several_csv_files import wider, without_codes
from sources.common.schema import normalize, type_name, with_leaves
from sources.common.sql.sql_names import quoted
from sources.errors import InputError

_INDEX = re.compile(r"__index_level_\d+__")
_BOM = b"\xef\xbb\xbf"
_DELIMITERS = (b",", b";", b"\t", b"|")
_DIGITS_OF_DOUBLE = 17
_MOST_DIGITS = 38


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
        guessed: Columns without a value, whose types are therefore guesses.
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
    guessed: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def detect(
    path: Path, event_time: str | None, key: Sequence[str], others: Sequence[Path] = ()
) -> Detected:
    """Detect format and columns of history from one of its files, and types of CSV from some more.

    Args:
        path: The file.
        event_time: Name of the event-time column; None to detect it.
        key: Names of the columns that identify a row; empty to detect them. Like the event time,
            one may be a field of a struct, such as ``event.id``.
        others: More of its files.

    Raises:
        InputError: The format is not known, the file can't be read, the event time or the key
            can't be detected, or a column that was named is not one of the file's.
    """
    form = format_of(path)
    every = _columns_of(path, form, folders=False)
    if form == "csv":
        every = _types_in_all(path, every, others)
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
    at = event_time or find_event_time(path, form, columns)
    at, key = of_fields.get(at, at), [of_fields.get(name, name) for name in key]
    names.update({name: name for name in fields})
    if at in fields and kinds[at] != "timestamp":
        raise _no_column(path, str(event_time), columns, folders, is_time=True)
    found, why = (list(key), "") if key else find_key(path, form, columns, at)
    return Detected(
        format=form,
        columns={names[name] or name: kind for name, kind in columns.items()},
        folders=folders,
        event_time=names[at] or at,
        instant=None if kinds[at] == "timestamp" else instant_of(path, form, at, kinds[at]),
        key=[names[name] or name for name in found],
        index=index,
        unnamed=unnamed,
        why_key=why,
        csv=dialect,
        fields=fields,
        texts=texts,
        guessed=[names[name] or name for name in _without_values(path, form, columns)],
        unread=unread,
    )


def _no_objects(path: Path) -> InputError:
    message = f"File {path} has no JSON object in each line, as `format: json` reads them."
    hint = (
        "Write the objects of an array as lines, such as with `jq -c '.[]' FILE > FILE.jsonl`, "
        "then run `hybrid init` again."
    )
    return InputError(message, hint, file=str(path))


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


def _columns_of(path: Path, form: str, *, folders: bool) -> dict[str, str]:
    """Return names and Spark SQL types of the columns, as DuckDB detects them."""
    found = run_query(path, form, "SELECT *", folders=folders, rest="LIMIT 0").schema
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


def _types_in_all(path: Path, columns: dict[str, str], others: Sequence[Path]) -> dict[str, str]:
    """Return the columns of a CSV file with types that hold what other files have, too."""
    unknown = set(_without_values(path, "csv", columns))
    for other in others:
        # What is wrong with it will be said by the plan.
        with suppress(InputError):
            found = _columns_of(other, "csv", folders=False)
            without = _without_values(other, "csv", found)
            for name in [each for each in found if each in columns and each not in without]:
                known = found[name] if name in unknown else columns[name]
                columns[name] = wider(known, found[name])
            unknown -= {*found} - {*without}
    return without_codes([path, *others], columns)


def _type_of(kind: pa.DataType, none: pa.DataType) -> str:
    """Return the Spark SQL type of a column; ``none`` is that of what has no value."""
    try:
        known = normalize(kind)
        return type_name(with_leaves(known, lambda leaf: none if pa.types.is_null(leaf) else leaf))
    except InputError:
        # Types without a counterpart in Spark, such as times of day.
        return "string"


def _without_values(path: Path, form: str, columns: Mapping[str, str]) -> list[str]:
    """Return the columns whose type the file does not tell, as they have no value in it."""
    if form == "parquet":
        schema = pq.read_schema(path)
        return [name for name in columns if pa.types.is_null(schema.field(name).type)]
    texts = [name for name, kind in columns.items() if kind == "string"]
    counts = ", ".join(f"count({quoted(name)})" for name in texts)
    found = run_query(path, form, f"SELECT {counts or 1}")
    return [name for name, count in zip(texts, found, strict=False) if not count[0].as_py()]


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
    found = run_query(path, "csv", query, text=name)
    are_plain, digits, whole, scale = (each[0].as_py() for each in found)
    is_exact = are_plain and digits > _DIGITS_OF_DOUBLE and whole + scale <= _MOST_DIGITS
    return f"decimal({_MOST_DIGITS},{scale})" if is_exact else kind


def _index_of(path: Path, form: str, columns: Mapping[str, str]) -> list[str]:
    """Return the columns that pandas writes for an index without a name."""
    if form == "parquet":
        return [name for name in columns if _INDEX.fullmatch(name)]
    if form != "csv" or "column0" not in columns:
        return []
    # DuckDB gives a name to a column that has none in the header.
    with pa.input_stream(str(path), compression="detect") as file:
        head = file.read(HEAD_BYTES).lstrip(_BOM)
    return ["column0"] if head[:1] in _DELIMITERS or head[:2] == b'""' else []
