"""Writer of a change log: which changes of a batch are kept, each once; what is acknowledged."""

from __future__ import annotations

import time
from collections.abc import Sequence as Items
from typing import Any

from hybrid_extensions.change_log.engine import Sent
from hybrid_extensions.change_log.position import (
    Position,
    Sequence,
    group_of,
    is_known,
    start_at,
)
from hybrid_extensions.change_log.segments import Change, Segments, retried
from sources.common.state_document import Record
from sources.storage.folder import Folder

_POSITION = "position.json"
_EVERY_S = 10.0


class LogPosition(Record):
    """State document: how far the database's log was read after the last segment.

    Written while there is no change to keep, at most every 10 s. A newer segment has its own
    position.

    Attributes:
        after: Number of that segment; -1 if there is none.
        partition: Debezium's name of the database.
        start: Offset from which the engine continues.
    """

    after: int
    partition: dict[str, Any]
    start: dict[str, Any]


class Writer:
    """The only writer of a log, for one run of the engine.

    Args:
        segments: The log.
        folder: Its folder.
        heartbeats: Begin of the names of topics whose records are not kept.

    Attributes:
        position: How far the database's log was read; None for a log that was never begun.
    """

    def __init__(self, segments: Segments, folder: Folder, heartbeats: str) -> None:
        self._segments, self._folder, self._heartbeats = segments, folder, heartbeats
        self._sequence = Sequence()
        self._last: Position | None = None
        self._written = 0.0
        self.position = folder.read(_POSITION, LogPosition)
        found = segments.last.position
        if found and (self.position is None or self.position.after < segments.last.number):
            self.position = LogPosition(
                after=segments.last.number, partition=found["partition"], start=found["start"]
            )
        if self.position is not None and found.get("last") is not None:
            group, place = found["last"]
            self._last = Position(tuple(group), tuple(place))

    def begin(self, partition: dict[str, Any], start: dict[str, Any]) -> None:
        """Record where an empty log begins, before the engine sends anything.

        Args:
            partition: Debezium's name of the database.
            start: Debezium's offset to begin at.

        Raises:
            UnavailableError: The folder can't be written.
        """
        self._move(partition, start_at(start))

    def take(self, batch: Items[Sent]) -> int:
        """Write a batch durably, without heartbeats and changes that the log has already.

        Args:
            batch: Records in the engine's order, at least one.

        Returns:
            Index of the last record that may be acknowledged; -1 if none.

        Raises:
            StateError: The folder has another writer.
            UnavailableError: The folder can't be written, or its store does not answer.
        """
        changes, last = [], self._last
        least = None if self.position is None else self.position.start
        for sent in batch:
            if sent.topic.startswith(self._heartbeats):
                continue
            position = self._sequence.next(sent.offset)
            if not is_known(position, last):
                changes.append(Change(sent.topic, sent.key, sent.value))
                last, least = position, start_at(sent.offset)
        end = batch[-1]
        start = start_at(end.offset)
        if least is not None and group_of(start) < group_of(least):
            # A heartbeat before the first transaction of a binary log has the begin of its file.
            start = least
        if changes:
            ended = {"partition": end.partition, "start": start, "last": last}
            made = self._segments.append(changes, ended)
            self.position = LogPosition(after=made.number, partition=end.partition, start=start)
        elif self.position is None or group_of(self.position.start) != group_of(start):
            if self.position is not None and time.monotonic() - self._written < _EVERY_S:
                return -1
            self._move(end.partition, start)
        self._last = last
        return len(batch) - 1

    def _move(self, partition: dict[str, Any], start: dict[str, Any]) -> None:
        after = self._segments.last.number
        self.position = LogPosition(after=after, partition=partition, start=start)
        with retried(self._folder):
            data = self.position.model_dump_json().encode()
            self._folder.documents.put(self._folder.location(_POSITION), data)
        self._written = time.monotonic()
