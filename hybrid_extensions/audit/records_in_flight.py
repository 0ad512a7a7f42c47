"""How many rows the target may lack as no run has written them yet: on the way, or not read.

A live run reads and writes while the audit reads topics and target in turn; and producers go on
while it is paused or stopped.
"""

from __future__ import annotations

from contextlib import suppress

from orchestration.backlog import backlog_of
from orchestration.operations.live_run import is_live
from sources.config.source.kafka_source import KafkaSource
from sources.errors import HybridError
from sources.hybrid import Boundedness
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint import offset_log


class RecordsInFlight:
    """Count of the records whose rows one side of an audit may have, and the other one not yet.

    Create it before the topics are read.

    Args:
        context: The pipeline and its state.
        is_live: Whether a live run writes the table.

    Attributes:
        is_live: As given.

    Raises:
        InputError: The broker does not know a topic, or refuses.
        UnavailableError: The broker does not answer.
    """

    def __init__(self, context: PipelineContext, *, is_live: bool) -> None:
        self._context = context
        self.is_live = is_live
        read = context.pipeline.turn_of(context.pipeline.sources[-1].name)
        self._logs = [KafkaLog(each) for each in read if isinstance(each, KafkaSource)]
        self._first = self._log_end()
        self._unread = 0

    def before_target(self) -> None:
        """Count what the target lacks of the topics. Call it right before the target is read.

        Raises:
            InputError: The broker does not know a topic, or refuses.
            UnavailableError: The broker does not answer.
            StateError: A file of the checkpoint is missing.
        """
        self._unread = backlog_of(self._context, as_of_now=True).waiting(None) if self._logs else 0

    def count(self) -> int:
        """Return how many there were. Call it once the target is read; 0 if no topic is followed.

        A highest number: offsets, of which some may be no rows.

        Raises:
            InputError: The broker does not know a topic, or refuses.
            UnavailableError: The broker does not answer.
        """
        return self._unread + self._log_end() - self._first

    def _log_end(self) -> int:
        return sum(sum(log.high_watermark().values()) for log in self._logs)


def records_in_flight(context: PipelineContext | None) -> RecordsInFlight | None:
    """Return a new :class:`RecordsInFlight`; None if no run writes the table, or has begun to.

    A run that is paused or has ended has begun, and its next one reads on. What the target lacks of
    a topic with an end is lost: no run writes it later.

    Args:
        context: The pipeline and its state; None if it has no state.

    Raises:
        InputError: The broker does not know a topic, or refuses.
        UnavailableError: The broker does not answer.
    """
    if context is None:
        return None
    is_written = False
    # A cluster that does not say whether the run is active is no reason not to audit.
    with suppress(HybridError):
        is_written = is_live(context.loaded)
    last = context.pipeline.sources[-1]
    place = context.pipeline.place_of(last.name)
    is_followed = last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    if is_written or (
        is_followed and offset_log.committed_offset(context.generation.checkpoint, place)
    ):
        return RecordsInFlight(context, is_live=is_written)
    return None
