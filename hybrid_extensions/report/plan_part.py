"""Plan in a report: sources, files, rows, bytes and event times."""

from __future__ import annotations

from hybrid_extensions.report.model import PlanPart, SourcePlan
from sources.common.positions import EndPosition
from sources.common.times import iso
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.hybrid import Boundedness
from sources.kafka.client.address import LOCAL
from sources.planning.approval import find_approval
from sources.planning.context import PipelineContext
from sources.planning.files.file_plan import FoundFiles, read_splits
from sources.planning.files.rounds import history_of
from sources.planning.topics.topic_range import find_range


def plan_part(context: PipelineContext) -> PlanPart:
    """Return the planned input of a generation: its plan, with the listings that followed.

    Raises:
        StateError: The state can't be read, or has no plan.
        UnavailableError: The state's store does not answer.
    """
    plan, approval = context.plan, find_approval(context.generation)
    return PlanPart(
        created_ms=plan.created_ms,
        sources=[
            _topic(context, source) if isinstance(source, KafkaSource) else _files(context, source)
            for source in context.pipeline.sources
        ],
        warnings=plan.warnings,
        approval=None if approval is None else f"by {approval.by} at {iso(approval.at_ms)}",
        needs_approval=context.pipeline.approve,
    )


def _files(context: PipelineContext, source: FileSource) -> SourcePlan:
    plan, generation = context.plan, context.generation
    parts: list[FoundFiles] = [] if plan.folder is None else [plan.folder]
    end: EndPosition | None = None
    is_bounded = source.boundedness is Boundedness.BOUNDED
    if is_bounded:
        history = history_of(generation, plan, source.name)
        parts, end = [*history.parts], history.end
    paths = {path for part in parts for path in read_splits(part, generation)["path"].to_pylist()}
    rows = [part.rows for part in parts if part.rows is not None]
    lowest = [part.times.lowest_ms for part in parts if part.times.lowest_ms is not None]
    highest = [part.times.highest_ms for part in parts if part.times.highest_ms is not None]
    is_sampled = any(part.times.evidence == "sampled" for part in parts)
    total = sum(rows) if len(rows) == len(parts) else None
    return SourcePlan(
        name=source.name,
        kind="files",
        is_bounded=is_bounded,
        place=source.shown_place,
        format=source.format,
        files=len(paths),
        splits=sum(part.splits for part in parts),
        bytes=sum(part.bytes for part in parts),
        rows=total if end is None else end.rows,
        from_ms=min(lowest, default=None),
        to_ms=max(highest, default=None),
        complete_through_ms=None if end is None else end.complete_through_ms,
        event_times="sampled" if is_sampled else "exact",
        outside=sum(part.times.outside for part in parts),
        rounds=len(parts) - 1,
    )


def _topic(context: PipelineContext, source: KafkaSource) -> SourcePlan:
    part = context.plan.topic_of(source.name)
    decided = find_range(context.generation, source.name)
    end = offsets = None
    if decided is not None:
        end, offsets = decided.end, sum(decided.ends.values()) - sum(decided.starts.values())
    elif part.range is not None:
        end, offsets = part.range.end, part.range.offsets
    servers = source.bootstrap_servers
    return SourcePlan(
        name=source.name,
        kind="topic",
        is_bounded=source.boundedness is Boundedness.BOUNDED,
        place=f"{source.subscription} at {'the local broker' if servers == LOCAL else servers}",
        offsets=offsets,
        partitions=len(part.expected_start.partitions),
        to_ms=None if end is None else end.event_time_ms,
        complete_through_ms=None if end is None else end.complete_through_ms,
    )
