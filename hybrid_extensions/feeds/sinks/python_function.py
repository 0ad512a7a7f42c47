"""User function in Python as a second sink; the state folder holds its position.

A call that was not recorded as done is repeated as it was: same version, same part, same rows. So
a function that stores the version with its effects has each of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from hybrid_extensions.feeds.base import AGAIN, FeedSink
from hybrid_extensions.feeds.declare import PythonFeed
from hybrid_extensions.feeds.delivery import Delivery
from hybrid_extensions.feeds.follower_lock import require_lock
from hybrid_extensions.feeds.position import Held, Position
from sources.common.state_document import Record
from sources.config.code.user_functions import find_line, load_function
from sources.config.loader import LoadedPipeline
from sources.errors import RunError
from sources.storage.folder import Folder
from spark_jobs.run_state.lock import Lock

_POSITION = "position.json"


class Remembered(Record):
    """Position of a feed's function, in the state folder.

    Attributes:
        delivered: The version that it has; None before a load is complete.
        pending: The version whose changes it is getting; None if none.
    """

    delivered: Position | None = None
    pending: Position | None = None


class PythonSink(FeedSink):
    """Python function as a second sink; a lock in the state lets one follower at a time call it.

    Args:
        feed: The declaration.
        loaded: The pipeline, in whose folder the function's module may be.
        folder: Folder of the feed in the state.

    Raises:
        InputError: The function can't be imported.
    """

    form = "arrow"

    def __init__(self, feed: PythonFeed, loaded: LoadedPipeline, folder: Folder) -> None:
        self._feed, self._loaded, self._folder = feed, loaded, folder
        # Unlike other functions it takes two arguments.
        self._function: Callable[..., Any] = load_function(loaded, "function", feed.function)
        self._lock: Lock | None = None

    def close(self) -> None:
        """Release the lock against other followers."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def held(self, columns: pa.Schema) -> Held:
        """Return the position in the state, after taking the lock against other followers.

        Args:
            columns: Without effect.

        Raises:
            StateError: Another follower has the lock, or the state is damaged.
            UnavailableError: The state's store does not answer.
        """
        if self._lock is None:
            message = f"Another follower feeds `{self._feed.name}` now."
            self._lock = require_lock(self._folder, "feed", message)
        found = self._folder.read(_POSITION, Remembered) or Remembered()
        return Held(found.delivered, found.pending)

    def begin(self, position: Position) -> None:
        """Record the version whose changes are about to be passed to the function.

        Raises:
            StateError: The state can't be written.
            UnavailableError: The state's store does not answer.
        """
        found = self._folder.read(_POSITION, Remembered) or Remembered()
        self._folder.replace(_POSITION, found.model_copy(update={"pending": position}))

    def apply(self, rows: pa.RecordBatchReader, end: Position) -> None:
        """Call the function with the changes, in parts, then record the position.

        Raises:
            RunError: The function raised an error; the calls are repeated with the same rows.
            StateError: The state can't be written.
            UnavailableError: The state's store does not answer.
        """
        self._call(rows, end, is_load=False)

    def load(self, rows: pa.RecordBatchReader, end: Position) -> None:
        """Call the function with all rows of the table, in parts, then record the position.

        Raises:
            RunError: The function raised an error; the load begins again.
            StateError: The state can't be written.
            UnavailableError: The state's store does not answer.
        """
        self._folder.replace(_POSITION, Remembered())
        self._call(rows, end, is_load=True)

    def _call(self, rows: pa.RecordBatchReader, end: Position, *, is_load: bool) -> None:
        for part, (batch, is_last) in enumerate(_with_last(rows)):
            table = pa.Table.from_batches([batch] if batch else [], rows.schema)
            delivery = Delivery(self._feed.name, end.number, is_load, part, is_last)
            try:
                self._function(table, delivery)
            # It is the user's code, which may raise anything.
            except Exception as error:
                module = self._feed.function.partition(":")[0]
                place = find_line(self._loaded, module, error)
                where = "" if place is None else f"{place}: "
                message = (
                    f"{where}`{self._feed.function}` of feed `{self._feed.name}` failed at part "
                    f"{part} of version {end.number}: {type(error).__name__}: {error}."
                )
                hint = (
                    "Correct the function. The delivery is repeated with the same rows, from its "
                    f"first part on. {AGAIN}"
                )
                raise RunError(message, hint, pipeline=self._loaded.pipeline.name) from error
        self._folder.replace(_POSITION, Remembered(delivered=end))


def _with_last(rows: pa.RecordBatchReader) -> Iterator[tuple[pa.RecordBatch | None, bool]]:
    """Yield each batch and whether it is the last one; one without rows if there is none."""
    before = None
    for batch in rows:
        if before is not None:
            yield before, False
        before = batch
    yield before, True
