"""Declaration of the sink: append or merge, keys, order of changes, deletes, versions, files."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sources.common.fields import Declared
from sources.common.sql.sql_names import quoted

# By field: the field that it needs, with `mode: merge`.
_NEEDED: dict[str, str | None] = {
    "sequence": None,
    "deleted": "sequence",
    "deletes": "deleted",
    "unchanged": "sequence",
    "history": "sequence",
}
VALID_FROM, VALID_TO = "valid_from", "valid_to"
"""Columns that a target with ``history`` has besides those of its rows."""
# Those that change neither what the table may hold nor how it is read.
_PROPERTIES = (
    "delta.checkpointInterval",
    "delta.dataSkippingStatsColumns",
    "delta.deletedFileRetentionDuration",
    "delta.logRetentionDuration",
    "delta.targetFileSize",
)
VECTORS = "delta.enableDeletionVectors"
"""Property by which a MERGE marks rows as deleted, in place of writing their files again."""
_OF_MERGES = ("delta.autoOptimize.autoCompact", VECTORS)


class Sink(Declared):
    """Target: a Delta table.

    Attributes:
        path: Folder of the table, relative to the pipeline's file, or a URL such as
            ``s3://bucket/table`` or ``hdfs://namenode/table``.
        table: Name of the table in the catalog of Spark's session, ``schema.table`` or
            ``catalog.schema.table``, under which readers find it. The first run creates the entry,
            an external table at ``path``.
        mode: ``append`` adds every row; for rows that never change. ``merge`` inserts or updates
            by ``key``.
        key: Columns that identify a row of the target.
        partition_by: Columns by whose values the table is partitioned.
        sequence: With ``mode: merge``: column or columns that order the changes of one key. The
            change with the highest value wins, whatever order they arrive in; null sorts first.
        deleted: With ``sequence``: boolean column that is true where a change deletes its row.
        deletes: With ``deleted``: ``hard`` removes the row from the table; ``soft`` keeps it with
            ``deleted`` set to true. ``hard`` by default.
        unchanged: With ``sequence``: the column that ``include`` fills with ``unchanged``. A long
            value that an update left as it was is in no log of PostgreSQL; the row keeps it. In
            the target the column is null, or has the position of the change that each such value
            is of.
        history: With ``sequence``: the column with the time of a change. Every version of a row is
            kept, with ``valid_from``, its time, and ``valid_to``, the time of the version after it;
            null for the last one. With ``deleted`` it needs ``deletes: soft``.
        properties: Properties of the Delta table, such as ``{delta.checkpointInterval: "100"}``.
            With ``mode: merge`` and ``delta.enableDeletionVectors: "true"`` rows are marked as
            deleted, and files stay as they are. Without ``delta.dataSkippingStatsColumns`` files
            have statistics of ``key``, ``sequence`` and columns with times, and with ``mode:
            merge`` of integers and texts, too.
        copy_files: With ``mode: append`` and a transform that returns every row as it is: Parquet
            files of history become files of the table as they are, as copies. Files that need a
            change are rewritten.

    """

    path: str
    table: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}$")] | None = None
    mode: Literal["append", "merge"]
    key: list[str] = Field(min_length=1)
    partition_by: list[str] = Field(default_factory=list)
    sequence: str | Annotated[list[str], Field(min_length=1)] | None = None
    deleted: str | None = None
    deletes: Literal["hard", "soft"] | None = None
    unchanged: str | None = None
    history: str | None = None
    properties: dict[str, str] = Field(default_factory=dict)
    copy_files: bool = False

    @property
    def order(self) -> list[str]:
        """Columns of ``sequence``, by which the changes of a key are ordered; empty without it."""
        return [self.sequence] if isinstance(self.sequence, str) else self.sequence or []

    def of_table(self, others: Collection[str]) -> Sink:
        """Return the sink as a captured table knows it: without columns of ``key`` it lacks.

        Args:
            others: Columns that are filled from a record's metadata, such as the shard's.
        """
        return self.model_copy(update={"key": [name for name in self.key if name not in others]})

    @property
    def row_key(self) -> list[str]:
        """Columns that identify a row of the target: with ``history``, one version of it."""
        return self.key if self.history is None else [*self.key, *self.order]

    @property
    def present(self) -> str:
        """SQL condition of the rows that the captured table has now: last versions, no deletes.

        In DuckDB's SQL, also for DataFusion; ``true`` if the target has no other rows.
        """
        conditions = []
        if self.history is not None:
            conditions.append(f"{VALID_TO} IS NULL")
        if self.deleted is not None and not self.removes_rows:
            conditions.append(f"NOT coalesce({quoted(self.deleted)}, false)")
        return " AND ".join(conditions) or "true"

    @property
    def removes_rows(self) -> bool:
        """Whether a delete removes its row from the table; False if it only marks it (``soft``)."""
        return self.deletes != "soft"

    @model_validator(mode="after")
    def _knows_its_properties(self) -> Sink:
        known = sorted(_PROPERTIES + (_OF_MERGES if self.mode == "merge" else ()))
        for name in self.properties:
            if name not in known:
                message = (
                    f"`properties`: `{name}` is not a property that may be declared with `mode: "
                    f"{self.mode}`. Remove it; these may be: {', '.join(known)}."
                )
                raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _copies_what_it_appends(self) -> Sink:
        if self.copy_files and self.mode != "append":
            message = (
                f"`copy_files` has a meaning with `mode: append` only; here it is `mode: "
                f"{self.mode}`, which looks for each row's key. Remove `copy_files`."
            )
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _orders_what_it_merges(self) -> Sink:
        for field, needed in _NEEDED.items():
            if getattr(self, field) is None:
                continue
            if self.mode != "merge":
                message = (
                    f"`{field}` has a meaning with `mode: merge` only; here it is "
                    f"`mode: {self.mode}`. Remove `{field}`, or declare `mode: merge`."
                )
                raise ValueError(message)
            if needed is not None and getattr(self, needed) is None:
                message = (
                    f"`{field}` needs `{needed}`, which is not declared. Add "
                    f"`{needed}: <column>`, or remove `{field}`."
                )
                raise ValueError(message)
        if self.unchanged is not None and len(self.order) > 1:
            message = (
                f"`unchanged: {self.unchanged}` needs a `sequence` of one column, the position of "
                f"a change; here it has {len(self.order)}. Name one column in `sequence`."
            )
            raise ValueError(message)
        if self.history is not None:
            self._keeps_whole_versions()
        for name in [*self.order, self.deleted, self.unchanged, self.history]:
            if name in self.key:
                message = (
                    f"column `{name}` differs between the changes of one row, so it can't be in "
                    f"the `key` ({', '.join(self.key)}). Remove it from `key`, or name another "
                    "column in `sequence`, `deleted`, `unchanged` or `history`."
                )
                raise ValueError(message)
        return self

    def _keeps_whole_versions(self) -> None:
        if self.deleted is not None and self.removes_rows:
            message = (
                f"`history: {self.history}` keeps a delete as the last version of its row. Declare "
                "`deletes: soft`, or remove `history`."
            )
            raise ValueError(message)
        if self.unchanged is not None:
            message = (
                f"`history: {self.history}` needs whole rows, and `unchanged: {self.unchanged}` "
                "says that changes lack values. Let the database write them (REPLICA IDENTITY "
                "FULL) and remove `unchanged`, or remove `history`."
            )
            raise ValueError(message)
