"""Model of a report about a pipeline; times are ms since 1970."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from hybrid_extensions.generations.overview import GenerationLine
from orchestration.comparison.kept_audit import KeptAudit
from orchestration.supervision.status import Status
from orchestration.supervision.status_part import StatusPart
from sources.kafka.seam import SeamRule


class ReportPart(BaseModel):
    """Part of a report: immutable."""

    model_config = ConfigDict(frozen=True)


class Missing(ReportPart):
    """Section of a report that is missing.

    Attributes:
        missing: Why it is missing, and how to get it; sentences.
    """

    missing: str


class SourcePlan(ReportPart):
    """Planned input of one source.

    Attributes:
        name: Name of the source.
        kind: Whether it reads files or Kafka topics.
        is_bounded: Whether it has an end.
        place: Declared paths; or topics and bootstrap servers.
        format: Format of files; None for topics.
        files, splits, bytes: Numbers of files and splits, and their size, with those of later
            ``rounds``; None for topics.
        rows: Rows that are read; None where the format does not record them, and for topics.
        offsets: Number of offsets of a bounded topic; None if it is not bounded, or not decided.
        partitions: Number of partitions; None for files.
        from_ms, to_ms: Lowest and highest event time within the bounds; None if not known.
        complete_through_ms: Event time through which it is complete; None if it never is.
        event_times: Whether event times come from all rows or from a sample; None for topics.
        outside: Rows whose event time is outside of the bounds.
        rounds: Number of listings after the plan's, each of files that had arrived meanwhile.
    """

    name: str
    kind: Literal["files", "topic"]
    is_bounded: bool
    place: str
    format: str | None = None
    files: int | None = None
    splits: int | None = None
    bytes: int | None = None
    rows: int | None = None
    offsets: int | None = None
    partitions: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    complete_through_ms: int | None = None
    event_times: Literal["exact", "sampled"] | None = None
    outside: int = 0
    rounds: int = 0


class PlanPart(ReportPart):
    """Planned input of a generation: the plan, and the listings after it.

    Attributes:
        created_ms: When the plan was made.
        sources: Each source, in reading order.
        warnings: Warnings of the plan: sentences.
        approval: By whom and when it was approved, as text; None if it is not.
        needs_approval: Whether the pipeline declares ``approve``.
    """

    created_ms: int
    sources: list[SourcePlan]
    warnings: list[str]
    approval: str | None
    needs_approval: bool


class PartitionLine(ReportPart):
    """One topic partition of a hand-over.

    Attributes:
        topic, partition: The partition.
        log_start: First offset that Kafka had not deleted at the decision.
        start: First offset that is read.
        why: Why reading starts there, in words.
        first_offset, first_ms: Offset and record timestamp of the first record from ``start`` on;
            None if there was none.
        seam_end: First offset beyond the seam.
        overlap: Number of offsets in the seam.
        rows, removed: Number of rows in the seam, and of those that were removed as duplicates;
            None until the run has counted them.
        gap: Records that are in no source, as accepted, in words; None if there are none.
        read_to: First offset that is not read yet; None if no run has reported it.
    """

    topic: str
    partition: int
    log_start: int
    start: int
    why: str
    first_offset: int | None
    first_ms: int | None
    seam_end: int
    overlap: int
    rows: int | None = None
    removed: int | None = None
    gap: str | None = None
    read_to: int | None = None


class HandOver(ReportPart):
    """Part of the report: the hand-over to one Kafka source.

    Attributes:
        source: Name of the source that starts with it.
        previous: Name of the source before it; None for the first source of the chain.
        is_made: Whether it is made; otherwise its offsets are those that the plan expects.
        decided_by: What the start offsets were decided by, in words.
        rule: How duplicates in the seam are recognized.
        complete_through_ms: Event time through which the source before is complete; None if not
            known.
        start_ms: Record timestamp from which the topic is read; None if not known.
        partitions: Each topic partition.
    """

    source: str
    previous: str | None
    is_made: bool
    decided_by: str
    rule: SeamRule
    complete_through_ms: int | None
    start_ms: int | None
    partitions: list[PartitionLine]


class GenerationsPart(ReportPart):
    """All generations, and which of them serves.

    Attributes:
        lines: All generations that are kept, the oldest first.
        serving: Name of the serving one.
        since_ms: Since when it serves.
        replaced: Name of the generation that it replaced at that time; None if it is the first one.
        is_rollback: Whether ``replaced`` is newer than the serving one.
        pending: The promotion or rollback that is under way, in words; None if there is none.
    """

    lines: list[GenerationLine]
    serving: str
    since_ms: int
    replaced: str | None
    is_rollback: bool
    pending: str | None


class TargetPart(ReportPart):
    """Table that the generation writes to.

    Attributes:
        version: Version of the Delta table.
        rows: Rows in it.
    """

    version: int
    rows: int


class SourcePace(ReportPart):
    """Speed at which a source was read.

    Attributes:
        source: Name of the source.
        unit: What is counted: rows, records or splits.
        done: How many are committed; None if unknown.
        left: How many waited at the last sample; None if unknown.
        per_s: Units per second over all launches; None if unknown.
        at_ms: When it was last sampled.
    """

    source: str
    unit: str
    done: int | None
    left: int | None
    per_s: float | None
    at_ms: int


class Plot(ReportPart):
    """A picture of the progress.

    Attributes:
        title: What it shows.
        png: The picture in base64.
    """

    title: str
    png: str


class ProgressPart(ReportPart):
    """Throughput and lag over time.

    Attributes:
        paces: Figures of each source that was read.
        plots: Pictures; empty without the extra ``plots``.
        notes: Why a picture is missing; sentences. Empty if none is.
    """

    paces: list[SourcePace]
    plots: list[Plot]
    notes: list[str]


class Report(ReportPart):
    """A report about a pipeline at one moment.

    Attributes:
        pipeline: Its name.
        file: Name of its YAML file, for commands.
        at_ms: When the report was made.
        version: Version of this package.
        generation: The generation that it is about, with its role; ``none`` if nothing was planned.
        table, state: Path or URL of the generation's table, and of the state folder.
        status: Progress and verdict as of now.
        parts: What extensions show of it, such as how far feeds are.
        target: The table.
        plan: What is read.
        hand_overs: The hand-overs to Kafka sources, in reading order.
        generations: Which generation serves.
        audit: The last audit that was kept.
        progress: Throughput and lag.
    """

    pipeline: str
    file: str
    at_ms: int
    version: str
    generation: str
    table: str
    state: str
    status: Status | Missing
    parts: list[StatusPart] | Missing
    target: TargetPart | Missing
    plan: PlanPart | Missing
    hand_overs: list[HandOver] | Missing
    generations: GenerationsPart | Missing
    audit: KeptAudit | Missing
    progress: ProgressPart | Missing
