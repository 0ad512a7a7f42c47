"""Absent names: declared columns that no sampled JSON value has, as if they were misspelled.

JSON carries no schema: a member that is absent is null, whether its producer leaves it out or it
has another name. So the values of a sample are asked. Formats with schemas need no sample.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.counting import counted
from sources.config.pipeline import Pipeline
from sources.config.source.declared_source import DeclaredSource
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.sampled_objects import sampled_objects
from sources.files.listing.split_table import FileListing

_Path = tuple[str, ...]


def identifying_columns(pipeline: Pipeline, source: DeclaredSource) -> set[str]:
    """Return the columns of a source's values that no row can lack.

    They are the columns, before ``select``, from which key, event time and sequence are computed;
    at least that of the event time.

    Raises:
        KeyError: ``select`` is declared, and lacks one of them.
        InputError: An expression of ``select`` is not SQL.
    """
    names = [pipeline.event_time.column, *pipeline.key]
    if pipeline.sequence is not None:
        names.append(pipeline.sequence)
    return {needed for name in names for needed in source.selection.inputs(name)}


def judge_names_of_files(pipeline: Pipeline, source: FileSource, listing: FileListing) -> list[str]:
    """Check declared names against sampled lines of JSON files; return warnings.

    Empty for other formats, which need no sample. Called while a plan is made.

    Raises:
        InputError: A declared name looks misspelled, or is needed and no line has it; or a file
            can't be read.
        UnavailableError: A storage does not answer.
    """
    if source.format != "json":
        return []
    splits = listing.splits.filter(pc.greater(listing.splits["length"], 0))
    values = sampled_objects(source, pc.unique(splits["path"]).to_pylist(), pipeline.stores)
    inside = pa.schema([each for each in listing.read if each.name not in listing.partitions])
    needed = identifying_columns(pipeline, source)
    return judge_names(source.name, inside, values, "sampled row", needed)


def judge_names(
    source: str,
    columns: pa.Schema,
    values: Sequence[Mapping[str, Any]],
    what: str,
    needed: Collection[str],
) -> list[str]:
    """Refuse declared column names that look misspelled, by a sample of JSON values.

    A declared name that no value has is refused if the values have a nearly equal one (other case,
    ``_`` or ``-``), or if every row needs it. For any other one there is a warning, as producers
    may leave out what is null. Fields of a nested column are checked only if a value has any.

    Args:
        source: Name of the source.
        columns: The declared columns.
        values: Parsed JSON objects of a sample; an empty sample passes.
        what: What the values are, in the singular, for the message, such as ``sampled record``.
        needed: Columns that every row needs.

    Returns:
        One sentence about the other columns that no value has; empty if there are none.

    Raises:
        InputError: Contains the declared names and those of the values.
    """
    seen: set[_Path] = {path for value in values for path in _members(value)}
    declared = set(_fields(pa.struct(columns)))
    absent = [path for path in _fields(pa.struct(columns)) if path not in seen]
    # Nothing is known of the fields of a struct that no value has.
    absent = [path for path in absent if any(other[:-1] == path[:-1] for other in seen)]
    near = {
        path: other
        for path in absent
        for other in sorted(seen - declared)
        if other[:-1] == path[:-1] and _folded(other[-1]) == _folded(path[-1])
    }
    among = counted(len(values), what)
    others = sorted({path[0] for path in seen} - set(columns.names))
    have = f" Other names there are {_in_words(others)}." if others else ""
    if near:
        pairs = ", ".join(f"`{'.'.join(n)}`, but `{'.'.join(o)}`" for n, o in near.items())
        name, other = next(iter(near.items()))
        message = (
            f"Source `{source}`: of {among}, none has {pairs}. Names count with upper and lower "
            "case, so the column would be null."
        )
        hint = (
            f"Write `{other[-1]}` in the source's `schema`; if the column is to be called "
            f"`{name[-1]}`, name all columns in `select`, such as `{name[0]}: {'.'.join(other)}`. "
            "If values have both names, declare both."
        )
        raise InputError(message, hint, source=source, column=".".join(name))
    if lacking := [path[0] for path in absent if path[0] in needed and len(path) == 1]:
        message = (
            f"Source `{source}`: of {among}, none has `{lacking[0]}`, which every row needs as a "
            f"part of its key, its time or its order.{have}"
        )
        hint = "Correct the name in the source's `schema`, or the column that is computed from it."
        raise InputError(message, hint, source=source, column=lacking[0])
    if not absent:
        return []
    return [
        f"Source `{source}`: of {among}, none has {_in_words(map('.'.join, absent))}: null where "
        f"it is left out. If it has another name, correct `schema`.{have}"
    ]


def _members(value: Any) -> Iterator[_Path]:
    """Yield the paths of the members of a parsed JSON value, those inside of lists included."""
    if isinstance(value, list):
        for item in value:
            yield from _members(item)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield (name,)
            yield from ((name, *path) for path in _members(inner))


def _fields(kind: pa.DataType) -> Iterator[_Path]:
    """Yield the paths of the fields of a type; keys of maps are no names."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield (field.name,)
            yield from ((field.name, *path) for path in _fields(field.type))
    elif pa.types.is_list(kind):
        yield from _fields(kind.value_type)


def _in_words(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()
