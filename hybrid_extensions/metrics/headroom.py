"""Retention headroom of live runs: how long their unread input is safe in Kafka."""

from __future__ import annotations

import time

from orchestration.supervision.source_status import SourceStatus
from sources.common.positions import Offsets
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import HybridError
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.retention import Headroom, RetentionWatch

_EVERY_S = 30.0
"""Seconds between two looks: each reads one record of every partition."""
_TIMEOUT_S = 5.0


class HeadroomLooks:
    """Cache of the retention headroom of live runs, refreshed at most every 30 s for each source.

    Retention headroom is the time until Kafka may delete the first record that is not committed.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], tuple[float, Headroom | None]] = {}

    def of(self, loaded: LoadedPipeline, generation: str, found: SourceStatus) -> Headroom | None:
        """Return the headroom of the partition of a source that has the least.

        A broker that does not answer within 5 s raises nothing.

        Args:
            loaded: The pipeline.
            generation: Name of the generation whose run is looked at.
            found: Status of the source.

        Returns:
            The headroom, 0 ms where Kafka has deleted records already; None if the source is not
            read from a topic at the moment, everything is committed, Kafka deletes nothing, or the
            broker does not answer.
        """
        source = loaded.pipeline.source(found.source)
        beat = found.heartbeat
        if not isinstance(source, KafkaSource) or beat is None or not beat.offsets:
            return None
        key = (loaded.pipeline.name, generation, found.source)
        at_s, headroom = self._found.get(key, (-_EVERY_S, None))
        if time.monotonic() - at_s >= _EVERY_S:
            try:
                headroom = _look(source, beat.offsets)
            except HybridError:
                headroom = None
            self._found[key] = (time.monotonic(), headroom)
        return headroom


def _look(source: KafkaSource, needed: Offsets) -> Headroom | None:
    log = KafkaLog(source, _TIMEOUT_S)
    starts = log.log_start()
    for at, offset in sorted(needed.items()):
        if starts.get(at, 0) > offset:
            return Headroom(topic=at.topic, partition=at.partition, offset=offset, left_ms=0)
    found = RetentionWatch(source, log, needed).look()
    return found[0] if found else None
