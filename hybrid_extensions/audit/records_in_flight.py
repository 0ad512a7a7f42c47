"""Records that a live run reads and writes while the audit reads topics and target in turn."""

from __future__ import annotations

from contextlib import suppress

from orchestration.backlog import backlog_of
from orchestration.operations.live_run import is_live
from sources.config.source.kafka_source import KafkaSource
from sources.errors import HybridError
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.context import PipelineContext


class RecordsInFlight:
    """Count of the records whose rows one side of an audit may have, and the other one not yet.

    Create it before the topics are read.

    Args:
        context: The pipeline and its state.

    Raises:
        InputError: The broker does not know a topic, or refuses.
        UnavailableError: The broker does not answer.
    """

    def __init__(self, context: PipelineContext) -> None:
        self._context = context
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

        Raises:
            InputError: The broker does not know a topic, or refuses.
            UnavailableError: The broker does not answer.
        """
        return self._unread + self._log_end() - self._first

    def _log_end(self) -> int:
        return sum(sum(log.high_watermark().values()) for log in self._logs)


def records_in_flight(context: PipelineContext | None) -> RecordsInFlight | None:
    """Return a new :class:`RecordsInFlight`; None if no live run writes the table.

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
    return RecordsInFlight(context) if is_written else None
