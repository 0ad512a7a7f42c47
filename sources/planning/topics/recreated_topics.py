"""Recreated topics are refused: their ids are compared with those of the plan, or when first seen.

Topics that came to exist after the plan have their ids kept in the state.
"""

from __future__ import annotations

from collections.abc import Collection

from sources.common.positions import TopicPartition
from sources.common.state_document import Record
from sources.config.source.kafka_source import KafkaSource
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.topics.topic_plan import TopicPlan, require_same_topics
from sources.state.generation import Generation

# Stands for the id of a topic that appeared and was deleted again during one run.
_READ = "one that was read"


class SeenTopics(Record):
    """State document of a generation: topics that came to exist after they were planned.

    Attributes:
        topics: ``<cluster id>/<topic id>`` of each topic, by name.
    """

    topics: dict[str, str]


def refuse_recreated_topics(
    generation: Generation,
    source: KafkaSource,
    plan: TopicPlan,
    log: KafkaLog,
    reached: Collection[TopicPartition],
) -> None:
    """Refuse topics that are not the same ones any more as planned, or as first seen.

    Called whenever a run begins to follow them. Where the source waits for missing topics, the ids
    of topics that have come to exist since are recorded in the state.

    Args:
        generation: State of the generation.
        source: The declaration.
        plan: Plan of the source.
        log: Look-ups on its topics.
        reached: Partitions of which records were committed; their topics must exist.

    Raises:
        SeamError: A topic was deleted, perhaps created again, or is in another cluster.
        StateError: The document is damaged, or can't be written.
        UnavailableError: The broker does not answer.
        InputError: The broker refuses.
    """
    # Topics that fit a pattern come and go.
    is_kept = source.waits_for_topic and bool(source.topics)
    seen = generation.read(_name(source), SeenTopics) if is_kept else None
    gone = {each.topic for each in reached} & {*log.missing}
    known = {**dict.fromkeys(gone, _READ), **plan.topics}
    known |= {} if seen is None else seen.topics
    require_same_topics(plan.model_copy(update={"topics": known}), log)
    found = log.identities() if is_kept else known
    if found.keys() > known.keys():
        since = {name: of for name, of in found.items() if name not in plan.topics}
        generation.replace(_name(source), SeenTopics(topics=since))


def _name(source: KafkaSource) -> str:
    return f"run/{source.name}-topics.json"
