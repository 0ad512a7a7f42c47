"""Declaration of one of several inputs of a transform, and what a pipeline with inputs can't do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from sources.common.fields import Declared
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.source_kinds import AnySource, SourceSpec
from sources.hybrid import Boundedness

if TYPE_CHECKING:
    from sources.config.pipeline import Pipeline

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
# Fields of the pipeline whose meaning with several inputs is not defined yet.
_FIELDS = ("sequence", "rules", "sample", "approve")
_OF_SOURCE = {
    "snapshot": "an input is no captured table",
    "table": "declare the table's folder as `path`",
    "schema_drift": "all files need the same columns",
    "converge": "files are listed once, by the plan",
    "offsets": "an input's topic starts by event time",
    "discovery_interval": "a folder has to end; what comes later comes by a topic",
    "until": "a topic is followed without end",
    "topic_pattern": "name the topic",
    "align": "partitions of an input's topic are read as they come",
    "changes": "an input has rows, no changes of a table",
    "arrival": "files of an input are read by event time",
}


class Input(Declared):
    """One input of a transform: a chain of sources of its own, which the transform gets by name.

    Attributes:
        sources: Sources in reading order: files, then either nothing or one topic that is followed
            without end. Their rows have the pipeline's ``event_time`` column.
        key: Columns that identify a row of this input, the same ones in all of its sources.
    """

    sources: list[SourceSpec] = Field(min_length=1)
    key: list[str] = Field(default_factory=list)


def check_inputs(pipeline: Pipeline) -> None:
    """Refuse declarations of several inputs whose meaning is not defined yet, each by its name.

    Called while the pipeline's declaration is validated. Nothing is checked without ``inputs``.

    Raises:
        ValueError: Names the field, why it is refused, and what to declare instead.
    """
    if not pipeline.inputs:
        return
    if len(pipeline.inputs) == 1:
        message = (
            "`inputs` has one input only: a pipeline with one input declares its `sources` "
            "directly. Declare a second input, or `sources` in place of `inputs`."
        )
        raise ValueError(message)
    _check_pipeline(pipeline)
    _check_names(pipeline)
    for name, each in pipeline.inputs.items():
        _check_chain(name, each.sources)
    _check_ends(pipeline)


def _check_pipeline(pipeline: Pipeline) -> None:
    for field in _FIELDS:
        if getattr(pipeline, field):
            raise ValueError(refused_with_inputs(field))
    if pipeline.key:
        message = (
            "`key` can't be declared next to `inputs`, whose rows have keys of their own. Declare "
            "`key` in each input."
        )
        raise ValueError(message)
    if pipeline.sink.mode != "append":
        message = (
            f"`sink.mode: {pipeline.sink.mode}` can't be combined with `inputs`: rows of a join "
            "are written once they are final. Declare `mode: append`."
        )
        raise ValueError(message)
    if pipeline.sink.copy_files:
        raise ValueError(refused_with_inputs("sink.copy_files"))
    if pipeline.event_time.outside != "fail":
        raise ValueError(refused_with_inputs(f"event_time.outside: {pipeline.event_time.outside}"))
    if pipeline.spark.conf.get(_POLICY, "min") != "min":
        message = (
            f"`spark.conf` sets `{_POLICY}: {pipeline.spark.conf[_POLICY]}`: with it, rows of the "
            "input that is read later would be late. Remove it: with `inputs`, the watermark is "
            "that of the input that is furthest behind."
        )
        raise ValueError(message)


def _check_names(pipeline: Pipeline) -> None:
    """Refuse two sources of one name: the state is kept by it."""
    readers: dict[str, str] = {}
    for name, each in pipeline.inputs.items():
        for source in each.sources:
            if source.name in readers:
                message = (
                    f"the inputs `{readers[source.name]}` and `{name}` both have a source "
                    f"`{source.name}`; the state is kept by this name. Give each source a `name` "
                    "of its own."
                )
                raise ValueError(message)
            readers[source.name] = name


def refused_with_inputs(field: str) -> str:
    """Return the message that a field can't be declared beside ``inputs``."""
    return (
        f"`{field}` can't be combined with `inputs` yet. Remove it, or declare one chain of "
        "`sources`."
    )


def _check_chain(name: str, sources: list[AnySource]) -> None:
    for source in sources:
        for field, why in _OF_SOURCE.items():
            if getattr(source, field, None):
                message = (
                    f"input `{name}`: `{field}` of source `{source.name}` can't be combined with "
                    f"`inputs`: {why}. Remove it."
                )
                raise ValueError(message)
        if type(source) not in (FileSource, KafkaSource):
            message = (
                f"input `{name}`: source `{source.name}` of `type: {source.type}` can't be "
                "combined with `inputs`. Declare `type: files` or `kafka`."
            )
            raise ValueError(message)
        if isinstance(source, KafkaSource):
            _check_topic(name, source)
        elif source.is_table:
            message = (
                f"input `{name}`: `format: {source.format}` of source `{source.name}` can't be "
                "combined with `inputs`: files are parsed one by one, without the table's log. "
                "Declare files of another format."
            )
            raise ValueError(message)


def _check_topic(name: str, source: KafkaSource) -> None:
    refused = {
        f"on_gap: {source.on_gap}": source.on_gap != "fail",
        f"on_tombstone: {source.on_tombstone}": source.on_tombstone == "delete",
        f"on_bad_record: {source.on_bad_record}": source.on_bad_record != "fail",
        "missing_topic": source.missing_topic != "refuse",
        "several topics": len(source.topics) > 1,
    }
    for field, is_declared in refused.items():
        if is_declared:
            message = (
                f"input `{name}`: `{field}` of source `{source.name}` can't be combined with "
                "`inputs`. Remove it."
            )
            raise ValueError(message)


def _check_ends(pipeline: Pipeline) -> None:
    """Refuse inputs of which some are followed and some end, and a topic in two inputs."""
    names = list(pipeline.inputs)
    ends = [
        each.sources[-1].boundedness is Boundedness.BOUNDED for each in pipeline.inputs.values()
    ]
    if any(ends) and not all(ends):
        ended, followed = names[ends.index(True)], names[ends.index(False)]
        message = (
            f"input `{ended}` ends, and `{followed}` is followed without end: the watermark would "
            f"stand still once `{ended}` is read. Declare a topic as the last source of "
            f"`{ended}`, too; or join a table that is read once in the transform."
        )
        raise ValueError(message)
    readers: dict[str, str] = {}
    for name, each in pipeline.inputs.items():
        for source in each.sources:
            for topic in source.topics if isinstance(source, KafkaSource) else []:
                if topic in readers:
                    message = (
                        f"topic `{topic}` is read by the inputs `{readers[topic]}` and `{name}`. "
                        "Declare it in one input, and divide its rows in the transform."
                    )
                    raise ValueError(message)
                readers[topic] = name
