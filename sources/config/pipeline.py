"""The declaration of a pipeline: sources in order, a transform, a sink, a state folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import permutations
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sources.common.fields import Declared, Duration, Name, Reference
from sources.common.positions import span_ms
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.reruns import Generations, Ranges
from sources.config.supervision import Supervision
from sources.decoding.added_columns import AddedColumn
from sources.decoding.value_format import EnvelopePart
from sources.hybrid import HybridSource, HybridSourceBuilder
from sources.storage.settings import HdfsSettings, S3Settings
from sources.storage.stores import Stores

# https://spark.apache.org/docs/latest/submitting-applications.html
_MASTERS = ("local", "spark://", "yarn", "k8s://")
_CLUSTER_MODE = ("yarn", "k8s://")
_OURS = (
    "spark.kubernetes.driver.pod.name",
    "spark.kubernetes.submission.waitAppCompletion",
    "spark.master",
    "spark.submit.deployMode",
    "spark.yarn.maxAppAttempts",
    "spark.yarn.submit.waitAppCompletion",
    "spark.yarn.tags",
)
_IMAGES = ("spark.kubernetes.container.image", "spark.kubernetes.driver.container.image")

SourceSpec = Annotated[FileSource | KafkaSource, Field(discriminator="type")]


class Sink(Declared):
    """The target Delta table.

    Attributes:
        path: Its folder. Relative to the pipeline's file.
        mode: ``append`` for rows that never change, ``merge`` to update by key.
        key: Columns that identify a row of the target.
        partition_by: Columns whose values become folders.
        sequence: ``merge``: columns that order the changes of a key. A later change replaces an
            earlier one, in whatever order they arrive; null comes before all.
        deleted: Boolean column that tells that a change removes its row.
        deletes: ``hard`` removes the row; ``soft`` keeps it, marked by ``deleted``. Hard, if left
            out.

    """

    path: str
    mode: Literal["append", "merge"]
    key: list[str] = Field(min_length=1)
    partition_by: list[str] = Field(default_factory=list)
    sequence: str | Annotated[list[str], Field(min_length=1)] | None = None
    deleted: str | None = None
    deletes: Literal["hard", "soft"] | None = None

    @property
    def order(self) -> list[str]:
        """The columns that order the changes of a key; empty if nothing does."""
        return [self.sequence] if isinstance(self.sequence, str) else self.sequence or []

    @property
    def removes_rows(self) -> bool:
        """Whether a delete leaves nothing."""
        return self.deletes != "soft"

    @model_validator(mode="after")
    def _orders_what_it_merges(self) -> Sink:
        for field, needed in (("sequence", None), ("deleted", "sequence"), ("deletes", "deleted")):
            if getattr(self, field) is None:
                continue
            if self.mode != "merge":
                message = f"`{field}` has a meaning with `mode: merge` only"
                raise ValueError(message)
            if needed is not None and getattr(self, needed) is None:
                message = f"`{field}` needs `{needed}`"
                raise ValueError(message)
        for name in [*self.order, self.deleted]:
            if name in self.key:
                message = f"`{name}` changes with each change of a row: it can't be in the `key`"
                raise ValueError(message)
        return self


class Audit(Declared):
    """How the target is proved.

    Attributes:
        sql: File with a DuckDB query over the view ``input`` (every input row once, by key)
            that computes, independently of Spark, what the target must hold.

    """

    sql: str


class SparkSettings(Declared):
    """How Spark is started.

    Attributes:
        master: Spark's master URL: ``local[*]``, ``spark://…``, ``yarn`` or ``k8s://…``.
        deploy_mode: Where the driver runs: ``client`` is a process of the machine that launches
            it, ``cluster`` one of the cluster's. If left out, the cluster's where there is such.
        job_file: Kubernetes: where the image has this project's ``spark_jobs/job.py``, if not
            where it lies on the machine that launches.
        driver_memory: Heap of the driver, as Spark writes it.
        conf: More Spark properties.

    """

    master: str = "local[*]"
    deploy_mode: Literal["client", "cluster"] = "client"
    job_file: str | None = None
    driver_memory: str = "2g"
    conf: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _where_the_driver_runs(cls, given: object) -> object:
        if not isinstance(given, dict) or "deploy_mode" in given:
            return given
        has_cluster_mode = str(given.get("master", "")).startswith(_CLUSTER_MODE)
        return {**given, "deploy_mode": "cluster" if has_cluster_mode else "client"}

    @model_validator(mode="after")
    def _can_be_launched(self) -> SparkSettings:
        if not self.master.startswith(_MASTERS):
            message = f"`master: {self.master}` is none of local[…], spark://…, yarn and k8s://…"
            raise ValueError(message)
        if self.deploy_mode == "cluster" and not self.master.startswith(_CLUSTER_MODE):
            message = (
                f"`deploy_mode: cluster` does not exist with `master: {self.master}`: there Spark "
                "runs a Python driver on the machine that launches it only. Use `client`"
            )
            raise ValueError(message)
        for name in _OURS:
            if name in self.conf:
                message = f"`conf` can't have `{name}`: runs are started and found again by it"
                raise ValueError(message)
        is_on_kubernetes = self.deploy_mode == "cluster" and self.master.startswith("k8s://")
        if self.job_file is not None and not is_on_kubernetes:
            message = "`job_file` has a meaning on Kubernetes with `deploy_mode: cluster` only"
            raise ValueError(message)
        if is_on_kubernetes and not any(name in self.conf for name in _IMAGES):
            message = f"Kubernetes needs an image: set `{_IMAGES[0]}` in `conf`"
            raise ValueError(message)
        return self


class Pipeline(Declared):
    """A chain of sources, a transform and a sink.

    Attributes:
        name: Of the pipeline, and of its group of assets.
        sources: In order; all but the last are bounded (FLIP-150).
        event_time: Timestamp column that tells when a row happened.
        key: Columns that identify an input row, the same in all sources.
        allowed_lateness: History is complete up to its end minus this.
        sequence: Column that holds a row's log position, where history is a snapshot of one.
        seam_filter: How live rows that history has delivered are told: by ``key``, or by
            ``event_time`` at or before the end of history, or not at all (``off``). By key where
            one is declared, if left out.
        transform: ``module:function``, from DataFrame to DataFrame, for all sources alike.
        sink: The target.
        state: Folder for plan, positions and checkpoint. Relative to the pipeline's file.
        audit: The independent computation.
        approve: Whether a person has to approve the plan before anything is read or written.
        switch: ``warm``: where the whole chain is asked for, the driver that read a bounded source
            goes on with the next one; ``cold``: each has a driver of its own.
        spark: How Spark is started.
        s3: Which object store ``s3://`` means.
        hdfs: How ``hdfs://`` is reached.
        supervision: What is expected of the live run, and what is done when it fails.
        ranges: Ranges of the target that can be made anew from the files, in the UI.
        generations: What becomes of those that served, and when new ones are made by the clock.

    """

    name: Name
    sources: list[SourceSpec]
    event_time: str
    key: list[str] = Field(default_factory=list)
    allowed_lateness: Duration = timedelta(0)
    sequence: str | None = None
    seam_filter: Literal["key", "event_time", "off"] | None = None
    transform: Reference
    sink: Sink
    state: str
    audit: Audit | None = None
    approve: bool = False
    switch: Literal["warm", "cold"] = "warm"
    spark: SparkSettings = SparkSettings()
    s3: S3Settings = S3Settings()
    hdfs: HdfsSettings = HdfsSettings()
    supervision: Supervision = Supervision()
    ranges: Ranges | None = None
    generations: Generations = Generations()

    @model_validator(mode="after")
    def _chain_is_sound(self) -> Pipeline:
        self.hybrid_source()
        for before, source in zip([None, *self.sources], self.sources, strict=False):
            if before is None and isinstance(source, KafkaSource):
                # A topic alone is a stream, not a backfill; it has no end to start from.
                if source.start == "previous":
                    message = (
                        f"source `{source.name}` is the first: `start: previous` has no meaning"
                    )
                    raise ValueError(message)
                if source.declared_columns is None:
                    message = f"source `{source.name}` is the first: it needs a `schema`"
                    raise ValueError(message)
        if self.seam_filter == "key" and not self.key:
            message = (
                "`key` is needed: without the columns that identify a row, live rows that history "
                "already delivered can't be told by key. Declare it, or leave `seam_filter` out"
            )
            raise ValueError(message)
        _check_selects(self.sources)
        for source, after in zip(self.sources, [*self.sources[1:], None], strict=True):
            if isinstance(source, KafkaSource):
                if source.added_columns and after is not None:
                    message = f"source `{source.name}`: the last source alone has `added_columns`"
                    raise ValueError(message)
                _check_changes(source, self.sink)
                _check_after_topic(source, after)
                continue
            for pattern in source.patterns:
                self.hdfs.absolute(pattern)
            if source.snapshot is not None:
                _check_snapshot(source, after, self.event_time)
            if source.converge is not None and not isinstance(after, KafkaSource):
                message = f"source `{source.name}` can't `converge`: no topic comes after it"
                raise ValueError(message)
            if source.sequence is not None:
                _check_sequence(self, source, after)
        return self

    @property
    def seam_rule(self) -> Literal["key", "event_time", "off"]:
        """How live rows that history has delivered are told, unless better evidence is at hand."""
        return self.seam_filter or ("key" if self.key else "event_time")

    @property
    def lateness_ms(self) -> int:
        """``allowed_lateness`` in milliseconds."""
        return span_ms(self.allowed_lateness)

    @property
    def stores(self) -> Stores:
        """Where files may be."""
        return Stores(self.s3, self.hdfs)

    def located(self, locate: Callable[[str], str]) -> Pipeline:
        """The same with the paths of its sources' own files, and ``hdfs:///…``, made absolute."""
        located = [source.located(locate) for source in self.sources]
        sources = [
            source.model_copy(update={"path": list(map(self.hdfs.absolute, source.patterns))})
            if isinstance(source, FileSource)
            else source
            for source in located
        ]
        return self.model_copy(update={"sources": sources})

    def hybrid_source(self) -> HybridSource[FileSource | KafkaSource]:
        """The chain."""
        builder: HybridSourceBuilder[FileSource | KafkaSource] = HybridSource.builder()
        for source in self.sources:
            builder.add_source(source)
        return builder.build()

    def source(self, name: str) -> FileSource | KafkaSource:
        """The source of this name."""
        return next(source for source in self.sources if source.name == name)

    @property
    def topics(self) -> list[KafkaSource]:
        """The Kafka sources, in order; no files come after the first one."""
        return [source for source in self.sources if isinstance(source, KafkaSource)]

    def topic_source(self, name: str) -> KafkaSource:
        """The Kafka source of this name."""
        return next(source for source in self.topics if source.name == name)

    def source_after(self, name: str) -> FileSource | KafkaSource | None:
        """The source that comes right after the source of this name."""
        following = self.hybrid_source().index(name) + 1
        return self.sources[following] if following < len(self.sources) else None

    def source_before(self, name: str) -> FileSource | KafkaSource:
        """The source right before the source of this name, which is not the first."""
        return self.sources[self.hybrid_source().index(name) - 1]

    @property
    def added_columns(self) -> dict[str, AddedColumn]:
        """Columns that the table whose changes come last got later."""
        last = self.sources[-1]
        return (last.added_columns or {}) if isinstance(last, KafkaSource) else {}

    @property
    def ignored_columns(self) -> list[str]:
        """Columns of the table whose changes come last that no row has."""
        last = self.sources[-1]
        return (last.ignored_columns or []) if isinstance(last, KafkaSource) else []

    def topic_after(self, name: str) -> KafkaSource | None:
        """The first Kafka source after the source of this name."""
        later = self.sources[self.hybrid_source().index(name) + 1 :]
        return next((source for source in later if isinstance(source, KafkaSource)), None)


