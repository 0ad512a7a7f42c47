"""Declaration of a pipeline: sources, transform, sink, state; what counts without `seam_filter`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field, StringConstraints, model_validator

from sources.common.durations import Duration, span_ms
from sources.common.fields import Declared
from sources.common.sql.proven_expressions import Proven, Unproven
from sources.config.code.transform import DeclaredTransform, SqlTransform
from sources.config.inputs import check_inputs
from sources.config.pipeline_checks import (
    check_arrival,
    check_export_names,
    check_follows_truncates,
    check_schema_policies,
    check_selects,
    check_widened,
)
from sources.config.source.deletes_by_key import row_to_delete
from sources.config.source.event_time import DeclaredEventTime
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.source_chain import SourceChain
from sources.config.spark_settings import SparkSettings
from sources.config.supervision import Supervision
from sources.config.table.about import About
from sources.config.table.row_rules import DeclaredRules, RowRules
from sources.config.table.sampled_share import Sample
from sources.config.table.sink import Sink
from sources.errors import InputError
from sources.storage.settings import HdfsSettings, S3Settings
from sources.storage.stores import Stores

PersonName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Name of a person: not empty, without spaces around it."""


class Audit(Declared):
    """How the target is proved to be right.

    Attributes:
        sql: File with a DuckDB query that computes the expected content of the target from the
            view ``input``, which has every input row once by ``key``: its last version, if
            ``sink.sequence`` orders them. With ``inputs`` there is such a view of each, by its
            name. Relative to the pipeline's file. Spark takes no part in it. Without it, a
            transform that is a query is run by DuckDB, too.
        tolerance: By column, by which part of its value it may differ from the computed one: for
            floating-point columns that a sum or an average fills, whose rounding depends on the
            order of the rows; ``1e-9`` is enough for these. All other columns have to be equal.

    """

    sql: str | None = None
    tolerance: dict[str, Annotated[float, Field(gt=0, le=0.001)]] = Field(default_factory=dict)


