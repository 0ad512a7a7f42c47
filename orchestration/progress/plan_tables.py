"""The details of a plan as tables for people, narrow enough for a page and a terminal.

What :mod:`orchestration.progress.plan_summary` contains is not repeated here.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from orchestration.display import moment, readable_times, size
from orchestration.progress.in_words import complete_through, interval
from orchestration.progress.plan_preview import Preview
from sources.common.durations import duration
from sources.common.positions import TopicPartition
from sources.config.source.file_options import ArrivalOrder
from sources.files.columns.drifted_layouts import ColumnDifference
from sources.kafka.client.sampled_event_times import SampledTimes
from sources.planning.files.file_plan import FoundFiles
from sources.planning.plan import Plan
from sources.planning.topics.topic_plan import TopicPlan

Cell = str | int


class PlanTable(NamedTuple):
    """A table of at least one row.

    Attributes:
        title: What it shows; of a plan, no two tables have the same title.
        rows: Its rows, each a cell by name of the column; all have the same columns.
    """

    title: str
    rows: list[dict[str, Cell]]


def plan_tables(made: Plan, seen: Preview) -> list[PlanTable]:
    """Return the details of a plan, the most important first; empty tables are left out.

    Args:
        made: The plan.
        seen: The preview of the same plan, for its columns and its changes since the previous one.
    """
    tables = [
        PlanTable("sources of files", _sizes(made, seen)),
        PlanTable("event times", _event_times(made)),
        PlanTable("rows outside of the bounds", _outside(made)),
        PlanTable("files whose columns differ", _drifted(made)),
        PlanTable("files whose rows are written again", _rewritten(made)),
        PlanTable("reading order", _order(made)),
        *(table for topic in made.topics for table in _starts(topic)),
        PlanTable("topics", [row for topic in made.topics for row in _settings(topic)]),
        PlanTable("columns, source by source", _columns(seen)),
        PlanTable(f"changes since {seen.previous}", [each.model_dump() for each in seen.changes]),
    ]
    return [table for table in tables if table.rows]


def _sizes(made: Plan, seen: Preview) -> list[dict[str, Cell]]:
    """Return how much each source of files holds; of a single one the summary says it."""
    if len(made.listed) < 2:
        return []
    return [
        {
            "source": part.source,
            "files": f"{seen.files[part.source]:,}",
            "size": size(part.bytes),
            "rows": "unknown" if part.rows is None else f"{part.rows:,}",
        }
        for part in made.listed
    ]


def _event_times(made: Plan) -> list[dict[str, Cell]]:
    """Return the event times that count; those of a topic are of sampled records."""
    ends = {part.source: complete_through(part.end) for part in made.files}
    rows = [
        _times(part, part.times.evidence == "sampled", part.times.lowest_ms, part.times.highest_ms)
        | {"complete through": ends.get(part.source, "never")}
        for part in made.listed
    ]
    return rows + [
        _times(topic, True, topic.event_times.lowest_ms, topic.event_times.highest_ms)
        | {"complete through": ""}
        for topic in made.topics
        if topic.event_times.records
    ]


def _times(
    part: FoundFiles | TopicPlan, is_sampled: bool, lowest_ms: int | None, highest_ms: int | None
) -> dict[str, Cell]:
    low, high = ("none" if at is None else moment(at) for at in (lowest_ms, highest_ms))
    name = f"{part.source} (a sample of its rows)" if is_sampled else part.source
    return {"source": name, "lowest (UTC)": low, "highest (UTC)": high}


def _outside(made: Plan) -> list[dict[str, Cell]]:
    """Return where rows have event times that do not count."""
    rows: list[dict[str, Cell]] = []
    for part in made.listed:
        times = part.times
        low, high = times.outside_lowest_ms, times.outside_highest_ms
        if not times.outside or low is None or high is None:
            continue
        more = times.outside_files - len(times.shown_files)
        files = [*times.shown_files, *([f"and {more:,} more"] if more else [])]
        numbers = {
            "rows": f"{times.outside:,}",
            "from (UTC)": moment(low),
            "to (UTC)": moment(high),
        }
        rows.append({"source": part.source, **numbers, "in": "\n".join(files)})
    return rows + [
        {"source": topic.source, **_sampled(topic.event_times), "in": of}
        for topic in made.topics
        if (of := topic.event_times.first_outside) is not None
    ]


def _sampled(times: SampledTimes) -> dict[str, Cell]:
    return {
        "rows": f"{times.outside:,} of {times.records:,} sampled",
        "from (UTC)": "",
        "to (UTC)": "",
    }


def _drifted(made: Plan) -> list[dict[str, Cell]]:
    """Return which files have other columns than those that they are read as."""
    return [
        {
            "source": part.source,
            "files": f"{layout.files:,}",
            "difference": "\n".join(map(_difference, layout.differences)),
            "such as": "\n".join(layout.shown_files),
        }
        for part in made.listed
        for layout in part.layouts
        if layout.files and layout.differences
    ]


def _rewritten(made: Plan) -> list[dict[str, Cell]]:
    """Return which files can't be copied into the table, and why."""
    return [
        {"source": part.source, "files": f"{of.files:,}", "why": of.why, "such as": of.such_as}
        for part in made.files
        if part.copied is not None
        for of in part.copied.rewritten
    ]


