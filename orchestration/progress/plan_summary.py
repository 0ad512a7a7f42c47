"""Summary of a plan in plain sentences: what is read, what follows, the target, the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestration.display import estimated_duration, moment, size, span
from orchestration.progress.expected_time import Estimate, computes_rows
from orchestration.progress.in_words import interval
from sources.common.counting import counted
from sources.common.database_snapshot import DatabaseSnapshot
from sources.common.durations import duration
from sources.common.positions import EndPosition
from sources.config.pipeline import Pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.planning.files.copied_files import CopiedFiles
from sources.planning.files.file_plan import FilePlan
from sources.planning.plan import Plan
from sources.planning.topics.topic_plan import RangePlan, TopicPlan

_NAMED = 3
"""How many names are listed; of more, only their number is told."""


def summary(
    pipeline: Pipeline, plan: Plan, files: Mapping[str, int], target: str, estimate: Estimate
) -> str:
    """Return a plan's summary in plain sentences, with names in backticks as in Markdown.

    Args:
        pipeline: The pipeline's declaration.
        plan: The plan.
        files: Number of files of each file source, by its name.
        target: Path or URL of the table that the plan's generation writes to.
        estimate: How long the bounded sources take.
    """
    sentences = [
        *_files(pipeline, plan.files, files),
        *(text for topic in plan.topics for text in _topic(pipeline, plan, topic)),
        *_after_that(pipeline, plan, files),
        _target(pipeline, plan, target),
        *_time(estimate),
    ]
    return " ".join(sentences)


def _files(pipeline: Pipeline, parts: Sequence[FilePlan], files: Mapping[str, int]) -> list[str]:
    """Return the sentences about bounded file sources, all of them together."""
    if not parts:
        return []
    read = [
        counted(sum(files[part.source] for part in parts), "file"),
        size(sum(part.bytes for part in parts)),
    ]
    rows = [part.rows for part in parts]
    known = [number for number in rows if number is not None]
    read.append(counted(sum(known), "row") if len(known) == len(rows) else "rows not counted yet")
    first = min(part.event_min_ms for part in parts)
    last = max(part.end.event_time_ms for part in parts)
    is_sampled = any(part.end.event_times == "sampled" for part in parts)
    days = f"{span(first, last)}{', by a sample' if is_sampled else ''}"
    names = [f"`{part.source}`" for part in parts]
    of = "" if len(parts) == 1 else f" of {_list(names, 'sources', ', then ')}"
    sentences = [f"Reads {', '.join(read)}{of} ({days})."]
    sentences += [
        f"`{part.source}` is replayed in order of arrival (`{part.order.arrival}`), as a live run "
        f"that reads {interval(part.order)} at a time would have read it: a row that came late is "
        "late, and a value of the past is what was known then."
        for part in parts
        if part.order is not None
    ]
    sentences += [_copied(part.source, part.copied) for part in parts if part.copied is not None]
    sentences += [
        f"The files of `{part.source}` are a snapshot of {_snapshot(pipeline, taken, part.source)}."
        for part in parts
        if (taken := part.end.snapshot) is not None
    ]
    return sentences


def _copied(source: str, copied: CopiedFiles) -> str:
    """Return the sentence about which files become files of the target as they are."""
    others = sum(each.files for each in copied.rewritten)
    if not others:
        return f"All files of `{source}` are copied into the table as they are."
    files = f"{copied.files:,} of {counted(copied.files + others, 'file')}"
    first = copied.rewritten[0]
    such_as = f"{first.such_as}: {first.why}"
    return (
        f"Of `{source}`, {files} ({size(copied.bytes)}) are copied into the table as they are, "
        "unless they share a micro-batch with one that is not; the rows of the others are written "
        f"again, such as those of {such_as}."
    )


def _snapshot(pipeline: Pipeline, taken: DatabaseSnapshot, source: str) -> str:
    topic = pipeline.topic_after(source)
    captured = None if topic is None else topic.changes
    table = "a table" if captured is None else f"table `{captured.table}`"
    return f"{table}, taken {moment(taken.taken_ms)} UTC"


def _topic(pipeline: Pipeline, plan: Plan, topic: TopicPlan) -> list[str]:
    """Return the sentence about where a topic is read, and what may be in history, too."""
    source = pipeline.topic_source(topic.source)
    before = _ends_before(plan, topic)
    where = _start(source, topic, before)
    # One that is waited for does not exist yet.
    names = [f"`{name}`" for name in topic.topics or source.topics]
    kafka = "Kafka" if len(plan.topics) == 1 else _list(names, "topics", ", ")
    if topic.range is not None:
        records = f"up to {counted(topic.range.offsets, 'record')}"
        then = "Then reads" if before else "Reads"
        of = _list(names, "topics", ", ")
        text = f"{then} {records} of {of} {where}{_until(topic.range)}"
    elif before:
        text = f"{kafka} continues {where}"
    else:
        text = f"{kafka} is read {where}"
    overlap = _overlap(pipeline, topic) if before else ""
    return [f"{text}{'; ' if overlap else ''}{overlap}."]


def _ends_before(plan: Plan, topic: TopicPlan) -> list[EndPosition]:
    """Return the planned ends of all sources before a topic, in reading order."""
    ranges = []
    for each in plan.topics:
        if each.source == topic.source:
            break
        if each.range is not None:
            ranges.append(each.range.end)
    return [*(part.end for part in plan.files), *ranges]


def _until(planned: RangePlan) -> str:
    return f" up to {moment(planned.end.event_time_ms)} UTC" if planned.offsets else ""


def _start(source: KafkaSource, topic: TopicPlan, before: Sequence[EndPosition]) -> str:
    """Return from where a topic is read, as a phrase."""
    position = topic.expected_start
    if position.time_ms is not None:
        return f"from {moment(position.time_ms)} UTC"
    if position.evidence == "offsets" and before[-1].snapshot is not None:
        return "from where it was when the snapshot was taken"
    if position.evidence == "offsets":
        return f"after the last of its records in `{before[-1].source}`"
    if source.start == "latest":
        return "from what arrives after the hand-over"
    if source.start == "earliest":
        return "from its first record"
    if position.evidence == "factory":
        return "from the offsets that `start.factory` returned"
    return "from the declared offsets"


def _overlap(pipeline: Pipeline, topic: TopicPlan) -> str:
    """Return how many records of a topic history may hold, too, and what becomes of them.

    By their timestamps; where these say nothing, at most all between the expected start and the log
    end when history was listed, which the table of starts shows.
    """
    starts = topic.expected_start.offsets()
    records = sum(max(end - starts.get(at, end), 0) for at, end in topic.seam_end.items())
    if topic.seam_rule == "none" or not records:
        return "no record is in both"
    # None of them also where all were appended long after their event times: that says nothing.
    if not topic.likely_overlap:
        held = "all that Kafka held from there on when the files were listed"
        both = f"at most {counted(records, 'record')} may be in both ({held})"
    else:
        of = f"{topic.likely_overlap:,} of the {counted(records, 'record')} there"
        both = f"about {of} may be in both by their timestamps"
    match topic.seam_rule:
        case "key":
            return f"{both}, duplicates are removed by key"
        case "event_time":
            return f"{both}, duplicates are removed by event time"
        case "sequence":
            return f"{both}, duplicates are removed by log position"
        case "replay":
            order = ", ".join(f"`{name}`" for name in pipeline.sink.order)
            return f"{both} and are merged again in the order of {order}"
        case "off":
            return f"{both}, duplicates are kept, as `seam_filter` is off"


def _after_that(pipeline: Pipeline, plan: Plan, files: Mapping[str, int]) -> list[str]:
    """Return the sentence about a folder or table that keeps growing, or a chain with an end."""
    folder, source = plan.folder, pipeline.growing_folder
    if folder is not None and source is not None:
        every = (
            ""
            if source.discovery_interval is None
            else (f" every {duration(source.discovery_interval.total_seconds())}")
        )
        found = f"{counted(files[folder.source], 'file')}, {size(folder.bytes)}"
        if folder.position is not None:
            rows = "" if folder.rows is None else f", {counted(folder.rows, 'row')}"
            return [
                f"Reads version {folder.position.version:,} of the table of `{folder.source}` "
                f"({found}{rows}), then what later commits append, looked for{every}."
            ]
        return [f"The folder of `{folder.source}` continues: {found} so far, and new files{every}."]
    if not plan.topics or plan.topics[-1].range is not None:
        return ["Then the run ends, as every source has an end."]
    return []


def _target(pipeline: Pipeline, plan: Plan, target: str) -> str:
    sink = pipeline.sink
    what = f"what `{pipeline.transform.name}` computes " if computes_rows(pipeline, plan) else ""
    table = f"`{target}`" if sink.table is None else f"table `{sink.table}` in `{target}`"
    key = ", ".join(f"`{name}`" for name in sink.key)
    added = f"each row added once, by {key}" if key else "every row added"
    how = f"upsert by {key}" if sink.mode == "merge" else added
    return f"Writes {what}to {table}, {how}."


def _time(found: Estimate) -> list[str]:
    if found.seconds is None:
        return []
    later = "; the first run will tell" if found.is_guess else ""
    hours = found.executor_hours
    cost = "" if hours is None or hours < 1 else f", {hours:,.0f} executor-hours"
    return [f"About {estimated_duration(found.seconds)}{cost}: {found.basis}{later}."]


def _list(names: Sequence[str], of: str, between: str) -> str:
    return between.join(names) if len(names) <= _NAMED else f"{len(names):,} {of}"