def _check_selects(sources: Sequence[FileSource | KafkaSource]) -> None:
    """Refuse a ``select`` that other sources' columns don't match, where declarations tell them."""
    named = [(source, names) for source in sources if (names := source.column_names)]
    for (one, left), (other, right) in permutations(named, 2):
        lacking = [name for name in right if name not in left]
        if lacking and (one.select or other.select):
            message = (
                f"source `{one.name}` has no column `{lacking[0]}`, which source `{other.name}` "
                f"has: all sources have the same, by `select` or by `schema`"
            )
            raise ValueError(message)


def _check_sequence(
    pipeline: Pipeline, source: FileSource, after: FileSource | KafkaSource | None
) -> None:
    """Refuse the log position of a snapshot that nothing can be compared with."""
    if not isinstance(after, KafkaSource):
        message = f"source `{source.name}` has a `sequence`, but no topic comes after it"
        raise ValueError(message)
    if after.format == "debezium" and not pipeline.sink.sequence:
        message = (
            f"source `{source.name}` tells the `sequence` of a snapshot, but not which "
            "transactions were in flight: their changes lie before it, and would be lost. "
            "Merge the changes, with `sink.sequence`, or let `hybrid snapshot` take it"
        )
        raise ValueError(message)
    if pipeline.sequence is None:
        message = (
            f"source `{source.name}` declares its `sequence`, but the pipeline does not "
            "say which column holds a row's: declare `sequence: <column>`"
        )
        raise ValueError(message)


