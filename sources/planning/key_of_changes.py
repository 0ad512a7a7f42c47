"""The columns that identify rows of a captured table, as the first change of a run tells them."""

from __future__ import annotations

from sources.common.positions import Offsets, Record
from sources.common.topic_log import Log
from sources.config.kafka_source import KafkaSource
from sources.decoding.changes.record_keys import RecordKeys
from sources.state.generation import Generation


class KeyOfChanges(Record):
    """State document of a generation: the key by which changes of a topic are merged.

    Attributes:
        columns: Names of the columns in the ``schema``, sorted.
    """

    columns: list[str]


def known_key(generation: Generation, source: KafkaSource) -> list[str] | None:
    """Return the columns that identified rows so far; None if that is not known.

    Args:
        generation: State of the generation.
        source: The topic of changes.

    Raises:
        StateError: The document is damaged.
    """
    found = generation.read(_name(source), KeyOfChanges)
    return None if found is None else found.columns


def keep_key(generation: Generation, source: KafkaSource, log: Log, starts: Offsets) -> None:
    """Keep the columns that identify rows, by the first record from the start on, if there is one.

    Does nothing if they are kept already.

    Args:
        generation: State of the generation.
        source: The topic of changes.
        log: Look-ups on the topic.
        starts: Start offset of each partition.

    Raises:
        StateError: The document is damaged, or can't be written.
        UnavailableError: The broker or the schema registry does not answer.
        InputError: One of them refuses.
    """
    if source.changes is None or known_key(generation, source) is not None:
        return
    first, end, keys = log.log_start(), log.log_end(), RecordKeys(source.changes)
    for partition in sorted(end):
        start = max(starts.get(partition, 0), first[partition])
        if start >= end[partition]:
            continue
        for record in log.read({partition: start}, 1, {partition: end[partition]}):
            columns = keys.names(record.key)
            if columns is not None:
                generation.replace(_name(source), KeyOfChanges(columns=columns))
                return


def _name(source: KafkaSource) -> str:
    return f"run/{source.name}-key.json"
