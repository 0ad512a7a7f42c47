"""Feature table of a training set: opened and checked, and from which time on it has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from hybrid_extensions.comparison.compared_tables import comparable_as, open_target
from hybrid_extensions.comparison.duckdb_database import columns_of
from hybrid_extensions.training.point_in_time import require_history
from hybrid_extensions.training.sets.declare import DeclaredSet, Features
from orchestration.remedies import Remedy
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.table.known_at import KNOWN_AT, known_at_of
from sources.config.table.sink import VALID_TO
from sources.errors import InputError, StateError
from sources.generations import acting_on
from sources.serving import target_of
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table
from sources.storage.tables.delta_log import commit_digest, commit_name
from sources.storage.tables.file_times import file_times

_UNKNOWN = datetime.min.replace(tzinfo=UTC)
# Files of such tables have rows, or names of columns, that their statistics do not tell.
_OPAQUE = {"deletionVectors", "columnMapping"}


@dataclass(frozen=True)
class FeatureTable:
    """A table with features, as it is now.

    Attributes:
        declared: Its declaration.
        folder: Its folder.
        opened: The table, at its newest version.
        key: Columns that labels and table share.
        known_at: Column with the time from which a row counts.
        valid_to: Column with the time from which it no longer does; None if there is none.
        deleted: Column that is true in a row after which its key has no values; None if there is
            none.
        ranks: Columns that decide between rows of a key that count from the same time: the highest
            is taken.
        types: DuckDB types of its columns, by name.
    """

    declared: Features
    folder: Folder
    opened: DeltaTable
    key: list[str]
    known_at: str
    valid_to: str | None
    deleted: str | None
    ranks: list[str]
    types: dict[str, str]

    @property
    def name(self) -> str:
        """Its name in the set."""
        return self.declared.name

    @property
    def read(self) -> list[str]:
        """Columns of the table that the join needs, each once."""
        own = [each for each in (self.known_at, self.valid_to, self.deleted) if each is not None]
        return list(dict.fromkeys([*self.key, *own, *self.ranks, *self.declared.columns]))

    @property
    def made(self) -> list[str]:
        """Columns of the set that the table makes, in order; the last is when a row was known."""
        return [f"{self.name}__{each}" for each in (*self.declared.columns, KNOWN_AT)]

    @property
    def version(self) -> int:
        """Version of the table."""
        return int(self.opened.version())

    @property
    def digest(self) -> str:
        """Digest of the table's identity and of how it is joined, but not of its rows."""
        own = [self.key, self.known_at, self.valid_to, self.deleted, self.ranks]
        what = [self.opened.metadata().id, own, self.declared.columns, self.read]
        types = [self.types[each] for each in self.read]
        return hashlib.sha256(json.dumps([what, types]).encode()).hexdigest()[:16]

    def commit_of(self, version: int) -> str:
        """Return the digest of a version's commit; empty if the log no longer has it.

        Raises:
            UnavailableError: The store does not answer.
        """
        return commit_digest(self.folder.read_bytes(commit_name(version)))

    def changed_since(self, version: int, commit: str = "") -> datetime | None:
        """Return the time from which on labels may get other values than at an older version.

        Decided by the files that only one of the two versions has, and their statistics of the time
        from which rows count.

        Args:
            version: Number of the older version.
            commit: Digest of its commit when it was read; a table that was restored from a backup
                gives its number to another one. Empty if it is not known.

        Returns:
            None if nothing has changed; the earliest time there is if nothing is known.

        Raises:
            UnavailableError: The store does not answer, or the login to it has expired.
        """
        if commit and self.commit_of(version) not in (commit, ""):
            return _UNKNOWN
        if version == self.version:
            return None
        protocol = self.opened.protocol()
        if _OPAQUE & set(protocol.reader_features or ()) or version > self.version:
            return _UNKNOWN
        try:
            before = _files(delta_table(self.folder, version), self.known_at)
        except (DeltaError, OSError):
            return _UNKNOWN
        after = _files(self.opened, self.known_at)
        changed = {*before.items()} ^ {*after.items()}
        return min((_UNKNOWN if since is None else since for _, since in changed), default=None)


def open_features(
    connection: duckdb.DuckDBPyConnection,
    loaded: LoadedPipeline,
    declared: DeclaredSet,
    labels: Mapping[str, str],
) -> list[FeatureTable]:
    """Open the tables of a set, in the order of the declaration.

    Args:
        connection: A database.
        loaded: The pipeline that declares the set.
        declared: The set.
        labels: DuckDB types of the labels' columns, by name.

    Raises:
        InputError: A table does not exist, lacks a column, has a key of another type than the
            labels, or holds latest values only.
        StateError: The table of a pipeline was not made yet.
        UnavailableError: A store does not answer.
    """
    return [_opened(connection, loaded, declared, each, labels) for each in declared.tables]


