"""Discovery of files that arrive, next to the stream that reads them."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from types import TracebackType

from sources.planning.discovery import GrowingFolder
from sources.planning.file_plan import FoundFiles


class Discoverer:
    """Thread that lists a folder at an interval.

    The stream and its heartbeat do not wait for a listing, however long it takes.

    Args:
        folder: The folder, which records what is discovered.
    """

    def __init__(self, folder: GrowingFolder) -> None:
        self._folder = folder
        self._stop = threading.Event()
        self._found: SimpleQueue[FoundFiles | Exception] = SimpleQueue()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Discoverer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Not joined: what a listing under way still discovers is recorded for the next run.
        self._stop.set()

    def take(self) -> FoundFiles | None:
        """Return the next files that were discovered, or None.

        Raises:
            Exception: What the discovery raised.
        """
        try:
            found = self._found.get_nowait()
        except Empty:
            return None
        if isinstance(found, Exception):
            raise found
        return found

    def _look(self) -> None:
        while not self._stop.is_set():
            try:
                found = self._folder.discover()
            except Exception as error:
                self._found.put(error)
                return
            if found is not None:
                self._found.put(found)
            self._stop.wait(self._folder.interval_ms / 1000)
