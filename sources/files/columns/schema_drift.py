"""Schema drift: the common columns as which differing files are read without loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pydantic import ValidationError

from sources.common.counting import counted
from sources.common.schema import alike_names, is_open, parse_schema, type_name
from sources.common.widening import is_wider, widest, with_types_from
from sources.config.source.file_options import SchemaDrift
from sources.config.source.file_source import FileSource
from sources.decoding.changes.added_columns import AddedColumn
from sources.errors import InputError
from sources.files.columns.drifted_layouts import ColumnDifference, Layout
from sources.files.listing.split_table import in_one_case, settled_columns


class Unified(NamedTuple):
    """Common columns of files, and how the files differ from them.

    Attributes:
        columns: The common columns, without partition columns.
        layouts: For each distinct schema of the files, in the given order, how it differs.
        warnings: Sentences for the plan.
    """

    columns: pa.Schema
    layouts: list[Layout]
    warnings: list[str]


class _Found(NamedTuple):
    """Columns of some files, by the name that they are read as.

    Attributes:
        path: Path of the first of the files.
        types: Type of each column.
        names: Name of each column in the files.
    """

    path: str
    types: dict[str, pa.DataType]
    names: dict[str, str]


def default_of(drift: SchemaDrift, column: str, kind: pa.DataType) -> object:
    """Return the declared default of a column, converted to a type; None without a default.

    Args:
        drift: The declaration.
        column: Name of the column.
        kind: Its type.

    Raises:
        InputError: The default is not a value of this type.
    """
    declared = drift.defaults.get(column)
    if declared is None:
        return None
    try:
        return AddedColumn(type=type_name(kind), default=declared).value
    except ValidationError:
        message = f"`schema_drift.defaults.{column}: {declared}` is not a valid {type_name(kind)}."
        hint = f"Write a value of this type, or declare another type of `{column}` in `schema`."
        field = f"schema_drift.defaults.{column}"
        raise InputError(message, hint, column=column, field=field) from None


def unify(
    source: FileSource,
    schemas: Sequence[tuple[str, pa.Schema]],
    files: Sequence[int],
    planned: pa.Schema | None = None,
) -> Unified:
    """Find the common columns as which files of different schemas are read without loss.

    With ``schema`` these are the declared columns; without it all columns of all files, each with
    the narrowest type that holds the values of every file.

    Args:
        source: Declaration of the source, with ``schema_drift``.
        schemas: Distinct schemas of the files, each with the path of the first file that has it.
        files: Number of files of each schema.
        planned: Common columns by the plan, for files that arrived after it: such a file may lack
            some, and must have no others. None while planning.

    Raises:
        InputError: A file has a column under two names, or one that is not planned; a type can't be
            read as the declared or a common one without loss; two names differ only in case; or
            ``schema_drift`` names a column that does not exist. Contains the files.
    """
    drift = source.schema_drift or SchemaDrift()
    found = [_found(source.name, path, schema, drift) for path, schema in schemas]
    declared = parse_schema(source.columns) if source.columns else None
    columns = planned or declared
    if columns is None:
        columns = settled_columns(source.name, _common(source, found, files), found[0].path)
    check_names(source.name, columns, drift)
    for each in found:
        for name, kind in each.types.items():
            if name not in columns.names:
                if (alike := alike_names([*columns.names, name])) is not None:
                    raise _in_other_case(source.name, each, *alike)
                raise _unplanned(source.name, name, each)
            if not _is_read_as(kind, columns.field(name).type):
                raise _narrowed(source, name, columns.field(name).type, found, files, planned)
    defaults = {
        field.name: str(value)
        for field in columns
        if (value := default_of(drift, field.name, field.type)) is not None
    }
    layouts = [Layout(differences=_differences(each, columns, defaults)) for each in found]
    warnings = [
        f"Source `{source.name}`: no file has the column `{name}`, which `schema` declares; it is "
        f"{defaults.get(name, 'null')} in every row."
        for name in columns.names
        if all(name not in each.types for each in found)
    ]
    return Unified(columns, layouts, warnings)


def clashing_columns(
    source: FileSource, schemas: Sequence[tuple[str, pa.Schema]], planned: pa.Schema | None = None
) -> set[str]:
    """Return the columns, by their names in files, whose types no common type holds.

    Empty if files can be read as one.

    Args:
        source: Declaration of the source, with ``schema_drift``.
        schemas: Distinct schemas of the files, each with the path of the first file that has it.
        planned: Common columns by the plan; None while planning.

    Raises:
        InputError: A file has a column under two names.
    """
    drift = source.schema_drift or SchemaDrift()
    found = [_found(source.name, path, schema, drift) for path, schema in schemas]
    columns = planned or (parse_schema(source.columns) if source.columns else None)
    types: dict[str, pa.DataType | None] = {}
    for each in found:
        for name, kind in each.types.items():
            if columns is not None:
                read = columns.field(name).type if name in columns.names else kind
                if not _is_read_as(kind, read):
                    types[name] = None
            elif (before := types.setdefault(name, kind)) is not None:
                types[name] = _widest_with_nulls(before, kind)
    refused = {name for name, kind in types.items() if kind is None}
    return {name for each in found for read, name in each.names.items() if read in refused}


def _found(source: str, path: str, schema: pa.Schema, drift: SchemaDrift) -> _Found:
    types: dict[str, pa.DataType] = {}
    names: dict[str, str] = {}
    for field in schema:
        name = drift.renamed.get(field.name, field.name)
        if name in names:
            message = (
                f"Source `{source}`: {path} has both `{names[name]}` and `{field.name}`, and "
                f"`schema_drift.renamed` reads them as one column `{name}`."
            )
            hint = (
                f"Remove `{field.name if name == names[name] else names[name]}` from "
                "`schema_drift.renamed` if they are different columns; else write the file again "
                "with one of them."
            )
            raise InputError(message, hint, source=source, file=path, column=name)
        types[name], names[name] = field.type, field.name
    return _Found(path, types, names)


def _is_read_as(kind: pa.DataType, read: pa.DataType) -> bool:
    """Return whether values are read as a type without a loss, or else are refused one by one."""
    if pa.types.is_decimal(kind) and pa.types.is_decimal(read) and is_open(kind):
        # As many digits as Spark has, whatever the file declares: values have to fit.
        return bool(read.scale >= kind.scale)
    return is_wider(with_types_from(kind, read), read)


def _common(source: FileSource, found: Sequence[_Found], files: Sequence[int]) -> pa.Schema:
    """Return all columns of all files, each with the narrowest type that holds its values."""
    types: dict[str, pa.DataType] = {}
    for each in found:
        for name, kind in each.types.items():
            before = types.get(name, kind)
            wide = _widest_with_nulls(before, kind)
            if wide is None:
                raise _narrowed(source, name, None, found, files)
            types[name] = wide
    return pa.schema(list(types.items()))


def check_names(source: str, columns: pa.Schema, drift: SchemaDrift) -> None:
    """Refuse a ``schema_drift`` that names columns which do not exist: probably misspelled.

    Args:
        source: Name of the source.
        columns: Its columns, without partition columns.
        drift: The declaration; the names are those under ``renamed`` and ``defaults``.

    Raises:
        InputError: Names the column and those that exist.
    """
    named = dict.fromkeys(drift.renamed.values(), "renamed")
    named |= dict.fromkeys(drift.defaults, "defaults")
    for name, part in named.items():
        field = f"schema_drift.{part}"
        if name not in columns.names:
            message = (
                f"Source `{source}`: `{field}` names `{name}`, which is no column of the source."
            )
            hint = (
                f"Write one of {', '.join(columns.names)}; or declare the column in `schema`, with "
                "its type, if files have it later."
            )
            raise InputError(message, hint, source=source, column=name, field=field)


def _in_other_case(source: str, found: _Found, column: str, name: str) -> InputError:
    """Return the error to raise for a column whose name differs from that of another in case."""
    message = (
        f"Source `{source}`: {found.path} has a column `{found.names[name]}`, whose name differs "
        f"only in upper and lower case from `{column}`, which Spark does not tell apart."
    )
    hint = in_one_case(column, found.names[name])
    return InputError(message, hint, source=source, file=found.path, column=name)


def _unplanned(source: str, name: str, found: _Found) -> InputError:
    """Return the error to raise for a column of a later file that the plan does not have."""
    message = (
        f"Source `{source}`: {found.path}, which arrived after the plan was made, has a column "
        f"`{found.names[name]}` that is not in the plan."
    )
    hint = (
        "Write the file again without the column, or declare the columns that are read in "
        "`schema`; or begin a new generation, which plans all files: `hybrid generation new P`."
    )
    return InputError(message, hint, source=source, file=found.path, column=name)


def _narrowed(
    source: FileSource,
    name: str,
    read: pa.DataType | None,
    found: Sequence[_Found],
    files: Sequence[int],
    planned: pa.Schema | None = None,
) -> InputError:
    """Return the error to raise for a column whose types can't be read as one without loss.

    Args:
        source: Declaration of the source.
        name: The column.
        read: The type that is declared or planned; None if the files' own types have no common one.
        found: Columns of the files.
        files: Number of files of each.
        planned: Common columns by the plan; None while planning.
    """
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for each, number in zip(found, files, strict=True):
        if (kind := each.types.get(name)) is not None:
            counts[type_name(kind)] += number
            first.setdefault(type_name(kind), each.path)
    lines = [
        f"    {kind} in {counted(number, 'file')}, such as {first[kind]}"
        for kind, number in counts.items()
    ]
    place = "`schema`" if planned is None else "the plan"
    wanted = "one type" if read is None else f"{type_name(read)}, its type in {place},"
    head = (
        f"Source `{source.name}`: column `{name}` can't be read as {wanted} without a loss of "
        "information:"
    )
    kinds = [each.types[name] for each in found if name in each.types]
    common = reduce(_widest_with_nulls, kinds)
    hint = (
        f"None of these types holds the values of the others: write files again with one type; "
        f"or declare a source for each type, with a `select` that converts `{name}`."
    )
    if common is not None:
        every = "" if source.columns else ", next to all other columns"
        again = "" if planned is None else ", and begin a new generation: `hybrid generation new P`"
        hint = (
            f"Declare `{name}: {type_name(common)}` in the source's `schema`{every}, which holds "
            f"the values of all these files{again}. Or write the files of another type again."
        )
    file = next(iter(first.values()))
    return InputError("\n".join([head, *lines]), hint, source=source.name, column=name, file=file)


def _widest_with_nulls(one: pa.DataType | None, other: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type that holds the values of two, one of which may be undecided."""
    if one is None:
        return None
    return widest(with_types_from(one, other), with_types_from(other, one))


def _differences(
    found: _Found, columns: pa.Schema, defaults: Mapping[str, str]
) -> list[ColumnDifference]:
    differences = []
    for field in columns:
        name = field.name
        if name not in found.types:
            gone = ColumnDifference(column=name, missing=True, default=defaults.get(name))
            differences.append(gone)
            continue
        own = found.types[name]
        kind = None if own == field.type else type_name(own)
        other = None if found.names[name] == name else found.names[name]
        if kind is not None or other is not None:
            differences.append(ColumnDifference(column=name, type=kind, name=other))
    return differences
