"""Alignments of followed topics, each kept for as long as its driver lives."""

from __future__ import annotations

from sources.config.source.kafka_source import KafkaSource
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.ranges.alignment import PartitionAlignment
from sources.state.generation import Generation

# By transaction id of the generation and name of the source.
_ALIGNMENTS: dict[tuple[str, str], PartitionAlignment] = {}


def alignment_of(generation: Generation, source: KafkaSource) -> PartitionAlignment | None:
    """Return the alignment of a followed topic's partitions; None for a source without ``align``.

    A driver has one for each source of a generation, and keeps it, as it learns over time which
    partitions are idle. A source whose declaration has changed gets a new one.
    """
    if source.align is None:
        return None
    name = (generation.info.transaction_id, source.name)
    known = _ALIGNMENTS.get(name)
    if known is None or known.source != source:
        known = _ALIGNMENTS[name] = PartitionAlignment(source, lambda: KafkaLog(source))
    return known
