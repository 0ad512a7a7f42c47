"""Check that a topic's timestamps are arrival times, where history is read in arrival order."""

from __future__ import annotations

from collections.abc import Mapping

from sources.config.pipeline import Pipeline
from sources.config.source.kafka_source import KafkaSource


def arrival_warnings(
    pipeline: Pipeline, source: KafkaSource, timestamp_type: Mapping[str, str]
) -> list[str]:
    """Warn if history is read in order of arrival by timestamps that producers set.

    One sentence if a topic's timestamp of type ``CreateTime`` fills the column of that order; else
    empty.

    Args:
        pipeline: The pipeline.
        source: Source of the topics.
        timestamp_type: ``CreateTime`` or ``LogAppendTime``, by topic.
    """
    orders = [each.arrival for each in pipeline.file_sources if each.arrival is not None]
    filled = [each.arrival for each in orders if source.include.get(each.arrival) == "timestamp"]
    sent = [name for name, kind in timestamp_type.items() if kind == "CreateTime"]
    if not filled or not sent:
        return []
    return [
        f"Source `{source.name}`: `{filled[0]}`, by which history is put into order of arrival, is "
        f"the timestamp of the records of `{sent[0]}`, which producers set (`CreateTime`): the "
        "time at which a row was sent. If it may arrive much later, set the topic's "
        "`message.timestamp.type` to `LogAppendTime`."
    ]
