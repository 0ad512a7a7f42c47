"""Guard of Kafka's retention: history is stopped if less than `headroom` is left, warned before."""

from __future__ import annotations

import time

from sources.common.durations import duration, in_full, span_ms
from sources.common.positions import Offsets
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, UnavailableError
from sources.hybrid import SourceSwitchContext
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.retention import RetentionWatch
from sources.kafka.start.log_checks import needed_offsets
from sources.planning.context import PipelineContext
from sources.planning.topics.topic_plan import start_factory
from sources.planning.topics.topic_range import planned_of
from spark_jobs.inside.driver.reports.reporter import Reporter

INTERVAL_S = 5.0
# Warn while there is still time to act: at this multiple of the declared headroom.
_WARN_AT = 3


class RetentionGuard:
    """Guard that stops history before Kafka deletes the records that are read after it.

    Args:
        context: The pipeline and its state.
        source: Name of the bounded source that is read; the guarded topic is the first one after
            it.
        reporter: Gets the warnings, and knows how far the run is.
    """

    def __init__(self, context: PipelineContext, source: str, reporter: Reporter) -> None:
        self._context = context.of_source(source)
        self._topic = self._context.pipeline.topic_after(source)
        self._reporter = reporter
        self._watch: RetentionWatch | None = None
        self._looked_at = 0.0
        self._warned = False

    def look(self) -> None:
        """Compare what Kafka's retention leaves with the topic's declared ``headroom``.

        Called at each look at the query; it asks the broker at most every 5 seconds. Warns once
        while there is still time to act. A broker that does not answer is only a warning: reading
        history does not need it. Without a topic after the source nothing is done.

        Raises:
            SeamError: Kafka will delete records that are read after history in less time than the
                topic's ``headroom``, and its ``on_gap`` is ``fail``.
            StateError: A range or a round of the plan is damaged, or the heartbeat can't be
                written.
        """
        if self._topic is None or time.monotonic() - self._looked_at < INTERVAL_S:
            return
        self._looked_at = time.monotonic()
        try:
            self._look(self._topic)
        except (InputError, UnavailableError) as error:
            # Reading history does not need the broker; the hand-over will.
            self._reporter.listeners.warn(
                f"The retention of source `{self._topic.name}` can't be checked now; history is "
                f"read on, and the check is repeated: {error}"
            )

    def _needed(self, source: KafkaSource, log: KafkaLog) -> Offsets:
        """Return what must be in the log at the hand-over, as far as history is planned now."""
        context = self._context
        generation, plan, pipeline = context.generation, context.plan, context.pipeline
        history = planned_of(generation, plan, pipeline.source_before(source.name).name)
        lenient = source.model_copy(update={"on_gap": "accept"})
        factory = start_factory(context.loaded, lenient, history.seam_end)
        start = factory(SourceSwitchContext(history.end, log))
        return needed_offsets(log, start, history.end, pipeline.lateness_ms)

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
            needs = "" if eta_s is None else f"; history needs about {duration(eta_s)} more"
            self._reporter.listeners.warn(
                f"Retention of source `{source.name}`: {room}{needs}. Raise the topic's "
                "`retention.ms` (or `retention.bytes`): under `on_gap: fail` the run is stopped "
                f"once less than {in_full(limit_ms)} (`headroom`) is left."
            )
            self._warned = True
