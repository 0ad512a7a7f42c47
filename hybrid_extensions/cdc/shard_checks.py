"""Refused declarations of shards: one table of several databases needs its topic in `sink.key`."""

from __future__ import annotations

import posixpath
from collections import Counter

from sources.config.pipeline import Pipeline
from sources.config.section import Section
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import folder_of
from sources.decoding.changes.schema_policies import ALL_STOP


class ShardSection(Section):
    """Section without fields, which checks shards whenever a pipeline's file is validated."""

    takes_inputs = True

    def check(self, pipeline: Pipeline) -> None:
        """Refuse shards whose rows could meet: see :func:`check_shards`. Raises ValueError."""
        check_shards(pipeline)


def check_shards(pipeline: Pipeline) -> None:
    """Refuse shards whose rows could meet, or what needs the log of a single database.

    Shards are databases whose topics go into one table: those that a ``snapshot.topic`` names, or,
    without snapshots, topics of changes whose name is in ``sink.key``. Other pipelines pass. Only
    the declaration is looked at, while it is validated: no broker or database is asked.

    Raises:
        ValueError: Names the source, the topic or the field, and what to declare.
    """
    last = pipeline.sources[-1]
    topics = last.topics if isinstance(last, KafkaSource) else []
    snapshots = [each for each in pipeline.file_sources if each.snapshot is not None]
    if pipeline.shards or len(snapshots) > 1:
        _check_snapshots(pipeline, snapshots, topics)
    if not isinstance(last, KafkaSource) or last.changes is None:
        return
    named = [name for name in last.topic_columns if name in pipeline.sink.key]
    if pipeline.shards and not named:
        column = next(iter(last.topic_columns), "_shard")
        message = (
            f"rows of shards with equal keys would be one row: `sink.key` ("
            f"{', '.join(pipeline.sink.key)}) lacks the shard. Declare `include: {{{column}: "
            f"topic}}` for `{last.name}`, and `{column}` in `sink.key`."
        )
        raise ValueError(message)
    if named and (len(topics) > 1 or last.topic_pattern is not None):
        _check_changes(pipeline, last, named[0])


def _check_snapshots(pipeline: Pipeline, snapshots: list[FileSource], topics: list[str]) -> None:
    """Refuse snapshots of shards that are not one for each topic of the last source."""
    if lacking := [each.name for each in snapshots if each.snapshot and not each.snapshot.topic]:
        message = (
            f"source `{lacking[0]}` is one of several with a `snapshot`, and does not say which "
            "topic continues it. Declare `snapshot.topic`, one of the topics of the last source."
        )
        raise ValueError(message)
    declared = Counter(each.snapshot.topic for each in snapshots if each.snapshot is not None)
    if twice := [name for name, times in declared.items() if times > 1]:
        both = [
            each.name for each in snapshots if each.snapshot and each.snapshot.topic == twice[0]
        ]
        message = (
            f"sources `{both[0]}` and `{both[1]}` are two shards of one name: both declare "
            f"`snapshot.topic: {twice[0]}`. Give each the topic of its own connector."
        )
        raise ValueError(message)
    folders: dict[str, str] = {}
    for each in snapshots:
        folder = posixpath.normpath(folder_of(each.patterns))
        other = folders.setdefault(folder, each.name)
        if other != each.name:
            message = (
                f"sources `{other}` and `{each.name}` have one folder for their snapshots, "
                f"`{folder}`: the rows of the first one would be those of both. Give each another "
                "`path`."
            )
            raise ValueError(message)
    for topic, source in pipeline.shards.items():
        if topic not in topics:
            message = (
                f"source `{source.name}` declares `snapshot.topic: {topic}`, which is no topic of "
                f"the last source ({', '.join(topics) or 'none'}). Add it there under `topic`, or "
                "correct the name."
            )
            raise ValueError(message)
    if unknown := [topic for topic in topics if topic not in pipeline.shards]:
        message = (
            f"topic `{unknown[0]}` is that of a shard without a snapshot. Declare a source with "
            f"`snapshot: {{dsn: …, topic: {unknown[0]}}}` for it, or remove the topic."
        )
        raise ValueError(message)
    if beside := [each.name for each in snapshots if each.follows_while_reading]:
        message = (
            f"`follow: while_reading` of snapshot `{beside[0]}` does not fit shards: the table is "
            "whole only once the snapshots of all are read. Remove it."
        )
        raise ValueError(message)
    others = [each.name for each in pipeline.sources[:-1] if each.snapshot is None]
    if others:
        message = (
            f"source `{others[0]}` can't be read next to snapshots of shards, which end where "
            "their topics begin. Remove it."
        )
        raise ValueError(message)


def _check_changes(pipeline: Pipeline, source: KafkaSource, column: str) -> None:
    """Refuse what would act on rows of other shards than the one that a change is of."""
    assert source.changes is not None  # asked for such a source only
    policies = source.changes.policies
    wrong = {
        "on_truncate: follow": (
            source.changes.follows_truncates,
            "a TRUNCATE of one shard would remove the rows of all. Remove it: a TRUNCATE then "
            "stops the run",
        ),
        "on_schema_change": (
            policies.asks_database or policies.narrowed != ALL_STOP.narrowed,
            "databases change their columns at different times. Remove it, and declare "
            "`added_columns` and the like when a run stops",
        ),
        f"on_bad_record: {source.on_bad_record}": (
            source.on_bad_record != "fail",
            "which row is stale is known by the key of its record, which shards have in common. "
            "Declare `on_bad_record: fail`",
        ),
    }
    for field, (is_declared, why) in wrong.items():
        if is_declared:
            message = (
                f"`{field}` has no meaning for shards (`{column}` in `sink.key` is their topic): "
                f"{why}."
            )
            raise ValueError(message)
