"""Delta table as history: files of a version by its log; refused features, variants, offsets.

Files, rows and ranges come from the table's log; only files without statistics are opened
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#per-file-statistics).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sources.common.schema import normalize_schema
from sources.common.sql.select import EventColumn
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.columns.mapped_columns import NAME_IN_FILE, MappedColumns
from sources.files.tables.table_commits import Appended, TableCommits
from sources.files.tables.table_files import TableFiles
from sources.files.tables.table_times import FilesOfVersion
from sources.formats.deletion_vectors import deletion_vector
from sources.formats.event_times import EventTimeRange
from sources.formats.parquet.footers import check_event_column
from sources.storage.base import File
from sources.storage.folder_partitions import partition_from
from sources.storage.stores import Stores
from sources.storage.tables.delta import delta_table, unknown_feature

# Statistics of timestamps are rounded down to milliseconds, the highest values too.
_LOST_US = 999
# Reader features that do not change how the files are read.
_HARMLESS = {
    *("timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"),
    # Spark's reader widens the values of older files.
    *("typeWidening", "typeWidening-preview"),
    # Their columns are refused by name.
    *("variantType", "variantType-preview", "variantShredding", "variantShredding-preview"),
}
# Schemes of Hadoop that the project's storages name otherwise.
_SCHEMES = {"s3a": "s3", "s3n": "s3"}
_VECTORS, _MAPPING = "deletionVectors", "columnMapping"
_AGAIN = "Begin a new generation, which reads the table as it is: `hybrid generation new P`."


def list_table(
    source: FileSource,
    path: str,
    event: EventColumn,
    stores: Stores,
    appended: Appended | None = None,
) -> TableFiles:
    """Return the data files of a Delta table at the declared version, or at the newest one.

    Args:
        source: Declaration of the source.
        path: Folder of the table, absolute.
        event: Column that holds the event time.
        stores: Storages of the pipeline.
        appended: What commits of a table that is followed append: only these files are returned,
            as the table has them at that position. None for all files.

    Raises:
        InputError: There is no such table or version, its event-time column is missing or of a
            wrong type, or it uses a feature with which its files can't be read; a file without
            statistics can't be read; or the storage refuses.
        UnavailableError: The storage does not answer.
    """
    declared = source.version if appended is None else appended.position.version
    try:
        table = delta_table(stores.folder(path), declared)
        actions = pa.table(table.get_add_actions(flatten=True))
    except (DeltaError, OSError) as error:
        stores.require_answer(path)
        version = "newest version" if declared is None else f"version {declared}"
        reason = str(error).strip().removesuffix(".")
        if (unknown := unknown_feature(reason)) is not None:
            raise _has_features(source, path, [unknown]) from None
        message = (
            f"Source `{source.name}`: {path} can't be read as a Delta table ({version}): {reason}."
        )
        hint = "Correct `path`, which has to be the table's folder (with `_delta_log` in it)"
        if source.is_placed_by_plan:
            hint = "Restore the table's folder, with `_delta_log` in it"
        if source.version is not None:
            hint += ", or `version`, which has to be one that the table still has"
        hint += "."
        raise InputError(message, hint, source=source.name, table=path) from None
    _require_readable(source, path, table)
    table_id = str(table.metadata().id)
    commits = TableCommits(source.name, stores.folder(path))
    position = commits.position(table_id, table.version())
    vectors = _deleted(source, stores, table, path, _paths(path, actions))
    mapping = _mapping(table)
    if appended is not None:
        actions = _only(source, path, actions, appended, table_id)
        names = [field.name for field in table.schema().fields]
        _require_same_names(source, path, names, mapping, appended.mapping)
    columns = normalize_schema(pa.schema(table.schema().to_arrow()))
    check_event_column(columns, event, path)
    names = table.metadata().partition_columns
    files, partitions = [], []
    for row in actions.to_pylist():
        files.append(File(_located(path, row["path"]), row["size_bytes"], None, None))
        partitions.append(partition_from({name: row[f"partition.{name}"] for name in names}))
    paths = [file.path for file in files]
    deleted = [vectors.get(file) for file in paths]
    if source.offsets is not None and (mapping is not None or any(deleted)):
        why = "deleted rows in them" if mapping is None else "columns of other names in them"
        message = (
            f"Source `{source.name}`: offsets can't be read from the files of its Delta table, "
            f"which has {why}."
        )
        hint = "Remove `offsets`: the start of the topic is then found by event time."
        raise InputError(message, hint, source=source.name, field="offsets")
    inside = event._replace(may_lack=True)
    if mapping is not None and event.name not in names:
        inside = inside._replace(
            name=mapping.physical(event.name), number=mapping.number(event.name)
        )
    found = FilesOfVersion(paths, partitions, deleted, actions["num_records"].to_pylist())
    if event.name in names:
        ranges = found.times_of_partitions(columns.field(event.name), event, stores)
    else:
        ranges = found.times(_known(actions, inside), inside, stores)
    return TableFiles(files, partitions, names, columns, ranges, deleted, mapping, inside, position)


def _only(
    source: FileSource, path: str, actions: pa.Table, appended: Appended, table_id: str
) -> pa.Table:
    """Return the actions of the files that commits append; refuse a table that lacks one."""
    wanted = {_located(path, each) for each in appended.paths}
    found = _paths(path, actions)
    lacking = wanted - set(found)
    if lacking or table_id != appended.position.table_id:
        why = (
            f"it lacks {min(lacking)}"
            if table_id == appended.position.table_id
            else "the table was created again meanwhile"
        )
        message = (
            f"Source `{source.name}`: version {appended.position.version} of the table {path} is "
            f"not the one whose commits were read: {why}."
        )
        raise InputError(message, _AGAIN, source=source.name, table=path)
    return actions.filter(pa.array([each in wanted for each in found]))


def _require_same_names(
    source: FileSource,
    path: str,
    fields: Iterable[str],
    now: MappedColumns | None,
    planned: MappedColumns | None,
) -> None:
    """Refuse a column that files have under another name than when the plan was made."""
    for name in source.columns or fields:
        known = [each.fields.get(name) for each in (planned, now) if each is not None]
        named = [[part for part in _parts(each) if "name" in part] for each in known]
        inside = {tuple(part["metadata"][NAME_IN_FILE] for part in parts) for parts in named}
        if len(known) == 1:
            # Without a mapping, files have the names of the table.
            inside.add(tuple(part["name"] for part in named[0]))
        # What only one of two mappings has is another column, and refused as such.
        if None not in known and len(inside) > 1:
            message = (
                f"Source `{source.name}`: column `{name}` of the table {path}, or a field in it, "
                "has another name in the files than when the plan was made: it was dropped and "
                "added again, or columns were renamed."
            )
            raise InputError(message, _AGAIN, source=source.name, table=path, column=name)


def _require_readable(source: FileSource, path: str, table: DeltaTable) -> None:
    features = set(table.protocol().reader_features or ()) - _HARMLESS - {_VECTORS, _MAPPING}
    if features:
        raise _has_features(source, path, features)
    for field in json.loads(table.schema().to_json())["fields"]:
        if source.columns and field["name"] not in source.columns:
            continue
        if (place := _variant_in(field["type"], field["name"])) is not None:
            message = (
                f"Source `{source.name}`: column `{place}` of its Delta table has the type "
                "variant, which is not read from the table's files."
            )
            hint = (
                "Declare `schema` with the other columns alone, or copy the table with the column "
                "as a string: `to_json(…)` in Spark."
            )
            raise InputError(message, hint, source=source.name, column=field["name"])
        # Timestamps without a time zone are read as UTC, and Spark reads no date as such a one.
        dated = [each for each in _type_changes(field) if each["toType"] == "timestamp_ntz"]
        if dated:
            message = (
                f"Source `{source.name}`: column `{field['name']}` of its Delta table was of the "
                "type date before it became timestamp_ntz, or has a nested field that was, and "
                "older files still hold dates."
            )
            # Of lists and maps, Delta 4.4 drops the feature and leaves the files as they are.
            is_rewritten = not any("fieldPath" in each for each in dated)
            rewrite = (
                "Rewrite the files (`ALTER TABLE … DROP FEATURE 'typeWidening'` in Spark does)"
                if is_rewritten
                else "Copy the rows to another table, and name that one under `path`"
            )
            hint = f"{rewrite}, or declare `schema` with the other columns alone."
            raise InputError(message, hint, source=source.name, column=field["name"])


def _has_features(source: FileSource, path: str, features: Iterable[str]) -> InputError:
    names = sorted(features)
    what, them = ("features", "them") if len(names) > 1 else ("a feature", "it")
    message = (
        f"Source `{source.name}`: the Delta table {path} has {what} with which its files can't "
        f"be read: {', '.join(names)}."
    )
    hint = (
        f"Drop {them} from the table (ALTER TABLE … DROP FEATURE), or copy the rows to a table "
        f"without {them} and name that one under `path`."
    )
    return InputError(message, hint, source=source.name, table=path, field="path")


def _variant_in(kind: Any, place: str) -> str | None:
    """Return the dotted name of the column, or of what is in it, that is a variant; else None."""
    if isinstance(kind, str):
        return place if kind == "variant" else None
    inside = {name: kind.get(f"{name}Type", "") for name in ("element", "key", "value")}
    inside |= {field["name"]: field["type"] for field in kind.get("fields", [])}
    found = (_variant_in(each, f"{place}.{name}") for name, each in inside.items())
    return next((each for each in found if each is not None), None)


def _type_changes(field: Any) -> Iterator[dict[str, Any]]:
    """Yield the changes of type of a column and of all fields inside it, as the log has them."""
    for part in _parts(field):
        yield from part.get("metadata", {}).get("delta.typeChanges", [])


def _parts(part: Any) -> Iterator[dict[str, Any]]:
    """Yield a column, or a type, and all fields and types inside it, as the log has them."""
    if isinstance(part, dict):
        yield part
        for inside in (part.get(name) for name in ("type", "elementType", "keyType", "valueType")):
            yield from _parts(inside)
        for field in part.get("fields", []):
            yield from _parts(field)


def _mapping(table: DeltaTable) -> MappedColumns | None:
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mode not in ("name", "id"):
        return None
    fields = json.loads(table.schema().to_json())["fields"]
    return MappedColumns(mode=mode, fields={field["name"]: field for field in fields})


def _deleted(
    source: FileSource, stores: Stores, table: DeltaTable, folder: str, paths: Sequence[str]
) -> dict[str, bytes | None]:
    """Return the deletion vectors of a table's files, by path; files without one are left out."""
    found: dict[str, bytes | None] = {}
    if _VECTORS in (table.protocol().reader_features or ()):
        try:
            batches = list(table.deletion_vectors())
        except (DeltaError, OSError) as error:
            stores.require_answer(folder)
            message = (
                f"Source `{source.name}`: deleted rows of the Delta table {folder} can't be "
                f"distinguished from the others, as a deletion vector can't be read: "
                f"{str(error).strip().removesuffix('.')}."
            )
            hint = (
                "Restore the file, or declare a `version` of the table that does not need it; then "
                "plan again: `hybrid plan P`. Nothing was changed."
            )
            raise InputError(message, hint, source=source.name, table=folder) from None
        for batch in batches:
            names, kept = (pa.chunked_array([batch[at]]) for at in (0, 1))
            for name, mask in zip(names.to_pylist(), kept.combine_chunks(), strict=True):
                values = mask.values.to_numpy(zero_copy_only=False)
                found[_located(folder, name)] = deletion_vector(np.flatnonzero(~values))
    if others := found.keys() - set(paths):
        message = (
            f"Source `{source.name}`: the Delta table {folder} has deletion vectors of files that "
            f"are not in its log: {min(others)}. Nothing was read."
        )
        hint = "Plan again, or declare another `version` of the table: this one is inconsistent."
        raise InputError(message, hint, source=source.name, file=min(others))
    return found