def _difference(of: ColumnDifference) -> str:
    """Return in words how a column of some files differs."""
    if of.missing:
        return f"{of.column}: missing, read as {'null' if of.default is None else of.default}"
    own = [] if of.type is None else [f"is {of.type}"]
    own += [] if of.name is None else [f"is named {of.name}"]
    return f"{of.column}: {', '.join(own)}"


def _order(made: Plan) -> list[dict[str, Cell]]:
    return [
        {
            "source": part.source,
            "format": part.format,
            "splits": f"{part.splits:,}",
            "order": _order_of(part.order),
            "out-of-orderness": part.out_of_orderness,
        }
        for part in made.files
    ]


def _order_of(order: ArrivalOrder | None) -> str:
    if order is None:
        return "event time: rows that came late count as if on time"
    return f"arrival (`{order.arrival}`), {interval(order)} at a time: rows that came late are late"


def _starts(topic: TopicPlan) -> list[PlanTable]:
    """Return the expected start of each partition and, once for all that have it, the reason."""
    parts = sorted(topic.expected_start.partitions.items())
    has_several = len({at.topic for at, _ in parts}) > 1
    reasons: dict[str, list[str]] = defaultdict(list)
    rows: list[dict[str, Cell]] = []
    for at, part in parts:
        of: dict[str, Cell] = {"topic": at.topic} if has_several else {}
        row = {"partition": at.partition, "log start": part.log_start, "start": part.start}
        row["log end"] = part.log_end
        if topic.range is not None:
            row["read until"] = topic.range.ends[at]
        rows.append({**of, **row})
        reasons[readable_times(part.reason)].append(_name(at, has_topic=has_several))
    why: list[dict[str, Cell]] = [
        {"partitions": "all" if len(reasons) == 1 else ", ".join(names), "why": reason}
        for reason, names in reasons.items()
    ]
    return [
        PlanTable(f"expected start of {topic.source}", rows),
        PlanTable(f"why {topic.source} starts there", why),
    ]


def _name(at: TopicPartition, *, has_topic: bool) -> str:
    return f"{at.topic} {at.partition}" if has_topic else str(at.partition)


def _settings(topic: TopicPlan) -> list[dict[str, Cell]]:
    return [
        {
            "topic": name,
            "timestamp type": topic.timestamp_type[name],
            "retention": "unlimited" if kept is None else duration(kept / 1000),
        }
        for name, kept in topic.retention_ms.items()
    ]


def _columns(seen: Preview) -> list[dict[str, Cell]]:
    sources = dict.fromkeys(source for of in seen.schemas.values() for source in of)
    return [
        {"column": name, **{source: of.get(source, "") for source in sources}}
        for name, of in seen.schemas.items()
    ]
