"""Watches, while history runs, that Kafka does not delete what is to be read after it."""

from __future__ import annotations

import time

from sources.document import LoadedPipeline
from sources.errors import InputError
from sources.kafka import KafkaLog
from sources.kafka_source import KafkaSource
from sources.plan import Plan
from sources.retention import RetentionWatch
from spark_jobs.progress import Reporter

INTERVAL_S = 5.0
# Say so while there is still time to do something about it.
_WARN_AT = 3


class RetentionGuard:
    """Looks at the topic's retention every few seconds.

    Args:
        loaded: The pipeline.
        plan: Tells what has to be in the log when history is done.
        reporter: Gets the warnings, and tells how far the run is.
    """

    def __init__(self, loaded: LoadedPipeline, plan: Plan, reporter: Reporter) -> None:
        live = loaded.pipeline.sources[-1]
        self._source = live if isinstance(live, KafkaSource) else None
        self._plan = plan
        self._reporter = reporter
        self._watch: RetentionWatch | None = None
        self._looked_at = 0.0
        self._warned = False

    def look(self) -> bool:
        """Look if it is time to; never ends the run but by an error.

        Raises:
            SeamError: Kafka is about to delete records that come after history.
        """
        if self._source is None or time.monotonic() - self._looked_at < INTERVAL_S:
            return False
        self._looked_at = time.monotonic()
        try:
            self._look(self._source)
        except InputError as error:
            # History does not need the broker; the hand-over will.
            self._reporter.log(f"Retention can't be watched: {error}")
        return False

    def _look(self, source: KafkaSource) -> None:
        if self._watch is None:
            assert self._plan.topic is not None
            self._watch = RetentionWatch(source, KafkaLog(source), self._plan.topic.needed)
        room = self._watch.require(self._reporter.position())
        self._reporter.retention(None if room is None else str(room))
        if room is None or self._warned:
            return
        eta_s = self._reporter.eta_s()
        limit_ms = source.headroom.total_seconds() * 1000
        if room.left_ms < _WARN_AT * limit_ms or (eta_s or 0) * 1000 > room.left_ms:
            needs = "" if eta_s is None else f"; history needs about {eta_s:,.0f} s more"
            self._reporter.warn(f"Retention: {room}{needs}.")
            self._warned = True
