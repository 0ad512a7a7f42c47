"""Feature view for Feast: of appended tables only; the key, when a row was known, and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from hybrid_extensions.comparison.compared_tables import open_target
from sources.config.loader import LoadedPipeline
from sources.config.table.known_at import KNOWN_AT, known_at_of
from sources.errors import InputError, StateError

# By Arrow's names of types: the name of a type in `feast.types`, and of `ValueType`.
_TYPES: Mapping[str, tuple[str, str]] = {
    "string": ("String", "STRING"),
    "int8": ("Int32", "INT32"),
    "int16": ("Int32", "INT32"),
    "int32": ("Int32", "INT32"),
    "int64": ("Int64", "INT64"),
    "float": ("Float32", "FLOAT"),
    "double": ("Float64", "DOUBLE"),
    "bool": ("Bool", "BOOL"),
    "binary": ("Bytes", "BYTES"),
}
# Its reader of Delta tables, delta-rs's Arrow dataset, refuses them.
# By the property that enables each.
_UNREADABLE = {
    "columnMapping": "delta.columnMapping.mode",
    "deletionVectors": "delta.enableDeletionVectors",
}


@dataclass(frozen=True)
class View:
    """A feature view of Feast.

    Attributes:
        name: Name of the view, that of the pipeline.
        path: Path or URL of the Delta table.
        endpoint: Endpoint of an S3 store other than Amazon's; else None.
        keys: Columns of the key with their names in Feast's ``ValueType``; each is an entity.
        known_at: Column with the time at which a row became known: ``known_at``, else the event
            time.
        created: Column that decides between rows of a key of the same time: the latest is taken.
            None if there is none.
        features: The other columns, with their types in ``feast.types``.
        notes: Sentences about what Feast does in another way, or does not get.
    """

    name: str
    path: str
    endpoint: str | None
    keys: dict[str, str]
    known_at: str
    created: str | None
    features: dict[str, str]
    notes: list[str] = field(default_factory=list)


def view_of(loaded: LoadedPipeline, key: Sequence[str] = ()) -> View:
    """Return the feature view of a pipeline's table.

    Columns of types that Feast does not have are left out; ``notes`` names them.

    Args:
        loaded: The pipeline.
        key: Columns that identify what features are of; by default those of ``sink.key`` that are
            no times.

    Raises:
        InputError: The table holds latest values only or versions, uses features that Feast can't
            read, or can't be read itself; or a column of the key is missing or of a type that
            can't be one.
        StateError: There is no table yet.
        UnavailableError: The store of the table does not answer.
    """
    pipeline, folder = loaded.pipeline, loaded.target
    _require_append(loaded)
    if (table := open_target(folder)) is None:
        message = f"There is no table {folder} yet, so its columns are not known."
        raise StateError(message, "Run the pipeline first: `hybrid run P`.", table=folder.url)
    if used := sorted(_UNREADABLE.keys() & set(table.protocol().reader_features or ())):
        message = f"The table {folder} uses {', '.join(used)}, which Feast can't read."
        properties = ", ".join(f"`{_UNREADABLE[each]}`" for each in used)
        drops = "; ".join(f"ALTER TABLE delta.`{folder}` DROP FEATURE {each}" for each in used)
        hint = (
            f"Remove {properties} from `sink.properties` if it is there, and drop what is used "
            f"from the table with Spark ({drops}); then export again."
        )
        raise InputError(message, hint, table=folder.url)
    schema = pa.schema(table.schema().to_arrow())
    known_at = known_at_of(pipeline, schema.names)
    times = [each.name for each in schema if pa.types.is_timestamp(each.type)]
    names = list(key) or [each for each in pipeline.sink.key if each not in times]
    keys = _keys(loaded, names, schema)
    rest = [each for each in pipeline.sink.key if each not in (*keys, known_at)]
    created = rest[0] if len(rest) == 1 and rest[0] in times else None
    features = {
        each.name: kind
        for each in schema
        if each.name not in (*keys, known_at) and (kind := _type(each.type)) is not None
    }
    lost = [each for each in schema.names if each not in (*keys, known_at, *features)]
    notes = []
    if known_at != KNOWN_AT:
        notes.append(
            f"A row counts as known at its event time, `{known_at}`, although it arrived later. "
            f"Let the transform compute `{KNOWN_AT}`."
        )
    if rest and created is None:
        notes.append(
            f"Of rows of a key that became known at the same time Feast takes any, not that with "
            f"the highest {', '.join(f'`{each}`' for each in rest)}."
        )
    if lost:
        notes.append(
            f"Left out, as Feast has no such type: {', '.join(f'`{each}`' for each in lost)}."
        )
    endpoint = (folder.documents.delta_options or {}).get("AWS_ENDPOINT_URL")
    return View(pipeline.name, folder.url, endpoint, keys, known_at, created, features, notes)


def _require_append(loaded: LoadedPipeline) -> None:
    sink = loaded.pipeline.sink
    if sink.mode == "append":
        return
    what = (
        "the latest value of each key only, so that Feast would train on what is known today"
        if sink.history is None
        else "versions of rows, of which Feast knows neither ends nor deletes"
    )
    message = (
        f"The table of pipeline `{loaded.pipeline.name}` holds {what} (`sink.mode: {sink.mode}`)."
    )
    hint = "Declare a pipeline with `sink.mode: append` and a column `known_at` for it."
    if sink.history is not None:
        hint = f"{hint} Or make training sets with `hybrid training P`, which knows versions."
    raise InputError(message, hint, pipeline=loaded.pipeline.name, field="sink.mode")


def _keys(loaded: LoadedPipeline, names: Sequence[str], schema: pa.Schema) -> dict[str, str]:
    """Return the columns of the key with Feast's names of their types."""
    if not names:
        declared = ", ".join(loaded.pipeline.sink.key)
        what = f"has times only: {declared}" if declared else "is not declared"
        message = f"`sink.key` of pipeline `{loaded.pipeline.name}` {what}."
        hint = "Name the column that identifies what features are of: `--key COLUMN`."
        raise InputError(message, hint, field="sink.key")
    for name in names:
        if name not in schema.names:
            message = (
                f"There is no column `{name}` in the table, which has {', '.join(schema.names)}."
            )
            raise InputError(message, "Name another one: `--key COLUMN`.", column=name)
        if str(schema.field(name).type) not in _TYPES:
            message = f"Column `{name}` is {schema.field(name).type}, which no key of Feast can be."
            hint = "Let the transform return it as a text or a number, or name another `--key`."
            raise InputError(message, hint, column=name)
    return {name: _TYPES[str(schema.field(name).type)][1] for name in names}


def _type(kind: pa.DataType) -> str | None:
    """Return the name of a type in ``feast.types``; None if it has none."""
    if pa.types.is_timestamp(kind):
        return "UnixTimestamp"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        of = _TYPES.get(str(kind.value_type))
        return None if of is None else f"Array({of[0]})"
    found = _TYPES.get(str(kind))
    return None if found is None else found[0]
