"""Warnings about the topics of a new pipeline, given when it is created."""

from __future__ import annotations

from sources.common.durations import duration
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.retention import retention_ms

ANSWER_S = 5.0
"""Seconds to wait for the broker of a new pipeline, which need not be there yet."""


def topic_warnings(loaded: LoadedPipeline) -> list[str]:
    """Return warnings about the topics of a new pipeline, a sentence or two each; maybe none.

    They say that a topic is missing, or that it keeps records for a limited time. A broker that
    does not answer within 5 s is a warning, too, and raises nothing.

    Args:
        loaded: The pipeline.
    """
    warnings = []
    for source in loaded.pipeline.topics:
        try:
            settings = KafkaLog(source, ANSWER_S).settings()
        except HybridError as error:
            warnings.append(str(error))
            continue
        kept = {topic: retention_ms(each) for topic, each in settings.items()}
        warnings += [
            f"Topic `{topic}` keeps records for {duration(ms / 1000)} (`retention.ms`). Files that "
            "end longer ago than that leave a gap, which the plan refuses."
            for topic, ms in kept.items()
            if ms is not None
        ]
    return warnings
