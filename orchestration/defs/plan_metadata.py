"""Metadata of the plan's asset in Dagster's UI."""

from __future__ import annotations

import dagster as dg

from orchestration.defs.metadata import Metadata, decided_by, table
from orchestration.display import duration
from orchestration.progress.plan_preview import Preview
from sources.common.positions import StartPosition, iso
from sources.planning.file_plan import FoundFiles
from sources.planning.plan import Plan
from sources.planning.topic_plan import RangePlan


def plan(made: Plan, seen: Preview) -> Metadata:
    """Return the metadata of a plan: what will be read, the estimate, the expected start offsets.

    Args:
        made: The plan.
        seen: Its estimate, its columns, and what differs from the previous generation's plan.
    """
    shown: Metadata = {
        "warnings": dg.MetadataValue.md("\n".join(f"- {text}" for text in made.warnings) or "none"),
        "warnings (number)": len(made.warnings),
        **_estimate(seen),
        "splits": sum(part.splits for part in made.files),
        "bytes": sum(part.bytes for part in made.files),
        "bounded sources": table(
            [
                {
                    "source": part.source,
                    "splits": part.splits,
                    "rows": "unknown" if part.rows is None else str(part.rows),
                    "from": iso(part.event_min_ms),
                    "to": iso(part.end.event_time_ms),
                    "complete through": iso(part.end.complete_through_ms),
                    "format": part.format,
                    "bytes": part.bytes,
                    "event times": part.end.event_times,
                    "decided by": decided_by(part.end.evidence),
                    "out-of-orderness": part.out_of_orderness,
                }
                for part in made.files
            ]
        ),
        "event times": _event_times(made),
        "rows outside of the bounds": sum(part.times.outside for part in _files(made)),
        "columns, source by source": _schemas(seen),
    }
    if made.folder is not None:
        shown[f"splits of {made.folder.source} so far"] = made.folder.splits
    rows = [part.rows for part in made.files if part.rows is not None]
    if len(rows) == len(made.files):
        shown["rows"] = sum(rows)
    if made.topics:
        shown["topics"] = table(
            [
                {
                    "topic": name,
                    "timestamp type": topic.timestamp_type[name],
                    "retention": "unlimited" if kept is None else f"{kept / 3_600_000:,.1f} h",
                }
                for topic in made.topics
                for name, kept in topic.retention_ms.items()
            ]
        )
        rooms = [room.left_ms for topic in made.topics for room in topic.headroom[:1]]
        if rooms:
            shown["retention headroom (s)"] = min(rooms) / 1000
    for topic in made.topics:
        of = f" of {topic.source}" if len(made.topics) > 1 else ""
        shown[f"duplicates removed by{of}"] = topic.seam_rule
        shown[f"event times{of}"] = topic.event_times.in_words()
        shown[f"expected start{of}"] = _starts(topic.expected_start, topic.range)
    if seen.previous is not None:
        shown[f"changes since {seen.previous}"] = _changes(seen)
    return shown


def _files(made: Plan) -> list[FoundFiles]:
    return [*made.files, *([] if made.folder is None else [made.folder])]


def _event_times(made: Plan) -> dg.TableMetadataValue:
    """Return for each source of files which event times count, and which rows have others."""

    def shown(time_ms: int | None) -> str:
        return "" if time_ms is None else iso(time_ms)

    return table(
        [
            {
                "source": part.source,
                "lowest": shown(part.times.lowest_ms),
                "highest": shown(part.times.highest_ms),
                "not before": iso(part.times.not_before_ms),
                "not after": iso(part.times.not_after_ms),
                "known by": part.times.evidence,
                "rows outside": part.times.outside,
                "from": shown(part.times.outside_lowest_ms),
                "to": shown(part.times.outside_highest_ms),
                "files with them": part.times.outside_files,
                "such as": ", ".join(part.times.shown_files),
            }
            for part in _files(made)
        ]
    )


def _estimate(seen: Preview) -> Metadata:
    """Return the estimate; as a number, which Dagster plots, only where one is known."""
    found = seen.estimate
    shown: Metadata = {
        "estimate": "unknown" if found.seconds is None else duration(found.seconds),
        "estimate based on": found.basis,
    }
    if found.seconds is not None:
        shown["estimate (s)"] = round(found.seconds, 1)
    if found.executor_hours is not None:
        shown["estimate (executor-hours)"] = round(found.executor_hours, 3)
    return shown


def _schemas(seen: Preview) -> dg.TableMetadataValue:
    sources = dict.fromkeys(source for of in seen.schemas.values() for source in of)
    return table(
        [
            {"column": name, **{source: of.get(source, "") for source in sources}}
            for name, of in seen.schemas.items()
        ]
    )


def _changes(seen: Preview) -> dg.MetadataValue:
    if not seen.changes:
        return dg.MetadataValue.text("none")
    return table([change.model_dump() for change in seen.changes])


def _starts(position: StartPosition, until: RangePlan | None) -> dg.TableMetadataValue:
    return table(
        [
            {
                "topic": at.topic,
                "partition": at.partition,
                "start": part.start,
                "why": part.reason,
                "log start": part.log_start,
                "log end": part.log_end,
                **({} if until is None else {"read until": until.ends[at]}),
            }
            for at, part in sorted(position.partitions.items())
        ]
    )
