"""Discovery of new files in a growing folder, by a thread that lists it while a stream reads."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue

from sources.planning.files.file_plan import FoundFiles
from spark_jobs.inside.query.places.place import Filling


class Discoverer:
    """Discoverer of new files: a thread that lists a growing folder at the source's interval.

    A context manager. The stream and its heartbeat do not wait for a listing, however long it
    takes. Leaving the ``with`` block ends the thread after its present listing, without waiting for
    it.

    Args:
        folder: The folder that keeps filling; it writes new files to the state before they are
            handed out.
    """

    def __init__(self, folder: Filling) -> None:
        self._folder = folder
        self._stop = threading.Event()
        self._found: SimpleQueue[FoundFiles | Exception] = SimpleQueue()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Discoverer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Not joined: what a listing under way still discovers is recorded for the next run.
        self._stop.set()

    def take(self) -> FoundFiles | None:
        """Return the files of the oldest discovery not taken yet; None at once without one.

        An error of a listing is raised once; later calls return None.

        Raises:
            InputError: A file can't be read, or has other columns; or the storage refuses.
            UnavailableError: The storage does not answer.
            Exception: Whatever else the listing raised; it has ended the thread.
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