def _check_snapshot(
    source: FileSource, after: FileSource | KafkaSource | None, event_time: str
) -> None:
    """Refuse a snapshot whose changes do not tell what the hand-over needs."""
    if not isinstance(after, KafkaSource) or after.format != "debezium" or after.select:
        message = (
            f"source `{source.name}` is a `snapshot`: a topic with `format: debezium`, without "
            "`select`, has to come after it"
        )
        raise ValueError(message)
    needed: tuple[EnvelopePart, ...] = ("position", "lsn", "transaction", "committed_at")
    for part in needed:
        if after.envelope_column(part) is None:
            message = (
                f"source `{after.name}` needs `include: {{<column>: {part}}}`: the hand-over from "
                f"the snapshot `{source.name}` goes by it"
            )
            raise ValueError(message)
    if event_time != after.envelope_column("committed_at"):
        message = (
            f"`event_time: {event_time}`: after a snapshot it is "
            f"`{after.envelope_column('committed_at')}`, the time of the commit"
        )
        raise ValueError(message)


def _check_changes(source: KafkaSource, sink: Sink) -> None:
    """Refuse a sink that would take a change for a row."""
    if source.format != "debezium" or sink.mode == "append":
        return
    for field, part in (("sequence", "position"), ("deleted", "deleted")):
        if getattr(sink, field) is None:
            message = (
                f"source `{source.name}` holds changes, which the sink merges: it needs "
                f"`sink.{field}`, a column that `include: {{<column>: {part}}}` fills"
            )
            raise ValueError(message)


def _check_after_topic(source: KafkaSource, after: FileSource | KafkaSource | None) -> None:
    """Refuse what can't follow a topic that ends."""
    if isinstance(after, FileSource):
        message = (
            f"source `{after.name}`: files can't come after the topic `{source.subscription}`; "
            "nothing tells which rows are in both"
        )
        raise ValueError(message)
    if after is not None and after.on_gap == "extend":
        message = (
            f"source `{after.name}`: `on_gap: extend` reads files, and source `{source.name}` "
            "before it has none"
        )
        raise ValueError(message)