def _paths(table: str, actions: pa.Table) -> list[str]:
    """Return the absolute paths of the files of a table's actions, in order."""
    return [_located(table, path) for path in actions["path"].to_pylist()]


def _located(table: str, path: str) -> str:
    """Return the path of a file; the log has it as a URI, relative if it is in the folder."""
    plain = unquote(path)
    if "://" in plain:
        scheme, _, rest = plain.partition("://")
        return rest if scheme == "file" else f"{_SCHEMES.get(scheme, scheme)}://{rest}"
    return plain if plain.startswith("/") else f"{table.rstrip('/')}/{plain}"


def _known(actions: pa.Table, event: EventColumn) -> list[EventTimeRange | None]:
    """Return rows and event times by the statistics of each file; None where there are none."""
    columns = [
        _numbers(actions, name, event)
        for name in (f"min.{event.name}", f"max.{event.name}", f"null_count.{event.name}")
    ]
    ranges: list[EventTimeRange | None] = []
    for rows, low, high, nulls in zip(actions["num_records"].to_pylist(), *columns, strict=True):
        if rows is None or nulls is None or (low is None and nulls != rows):
            ranges.append(None)
        elif low is None:
            ranges.append(EventTimeRange(rows, None, None, nulls))
        else:
            ranges.append(EventTimeRange(rows, low, high, nulls))
    return ranges


