"""States of a training set's ranges: which are up to date, and why others are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, Schema

from hybrid_extensions.comparison.compared_tables import open_target
from hybrid_extensions.comparison.duckdb_database import INSTANT, schema_of
from hybrid_extensions.training.sets.declare import (
    LABEL_RANGE,
    DeclaredSet,
    Labels,
    TrainingSection,
)
from hybrid_extensions.training.sets.feature_table import FeatureTable, open_features
from hybrid_extensions.training.sets.label_ranges import end_of, is_key
from hybrid_extensions.training.sets.opened_labels import (
    LABELS,
    Fingerprint,
    fingerprints,
    open_labels,
    require_in_ranges,
)
from hybrid_extensions.training.sets.set_record import ComputedFrom, RangeRecord, read_record
from sources.common.sql.sql_names import column_list, quoted
from sources.config.loader import LoadedPipeline
from sources.config.table.known_at import KNOWN_AT
from sources.errors import InputError
from sources.storage.folder import Folder
from spark_jobs.table.commit_log import RESTORE, CommitLog


@dataclass(frozen=True)
class RangeState:
    """A range of label times: what of it has to be computed, and why.

    Attributes:
        key: Key of the range.
        rows: Number of its labels.
        are_labels_new: Whether its labels are others than those that it was computed from.
        tables: Names of the feature tables whose columns have to be computed, in order.
        reasons: Why, as phrases; empty if the range is up to date.
    """

    key: str
    rows: int
    are_labels_new: bool = False
    tables: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def is_current(self) -> bool:
        """Whether nothing has to be computed."""
        return not self.reasons


@dataclass(frozen=True)
class SetLook:
    """A training set as it is now, next to its labels and its feature tables.

    Attributes:
        declared: The set.
        folder: Folder of its Delta table.
        table: The table; None if there is none yet.
        labels: DuckDB types of the labels' columns, by name.
        features: The feature tables.
        schema: Columns that the set has to have.
        ranges: All ranges that have labels, or had some, in order.
        record: What the ranges were computed from, by key.
        rebuild: Why the table has to be written as a whole, a phrase; None if it has not.
    """

    declared: DeclaredSet
    folder: Folder
    table: DeltaTable | None
    labels: dict[str, str]
    features: list[FeatureTable]
    schema: pa.Schema
    ranges: list[RangeState]
    record: dict[str, RangeRecord] = field(default_factory=dict)
    rebuild: str | None = None


def set_of(loaded: LoadedPipeline, name: str) -> DeclaredSet:
    """Return the declared training set of a name.

    Raises:
        InputError: The pipeline declares none of this name.
    """
    sets = loaded.section(TrainingSection).training_sets
    for each in sets:
        if each.name == name:
            return each
    names = ", ".join(f"`{each.name}`" for each in sets) or "none"
    message = f"Pipeline `{loaded.pipeline.name}` has no training set `{name}`."
    hint = f"Name one that `training_sets` declares; it declares {names}."
    raise InputError(message, hint, pipeline=loaded.pipeline.name, value=name)


def look_at(
    connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline, declared: DeclaredSet
) -> SetLook:
    """Return which ranges of a set are up to date; reads all labels, and no rows of other tables.

    Args:
        connection: A database, which gets the view of the labels.
        loaded: The pipeline that declares the set.
        declared: The set.

    Raises:
        InputError: Labels or tables are not there, can't be read or do not fit the declaration.
        StateError: The table of a pipeline was not made yet, or the state is damaged.
        UnavailableError: A store does not answer.
    """
    labels = open_labels(connection, loaded, declared)
    features = open_features(connection, loaded, declared, labels)
    found = require_in_ranges(declared, fingerprints(connection, LABELS, labels))
    folder = loaded.place(declared.path).called("training set")
    table = open_target(folder)
    identity = None if table is None else str(table.metadata().id)
    known = read_record(loaded, declared.name, identity)
    record = dict(known.ranges)
    schema = _schema(connection, labels, features)
    rebuild, there = None, list[str]()
    if table is not None:
        rebuild = _other_columns(folder, table, schema, bool(record))
        there = [str(each.get(LABEL_RANGE)) for each in table.partitions()]
        rebuild = rebuild or _other_ranges(declared.labels, known.by, there)
        rebuild = rebuild or _restored(folder, table, record)
    if rebuild is not None:
        record = {}
    changed = _Changes(features)
    # Rows of a range that is not recorded are there if a process was killed after their commit.
    keys = {*found, *record, *(each for each in there if is_key(declared.labels, each))}
    ranges = [
        _state(declared, key, found.get(key), record.get(key), changed) for key in sorted(keys)
    ]
    return SetLook(declared, folder, table, labels, features, schema, ranges, record, rebuild)


class _Changes:
    """From which time on each feature table has changed, since versions that were asked for."""

    def __init__(self, features: Sequence[FeatureTable]) -> None:
        self.features = features
        self._known: dict[tuple[str, int, str], datetime | None] = {}
        self.digests = {each.name: each.digest for each in features}

    def since(self, table: FeatureTable, used: ComputedFrom) -> datetime | None:
        asked = (table.name, used.version, used.commit)
        if asked not in self._known:
            self._known[asked] = table.changed_since(used.version, used.commit)
        return self._known[asked]


def _state(
    declared: DeclaredSet,
    key: str,
    found: Fingerprint | None,
    record: RangeRecord | None,
    changes: _Changes,
) -> RangeState:
    every = tuple(each.name for each in changes.features)
    if found is None:
        return RangeState(key, 0, True, (), ("its labels are gone",))
    if record is None:
        return RangeState(key, found.rows, True, every, ("not computed yet",))
    if record.labels != found.digest:
        return RangeState(key, found.rows, True, every, ("its labels have changed",))
    end = end_of(declared.labels, key)
    stale: dict[str, str] = {}
    for table in changes.features:
        used = record.tables.get(table.name)
        if used is None:
            stale[table.name] = f"`{table.name}` is new"
        elif used.digest != changes.digests[table.name]:
            stale[table.name] = f"`{table.name}` is declared or made in another way"
        elif (since := changes.since(table, used)) is not None and since < end:
            stale[table.name] = (
                f"`{table.name}` has changed, from version {used.version} to {table.version}"
            )
    return RangeState(key, found.rows, False, tuple(stale), tuple(stale.values()))


def _schema(
    connection: duckdb.DuckDBPyConnection,
    labels: Mapping[str, str],
    features: Sequence[FeatureTable],
) -> pa.Schema:
    """Return the columns of the set: those of the labels, of each table, and the range."""
    selected, sources = [column_list(list(labels))], [LABELS]
    for number, table in enumerate(features):
        name = f"_features_{number}"
        empty = pa.schema(table.opened.schema().to_arrow()).empty_table()
        connection.register(name, empty)
        of_row = [f"{name}.{quoted(each)}" for each in table.declared.columns]
        of_row.append(f"CAST({name}.{quoted(table.known_at)} AS {INSTANT})")
        made = zip(of_row, table.made, strict=True)
        selected += [f"{value} AS {quoted(column)}" for value, column in made]
        sources.append(name)
    own = ", ".join(f"{LABELS}.{quoted(each)}" for each in labels)
    query = f"SELECT {own}, {', '.join(selected[1:])}, {LABEL_RANGE} FROM {', '.join(sources)}"
    schema = schema_of(connection, query)
    for number in range(len(features)):
        connection.unregister(f"_features_{number}")
    return schema


def _other_columns(
    folder: Folder, table: DeltaTable, schema: pa.Schema, is_known: bool
) -> str | None:
    """Return why the table that there is can't get the columns of the set, a phrase; or None.

    Raises:
        InputError: The folder has a table that is no training set of this declaration.
    """
    names = [each.name for each in table.schema().fields]
    if not is_known and f"__{KNOWN_AT}" not in " ".join(names):
        message = (
            f"{folder} has a Delta table that is no training set; its columns are "
            f"{', '.join(names)}."
        )
        hint = "Name another folder in `path` of the training set."
        raise InputError(message, hint, table=folder.url, field="training_sets")
    wanted = {each.name: each.type for each in Schema.from_arrow(schema).fields}
    for each in table.schema().fields:
        if each.name not in wanted:
            return f"its column `{each.name}` is not declared any more"
        if each.type != wanted[each.name]:
            return f"its column `{each.name}` has another type now"
    return None


def _other_ranges(labels: Labels, by: str, there: Sequence[str]) -> str | None:
    """Return why the ranges of the table are not those that are declared now, a phrase; or None."""
    other = next((each for each in there if not is_key(labels, each)), None)
    if other is not None:
        return f"its ranges, such as `{other}`, are not by {labels.by}"
    # The first day of a month is a key of both.
    return f"its ranges are by {by}, not by {labels.by}" if by not in ("", labels.by) else None


def _restored(folder: Folder, table: DeltaTable, record: Mapping[str, RangeRecord]) -> str | None:
    """Return why the table may lack ranges that are recorded, a phrase; None if it has them."""
    last = max((each.commit for each in record.values()), default=None)
    if last is None:
        return None
    if table.version() < last:
        return f"it is at version {table.version()}, and had version {last} before"
    commits = CommitLog(folder).between(last, table.version())
    to = next((each.version for each in commits if each.operation == RESTORE), None)
    return None if to is None else f"its version {to} is a RESTORE of an earlier one"
