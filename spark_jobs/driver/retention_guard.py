"""Watches, while history runs, that Kafka does not delete what is to be read after it."""

from __future__ import annotations

import time

from sources.common.positions import Offsets, span_ms
from sources.common.state import Generation
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, UnavailableError
from sources.hybrid import SourceSwitchContext
from sources.kafka.client import KafkaLog
from sources.kafka.retention import RetentionWatch
from sources.kafka.start_checks import needed_offsets
from sources.planning.topic_plan import start_factory
from sources.planning.topic_range import end_planned, seam_end_after
from spark_jobs.driver.reporter import Reporter
from spark_jobs.query.streaming_query import Query

INTERVAL_S = 5.0
# Say so while there is still time to do something about it.
_WARN_AT = 3


class RetentionGuard:
    """Looks at the topic's retention every few seconds.

    Args:
        loaded: The pipeline.
        generation: Its state.
        query: The run of the bounded source.
        reporter: Gets the warnings, and tells how far the run is.
    """

    def __init__(
        self, loaded: LoadedPipeline, generation: Generation, query: Query, reporter: Reporter
    ) -> None:
        self._loaded = loaded
        self._generation = generation
        self._source = loaded.pipeline.topic_after(query.source.name)
        self._query = query
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
        except (InputError, UnavailableError) as error:
            # History does not need the broker; the hand-over will.
            self._reporter.warn(f"Retention can't be watched: {error}")
        return False

    def _needed(self, source: KafkaSource, log: KafkaLog) -> Offsets:
        """What has to be in the log at the hand-over, as far as history is planned by now."""
        generation, plan = self._generation, self._query.plan
        before = self._loaded.pipeline.source_before(source.name)
        end = end_planned(generation, plan, before.name)
        seam_end = seam_end_after(generation, plan, before.name)
        lenient = source.model_copy(update={"on_gap": "accept"})
        start = start_factory(self._loaded, lenient, seam_end)(SourceSwitchContext(end, log))
        lateness_ms = self._loaded.pipeline.lateness_ms
        return needed_offsets(log, start, end, lateness_ms)

    def _look(self, source: KafkaSource) -> None:
        if self._watch is None:
            log = KafkaLog(source)
            self._watch = RetentionWatch(source, log, self._needed(source, log))
        room = self._watch.require(self._reporter.position())
        self._reporter.retention(None if room is None else str(room))
        if room is None or self._warned:
            return
        eta_s = self._reporter.eta_s()
        limit_ms = span_ms(source.headroom)
        if room.left_ms < _WARN_AT * limit_ms or (eta_s or 0) * 1000 > room.left_ms:
            needs = "" if eta_s is None else f"; history needs about {eta_s:,.0f} s more"
            self._reporter.warn(f"Retention: {room}{needs}.")
            self._warned = True