def _numbers(actions: pa.Table, name: str, event: EventColumn) -> list[int | None]:
    """Return a statistic of each file: a count, or an event time in microseconds."""
    if name not in actions.column_names:
        return [None] * len(actions)
    values = actions[name]
    if pa.types.is_timestamp(values.type):
        # One without a time zone is taken as UTC.
        micros = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
        lost = _LOST_US if name.startswith("max.") else 0
        return [None if value is None else value + lost for value in micros.to_pylist()]
    unit_us = 1 if name.startswith("null_count.") else event.unit_us or 1
    return [None if value is None else value * unit_us for value in values.to_pylist()]


class DeltaTables:
    """Lister of Delta tables; implements :class:`sources.files.tables.lake.FollowedTables`."""

    format = "delta"

    def list_table(
        self, source: FileSource, path: str, event: EventColumn, stores: Stores
    ) -> TableFiles:
        """Return the data files of the declared version, or of the newest one.

        Raises as the function :func:`list_table`.
        """
        return list_table(source, path, event, stores)

    def list_appended(
        self,
        source: FileSource,
        path: str,
        event: EventColumn,
        stores: Stores,
        appended: Appended,
    ) -> TableFiles:
        """Return the data files that commits append, as the table has them at their position.

        Raises as the function :func:`list_table`, and InputError if the table was created again or
        no longer has one of these files.
        """
        return list_table(source, path, event, stores, appended)


LAKES = [DeltaTables()]
