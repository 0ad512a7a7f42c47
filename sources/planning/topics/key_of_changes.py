"""Key columns of a captured table, as known from its snapshot or its first change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sources.common.positions import EndPosition, Offsets
from sources.common.state_document import Record
from sources.common.topic_log import Log
from sources.config.source.kafka_source import KafkaSource
from sources.config.table.sink import Sink
from sources.decoding.changes.record_keys import RecordKeys
from sources.state.generation import Generation


class KeyOfChanges(Record):
    """State document of a generation: the columns of the record key of a captured table.

    Attributes:
        columns: Their names as they are in ``schema``, sorted.
    """

    columns: list[str]


class ExpectedKey(NamedTuple):
    """What is known about a captured table's key columns before any change is read.

    Attributes:
        at_snapshot: Primary key that the table had at its snapshot; empty if that is not known.
        declared: Columns of ``sink.key``, without those that the record's metadata fills.
    """

    at_snapshot: Sequence[str]
    declared: Sequence[str]

    @classmethod
    def of(cls, sink: Sink, source: KafkaSource, ends: Sequence[EndPosition]) -> ExpectedKey:
        """Collect the sink's key, and the table's primary key at the last snapshot, if known.

        Args:
            sink: The declaration of the sink.
            source: The Kafka source with the table's changes.
            ends: End positions of the earlier sources, whose last table definition counts.
        """
        known = [end.definition.key for end in ends if end.definition is not None]
        return cls(known[-1] if known else [], sink.of_table(source.topic_columns).key)

    def columns(self, first: Sequence[str] | None) -> list[str] | None:
        """Return the key columns that all changes of a run must have, sorted; None if not known.

        The snapshot's primary key counts, unless the first record has exactly the columns of
        ``sink.key``: a connector may use others than the primary key (``message.key.columns``).

        Args:
            first: Columns of the first record's key, sorted; None if there is no record.
        """
        known, declared = sorted(self.at_snapshot), sorted(self.declared)
        if not known or (first is not None and [*first] == declared):
            return None if first is None else [*first]
        return known if first is not None or known == declared else None


def known_key(generation: Generation, source: KafkaSource) -> list[str] | None:
    """Return the key columns that the state records for a captured table; None if it has none.

    Args:
        generation: State of the generation.
        source: The Kafka source with the table's changes.

    Raises:
        StateError: The document is damaged.
        UnavailableError: The state's store does not answer.
    """
    found = generation.read(_name(source), KeyOfChanges)
    return None if found is None else found.columns


def keep_key(
    generation: Generation,
    source: KafkaSource,
    log: Log,
    starts: Offsets,
    expected: ExpectedKey,
) -> None:
    """Record in the state the key columns that all changes of a captured table must have.

    Called by the run of the topic when it starts, if the sink merges. Decided by
    :meth:`ExpectedKey.columns` with the first record that Kafka has. Does nothing if they are
    recorded already, if they can't be known yet, or if the source is no captured table.

    Args:
        generation: State of the generation.
        source: The Kafka source with the table's changes.
        log: Look-ups on the topic.
        starts: Start offset of each partition.
        expected: What declaration and snapshot say about the key.

    Raises:
        StateError: The document is damaged, or can't be written.
        UnavailableError: The broker or the schema registry does not answer.
        InputError: One of them refuses.
    """
    if source.changes is None or known_key(generation, source) is not None:
        return
    columns = expected.columns(_first_key(source, log, starts))
    if columns is not None:
        generation.replace(_name(source), KeyOfChanges(columns=columns))


def _first_key(source: KafkaSource, log: Log, starts: Offsets) -> list[str] | None:
    """Return the columns of the first record's key from the start on; None if none has any."""
    assert source.changes is not None  # asked for such a source only
    first, end, keys = log.log_start(), log.log_end(), RecordKeys(source.changes)
    for partition in sorted(end):
        start = max(starts.get(partition, 0), first[partition])
        if start >= end[partition]:
            continue
        for record in log.read({partition: start}, 1, {partition: end[partition]}):
            columns = keys.names(record.key)
            if columns is not None:
                return columns
    return None


def _name(source: KafkaSource) -> str:
    return f"run/{source.name}-key.json"