class Pipeline(SourceChain):
    """A chain of sources, or several inputs, a transform and a sink.

    Attributes:
        event_time: Timestamp column with the time at which a row's event happened: its name, or
            its name with the times that count.
        key: Columns that identify an input row, the same ones in all sources.
        allowed_lateness: How late a row may arrive: history is complete up to its highest event
            time minus this.
        sequence: Column with a row's log position, where history is a database snapshot with a
            ``sequence`` of its own.
        seam_filter: How live rows that history has already delivered are recognized and dropped:
            ``key`` by the key alone, for rows that never change; ``event_time`` if they are not
            later than the end of history; ``off`` drops none. By default, if a key is declared, by
            the key and all other columns: a row with the key of a row of history and other values
            is refused. Without a key, by event time. By default nothing is filtered where the sink
            orders changes (``sink.sequence``) or history carries its offsets.
        rules: Rules that each row has to meet, by name: a condition in Spark SQL on its columns,
            after ``select``, alone or as ``check`` with ``on_violation``. One that is null is met.
        sample: Only a part of the rows is read, as ``hybrid try`` does; all of them by default.
        transform: What makes the rows of the target from those of all sources alike: a function
            from DataFrame to DataFrame as ``module:function``, or a query as ``{sql: FILE}``. With
            ``inputs`` it has an argument, or a view, for each of them, by its name.
        sink: Target table.
        state: Folder for plans, positions and checkpoints, relative to the pipeline's file, or a
            URL such as ``s3://bucket/state`` or ``hdfs://namenode/state``.
        audit: Independent computation that proves the target.
        approve: Whether a person has to approve the plan before anything is read or written.
        approvers: Names of those who may approve a plan, promote a generation and roll back; by
            default anyone may.
        switch: ``warm``: when the whole chain is run, the driver that finished a bounded source
            continues with the next one; ``cold``: each source gets a driver of its own.
        spark: How Spark is started.
        s3: Object store behind ``s3://``.
        hdfs: HDFS cluster behind ``hdfs://``.
        supervision: What is expected of the live run, and what happens if it fails.
        about: Owners, tags and descriptions of the table, for Dagster's catalog.

    """

    event_time: DeclaredEventTime
    key: list[str] = Field(default_factory=list)
    allowed_lateness: Duration = timedelta(0)
    sequence: str | None = None
    seam_filter: Literal["key", "event_time", "off"] | None = None
    rules: DeclaredRules = Field(default_factory=dict)
    sample: Sample | None = None
    transform: DeclaredTransform
    sink: Sink
    state: str
    audit: Audit | None = None
    approve: bool = False
    approvers: list[PersonName] = Field(default_factory=list)
    switch: Literal["warm", "cold"] = "warm"
    spark: SparkSettings = SparkSettings()
    s3: S3Settings = Field(default_factory=S3Settings)
    hdfs: HdfsSettings = HdfsSettings()
    supervision: Supervision = Supervision()
    about: About = About()

    @model_validator(mode="after")
    def _places_are_safe(self) -> Pipeline:
        for field, path in {"state": self.state, "sink.path": self.sink.path}.items():
            if path.startswith("gs://"):
                message = (
                    f"`{field}` can't be `{path}`: in Google Cloud Storage a rename is a copy, so "
                    "of two drivers that meet, Spark's checkpoint would let one write over the "
                    "other's batches. Declare a folder, s3://…, abfss://… or hdfs://… instead; "
                    "sources may be in gs://…."
                )
                raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _unchanged_values_are_kept(self) -> Pipeline:
        """Refuse changes without their long values unless the sink keeps those of the row."""
        for source in self.topics:
            if (changes := source.changes) is None:
                continue
            if changes.follows_truncates:
                check_follows_truncates(source, self.sink)
            check_widened(source, changes.widened_columns, self)
            check_schema_policies(source, changes, self)
            name = source.envelope_column("unchanged")
            if name is not None and self.sink.unchanged != name:
                message = (
                    f"`include.{name}: unchanged` of source `{source.name}` is for a sink that "
                    "merges changes: without it, columns would become null. Declare "
                    f"`sink.unchanged: {name}` with `mode: merge` and `sequence`, or remove it "
                    "from `include`."
                )
                raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _tombstones_find_their_rows(self) -> Pipeline:
        """Let records without a value delete the rows of their keys, where that is declared."""
        for source in self.topics:
            if source.on_tombstone == "delete":
                source.delete_by(row_to_delete(source, self.sink, self.event_time.column))
        return self

    @model_validator(mode="after")
    def _audit_has_a_query(self) -> Pipeline:
        is_query = isinstance(self.transform, SqlTransform)
        if self.audit is not None and self.audit.sql is None and not is_query:
            message = (
                "`audit.sql` is needed: `tolerance` alone is enough only where the transform is a "
                "query, which DuckDB can run, too. Declare `audit.sql: FILE` with a DuckDB query "
                "that computes the target from `input`, or remove `audit`."
            )
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _chain_is_sound(self) -> Pipeline:
        check_inputs(self)
        every = self.hybrid_source().sources
        if self.seam_filter == "key" and not all(self.keys.values()):
            message = (
                "`key` is needed: `seam_filter: key` recognizes live rows that history already "
                "delivered by their key. Declare `key: [<column>, …]`, or remove `seam_filter`."
            )
            raise ValueError(message)
        check_export_names(every)
        self.row_rules.require_sql()
        for each in every:
            each.check_quarantine(each.name, self.event_time, self.row_rules)
        for file_source in self.file_sources:
            if file_source.arrival is not None:
                check_arrival(file_source, self)
        for chain in self.chains:
            check_selects(chain)
            for before, source in zip([None, *chain], chain, strict=False):
                source.check_after(before)
            for source, after in zip(chain, [*chain[1:], None], strict=True):
                for pattern in source.patterns:
                    self.hdfs.absolute(pattern)
                source.check_before(after, self)
        return self

    @property
    def keys(self) -> dict[str, list[str]]:
        """The key of each input's rows, by the input's name; without ``inputs`` ``key``, by ""."""
        return {name: each.key for name, each in self.inputs.items()} or {"": self.key}

    def of_input(self, name: str) -> Pipeline:
        """Return the pipeline as one of its inputs sees it: with its own sources and key only.

        What is decided for each chain by itself, as plan, hand-over and seam, is decided by this.

        Raises:
            KeyError: The pipeline has no input of this name.
        """
        key = self.inputs[name].key
        sources = next(chain for chain in self.chains if self.input_of(chain[0].name) == name)
        return self.model_copy(update={"sources": sources, "inputs": {}, "key": key})

    @property
    def seam_rule(self) -> Literal["key", "event_time", "off"]:
        """Rule by which live rows that history already delivered are recognized and dropped.

        ``seam_filter``; if it is not declared, ``key`` with a declared key, else ``event_time``.
        Not used where history records the offsets that it holds.
        """
        return self.seam_filter or ("key" if self.key else "event_time")

    def translation(
        self, source: FileSource | KafkaSource, name: str, columns: pa.Schema
    ) -> Proven | Unproven:
        """Translate a computed column of a source to DuckDB's SQL, or say why it can't be.

        For the audit, which computes the table without Spark.

        Args:
            source: The source.
            name: Column that its ``select`` computes.
            columns: Columns that the expression may use: those before ``select``.

        Raises:
            KeyError: The ``select`` does not have this column.
            InputError: An expression is not SQL.
        """
        unlike = self.spark.changes_expressions
        if unlike is not None and source.selection.is_computed(name):
            return Unproven(f"what `{unlike}` of `spark.conf` changes")
        return source.selection.translation(name, columns)

    def require_default_expressions(self) -> None:
        """Refuse a computed event time if Spark properties change the meaning of expressions.

        Called before planning, which computes event times without Spark, by Spark's default
        meaning.

        Raises:
            InputError: Names the property, and the source whose ``select`` computes the event time.
        """
        name, at = self.spark.changes_expressions, self.event_time.column
        for source in self.sources if name is not None else []:
            if source.selection.is_computed(at):
                text = source.select[at]
                message = (
                    f"`spark.conf` sets `{name}`, which may change what `select.{at}: {text}` of "
                    f"source `{source.name}` means: the plan could not compute event times as "
                    "Spark does."
                )
                hint = (
                    f"Remove `{name}` from `spark.conf`, or let `select.{at}` be a column, or "
                    "timestamp_seconds, timestamp_millis or timestamp_micros of one."
                )
                raise InputError(message, hint, source=source.name, field=f"select.{at}")

    @property
    def row_rules(self) -> RowRules:
        """The declared rules and the sample's condition, not yet bound to columns.

        Changes that delete a row pass all rules.
        """
        unlike = self.spark.changes_expressions
        if self.sample is None:
            return RowRules(self.rules, self.sink.deleted, changes_expressions=unlike)
        at = self.event_time.column
        conditions = self.sample.condition(at), self.sample.duckdb_condition(at)
        return RowRules(self.rules, self.sink.deleted, *conditions, changes_expressions=unlike)

    @property
    def audit_sql(self) -> str | None:
        """File of the audit's own query, as declared; None if there is none."""
        return None if self.audit is None else self.audit.sql

    @property
    def lateness_ms(self) -> int:
        """``allowed_lateness`` in milliseconds."""
        return span_ms(self.allowed_lateness)

    @property
    def stores(self) -> Stores:
        """Clients of the declared storages; each is connected at its first use.

        Made at each access; nothing is kept between two.
        """
        return Stores(self.s3, self.hdfs)

    def located(self, locate: Callable[[str], str]) -> Pipeline:
        """Return the pipeline with the paths of its sources made absolute; others stay as declared.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.

        Raises:
            ValueError: A path is ``hdfs:///…`` and no namenode is declared.
        """
        sources = [source.located(locate, self.hdfs.absolute) for source in self.sources]
        return self.model_copy(update={"sources": sources})

    @property
    def mirrors_that_leave_out_changes(self) -> list[KafkaSource]:
        """Topics of changes that are merged in order, and whose bad records do not fail the run.

        Until a later change of it, a row is stale or missing then. Empty without ``sink.sequence``.
        """
        if not self.sink.sequence:
            return []
        return [each for each in self.topics if each.changes and each.on_bad_record != "fail"]

    @property
    def fixed_columns(self) -> set[str]:
        """Columns of ``key``, ``sink.key`` and ``partition_by``: their types can't be widened."""
        return {*self.key, *self.sink.key, *self.sink.partition_by}