def _opened(
    connection: duckdb.DuckDBPyConnection,
    loaded: LoadedPipeline,
    declared: DeclaredSet,
    features: Features,
    labels: Mapping[str, str],
) -> FeatureTable:
    where = f"table `{features.name}` of training set `{declared.name}`"
    owner = _owner(loaded, features)
    folder = loaded.place(features.path or "") if owner is None else target_of(owner)
    if (opened := open_target(folder)) is None:
        message = f"There is no Delta table {folder}, the {where}."
        if owner is not None:
            name = owner.pipeline.name
            hint = "Run the pipeline first: `hybrid run P`."
            if name != loaded.pipeline.name:
                # The declaration may be a kept copy, which is in another folder.
                file = Path(owner.folder, owner.path.name).as_posix()
                hint = f"Run pipeline `{name}` first: {Remedy('run').command(file)}."
            raise StateError(message, hint, table=folder.url, pipeline=name)
        hint = f"Correct the `path` of `{features.name}` in `training_sets`."
        raise InputError(message, hint, table=folder.url, field="training_sets")
    connection.register("_columns", pa.schema(opened.schema().to_arrow()).empty_table())
    types = columns_of(connection, "_columns")
    connection.unregister("_columns")
    sink = None if owner is None else owner.pipeline.sink
    known_at, valid_to, deleted = features.known_at or features.valid_from, features.valid_to, None
    if owner is not None:
        known_at = known_at or known_at_of(owner.pipeline, types)
        if owner.pipeline.sink.history is not None:
            valid_to, deleted = VALID_TO, owner.pipeline.sink.deleted
    assert known_at is not None, "declared for a table of no pipeline"
    times = (declared.labels.time, known_at)
    key = features.key or [
        each for each in (sink.key if sink else []) if each in labels and each not in times
    ]
    made = FeatureTable(
        features,
        folder,
        opened,
        key,
        known_at,
        valid_to,
        deleted,
        [each for each in (sink.row_key if sink else []) if each not in (*key, known_at)],
        types,
    )
    _require_columns(made, where, labels)
    return made


def _owner(loaded: LoadedPipeline, features: Features) -> LoadedPipeline | None:
    """Return the pipeline whose table it is, as its serving generation declares it."""
    if features.path is not None:
        return None
    other = loaded if features.pipeline is None else load_pipeline(Path(features.pipeline))
    owner = acting_on(other, None, as_kept=True)
    require_history(owner)
    return owner


def _require_columns(table: FeatureTable, where: str, labels: Mapping[str, str]) -> None:
    fields: dict[str, Any] = {"table": table.folder.url, "field": "training_sets"}
    if not table.key:
        message = f"The labels have no column of the key of {where}; they have {', '.join(labels)}."
        hint = f"Name the columns that both share: `key` of `{table.name}` in `training_sets`."
        raise InputError(message, hint, **fields)
    for name in table.read:
        if name not in table.types:
            message = f"There is no column `{name}` in {table.folder}, the {where}."
            hint = f"Name one of its columns in `training_sets`: {', '.join(table.types)}."
            raise InputError(message, hint, **fields, column=name)
    for name in table.key:
        if name not in labels:
            message = (
                f"The labels have no column `{name}`, by which {where} is joined; they have "
                f"{', '.join(labels)}."
            )
            hint = f"Correct `key` of `{table.name}` in `training_sets`, or rename the column."
            raise InputError(message, hint, **fields, column=name)
        if comparable_as(labels[name]) != comparable_as(table.types[name]):
            message = (
                f"Column `{name}` is {labels[name]} in the labels and {table.types[name]} in "
                f"{where}."
            )
            hint = f"Cast `{name}` in the labels to {table.types[name]}."
            raise InputError(message, hint, **fields, column=name, value=labels[name])
    for each in (table.known_at, table.valid_to):
        if each is not None and comparable_as(table.types[each]) != "timestamp":
            message = f"Column `{each}` of {where} is {table.types[each]}, no timestamp."
            hint = "Name a column with timestamps; times without a zone are UTC."
            raise InputError(message, hint, **fields, column=each, value=table.types[each])
    for each in table.made:
        if each in labels:
            message = f"The labels have a column `{each}`, which the set gets from {where}."
            raise InputError(message, f"Rename `{each}` in the labels.", **fields, column=each)


def _files(table: DeltaTable, known_at: str) -> dict[str, datetime | None]:
    """Return the lowest time from which a row of each file counts; None where it is not known."""
    return {path: times.lowest for path, times in file_times(table, known_at).items()}
