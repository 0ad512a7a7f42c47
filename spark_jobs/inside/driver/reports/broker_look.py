"""Whether the broker answers on the driver's machine, asked while a query makes no progress.

Spark waits for a broker that does not answer for minutes, without a word. The supervision may be on
another machine, which reaches the broker.
"""

from __future__ import annotations

import threading
import time

from sources.config.source.kafka_source import KafkaSource
from sources.errors import ErrorReport, HybridError
from sources.kafka.client.kafka_log import KafkaLog

_STILL_S = 10.0
_EVERY_S = 10.0
_WAIT_S = 3.0


class BrokerLook:
    """Look at the broker of a topic that a query reads, from a thread of its own.

    Args:
        topic: Declaration of the topic.
    """

    def __init__(self, topic: KafkaSource) -> None:
        self._topic = topic
        self._thread: threading.Thread | None = None
        self._next_at = 0.0
        self._found: ErrorReport | None = None

    def look(self, still_s: float) -> ErrorReport | None:
        """Return why the broker does not answer, as it was last asked; never waits.

        Called at each look at the query. The broker is asked at most every 10 s.

        Args:
            still_s: Seconds since the query last made progress.

        Returns:
            None if the broker answered, if it was not asked yet, or if the query made progress
            within the last 10 s.
        """
        if still_s < _STILL_S:
            self._found = None
            return None
        is_asking = self._thread is not None and self._thread.is_alive()
        if not is_asking and time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + _EVERY_S
            self._thread = threading.Thread(target=self._ask, daemon=True)
            self._thread.start()
        return self._found

    def _ask(self) -> None:
        try:
            KafkaLog(self._topic, _WAIT_S).log_end()
        except HybridError as error:
            self._found = error.report()
        else:
            self._found = None
