"""Looks at the broker by the driver: each minute, every 10 s without progress; replaced topics.

Spark waits for a broker that does not answer for minutes, without a word. The supervision may be on
another machine, which reaches the broker. And Spark knows a topic by its name only: one that was
deleted and created again, and has grown beyond what was read, it reads on as if it were the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sources.errors import ErrorReport, HybridError, SeamError

_STILL_S = 10.0
_EVERY_S = 10.0
_SELDOM_S = 60.0


class BrokerLook:
    """Look at the broker of the topics that a query reads, from a thread of its own.

    Args:
        ask: Asks the broker for these topics; a ``SeamError`` says that they are other ones by now,
            any other ``HybridError`` that no answer was got.
    """

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask
        self._thread: threading.Thread | None = None
        self._asked_at = time.monotonic()
        self._found: ErrorReport | None = None
        self._lost: SeamError | None = None

    def look(self, still_s: float) -> ErrorReport | None:
        """Return why the broker does not answer, as it was last asked; never waits.

        Called at each look at the query. The broker is asked once a minute, and every 10 s while
        the query makes no progress. A topic that is gone is left to Spark, which fails by itself.

        Args:
            still_s: Seconds since the query last made progress.

        Returns:
            None if the broker answered, if it was not asked yet, or if the query made progress
            within the last 10 s.

        Raises:
            SeamError: The topics are not the same ones any more, or a log was truncated.
        """
        if self._lost is not None:
            raise self._lost
        is_still = still_s >= _STILL_S
        if not is_still:
            self._found = None
        is_asking = self._thread is not None and self._thread.is_alive()
        due_at = self._asked_at + (_EVERY_S if is_still else _SELDOM_S)
        if not is_asking and time.monotonic() >= due_at:
            self._asked_at = time.monotonic()
            self._thread = threading.Thread(target=self._answer, daemon=True)
            self._thread.start()
        return self._found

    def _answer(self) -> None:
        try:
            self._ask()
        except SeamError as error:
            # A topic that is gone Spark reports by itself; a broker that starts may not know it.
            self._lost = None if error.fields.get("value") == "" else error
        except HybridError as error:
            self._found = error.report()
        else:
            self._found = None
