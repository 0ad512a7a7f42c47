"""Segments of a change log: Parquet files with dense offsets by topic; found by offset or time.

A segment's number follows that of the one before. It is put only if it is absent, so of two writers
one is refused. Each topic's records have dense offsets; a segment says of all topics where they
begin and end in it, so the place of an offset is found by bisection.
"""

from __future__ import annotations

import json
import threading
import uuid
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sources.common.times import now_ms
from sources.errors import StateError, UnavailableError
from sources.storage.folder import Folder

_FOLDER = "segments"
_IDENTITY = "identity"
_META = b"hybrid.segment"
_CACHED = 1024
"""How many segments are known at once, and records of how many are kept."""
_CACHED_BYTES = 64 << 20
_READ = ("at_ms", "key", "value")
_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("offset", pa.int64()),
        ("at_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


class Change(NamedTuple):
    """A record of the log: a topic's name, its key and its value."""

    topic: str
    key: bytes | None
    value: bytes | None


class Rows(NamedTuple):
    """Records of one topic with dense offsets.

    Attributes:
        first: Offset of the first one.
        at_ms: When each was written, in Unix milliseconds.
        keys: Key of each; None without one.
        values: Value of each; None for a tombstone.
    """

    first: int
    at_ms: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]


class Segment(NamedTuple):
    """Metadata of a segment, which its file has.

    Attributes:
        number: Its number.
        at_ms: When it was written, never before the previous one, in Unix milliseconds.
        begins: First offset of each topic in or after it.
        ends: Offset after the last one of each topic.
        position: How far the database's log was read when it was written, as the writer keeps it.
    """

    number: int
    at_ms: int
    begins: dict[str, int]
    ends: dict[str, int]
    position: dict[str, Any]


@contextmanager
def retried(folder: Folder) -> Iterator[None]:
    """Raise an OSError in the body of ``with`` as an UnavailableError, which is tried again.

    Other errors pass unchanged.
    """
    try:
        yield
    except OSError as error:
        message = f"The change log {folder} can't be written: {error.strerror or error}."
        hint = "Free space on its disk, or make the folder writable; it is tried again."
        raise UnavailableError(message, hint, file=folder.url) from error


class Segments:
    """The segments of a log, for one writer and several readers (threads).

    Args:
        folder: Folder of the log; the constructor writes the log's identity to an empty one.

    Attributes:
        identity: Id of this log, which another log in the same folder does not share.
        first: Number of the first segment that is there.
        last: The last segment; its number is -1 if there is none.

    Raises:
        StateError: A segment between the first and the last one is missing, so changes are lost.
        UnavailableError: The folder can't be written, or its store does not answer.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._known: OrderedDict[int, Segment] = OrderedDict()
        # With the size of each: to ask all of them for theirs at each append would take long.
        self._tables: OrderedDict[int, tuple[pa.Table, int]] = OrderedDict()
        self._tables_bytes = 0
        with retried(folder):
            made = uuid.uuid4().hex.encode()
            folder.documents.put_if_absent(folder.location(_IDENTITY), made)
        self.identity = (folder.read_bytes(_IDENTITY) or made).decode()
        numbers = [_number(name) for name in folder.names(f"{_FOLDER}/*.parquet")]
        self.first = numbers[0] if numbers else 0
        self.last = self.of(numbers[-1]) if numbers else Segment(-1, 0, {}, {}, {})
        if numbers and len(numbers) != self.last.number - self.first + 1:
            gone = sorted(set(range(self.first, self.last.number)) - set(numbers))
            message = f"Segment {gone[0]} of the change log {folder} is gone: changes are missing."
            hint = "Restore it; or begin a new log in an empty folder, with a new snapshot."
            raise StateError(message, hint, file=_name(gone[0]))

    def append(self, changes: list[Change], position: Mapping[str, Any]) -> Segment:
        """Write the next segment durably.

        Args:
            changes: Its records, of each topic in order.
            position: How far the database's log was read with them.

        Raises:
            StateError: Another process has written this segment.
            UnavailableError: The folder can't be written, or its store does not answer.
        """
        at_ms = max(now_ms(), self.last.at_ms)
        ends, topics = dict(self.last.ends), [each.topic for each in changes]
        offsets = []
        for topic in topics:
            offsets.append(ends.get(topic, 0))
            ends[topic] = offsets[-1] + 1
        begins = {topic: self.last.ends.get(topic, 0) for topic in ends}
        made = Segment(self.last.number + 1, at_ms, begins, ends, dict(position))
        columns = [
            topics,
            offsets,
            [at_ms] * len(changes),
            [each.key for each in changes],
            [each.value for each in changes],
        ]
        arrays = [pa.array(data, kind) for data, kind in zip(columns, _SCHEMA.types, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=_SCHEMA)
        meta = {_META: json.dumps(made._asdict()).encode()}
        out = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata(meta), out, compression="zstd")
        name = _name(made.number)
        with retried(self._folder):
            put = self._folder.documents.put_if_absent(
                self._folder.location(name), out.getvalue().to_pybytes()
            )
        if put is None:
            message = f"Segment {made.number} of {self._folder} was written by another process."
            hint = "Let one process write a change log: end the other one, then start this again."
            raise StateError(message, hint, file=name)
        self._keep(made, table)
        self.last = made
        return made

    def refresh(self) -> None:
        """Find segments that were written although the store reported a failure to their writer.

        Raises:
            StateError: One can't be read.
            UnavailableError: The store does not answer.
        """
        while self._folder.exists(_name(self.last.number + 1)):
            self.last = self.of(self.last.number + 1)

    def delete_before(self, at_ms: int) -> None:
        """Delete segments that were written before a time, but never the last one.

        Args:
            at_ms: The time, in Unix milliseconds.

        Raises:
            StateError: One can't be read, or can't be deleted.
            UnavailableError: The store does not answer.
        """
        while self.first < self.last.number and self.of(self.first).at_ms < at_ms:
            # Readers see the new beginning first.
            self.first += 1
            self._folder.delete(_name(self.first - 1))

    def start(self, topic: str) -> int:
        """Return the first offset of a topic that is still there, or will be next.

        0 for an unknown topic.

        Raises:
            StateError: A segment's file is gone.
        """
        return 0 if self.last.number < 0 else self.of(self.first).begins.get(topic, 0)

    def end(self, topic: str) -> int:
        """Return the offset that a topic's next record gets.

        0 for a topic without records, also an unknown one.
        """
        return self.last.ends.get(topic, 0)

    def newest_ms(self, topic: str) -> int:
        """Return when a topic's last record was written, in Unix milliseconds; -1 without any.

        Raises:
            StateError: A segment's file is gone.
        """
        if self.start(topic) == self.end(topic):
            return -1
        return self.read(topic, self.end(topic) - 1).at_ms[0]

    def offset_at(self, topic: str, at_ms: int) -> tuple[int, int] | None:
        """Return time (Unix ms) and offset of the first record written at or after a time.

        None if the topic has no record from then on.

        Raises:
            StateError: A segment's file is gone.
        """
        numbers = range(self.first, self.last.number + 1)
        found = bisect_left(numbers, at_ms, key=lambda number: self.of(number).at_ms)
        if found == len(numbers):
            return None
        offset = self.of(numbers[found]).begins.get(topic, 0)
        if offset >= self.end(topic):
            return None
        return self.read(topic, offset).at_ms[0], offset

    def read(self, topic: str, offset: int, most_bytes: int = 1) -> Rows:
        """Return records of a topic from an offset on, of one segment.

        The caller asks again for those after it.

        Args:
            topic: Name of the topic.
            offset: Offset of the first one, which has to be there.
            most_bytes: About how many bytes are wanted; it is one record at least.

        Raises:
            StateError: A segment's file is gone.
        """
        numbers = range(self.first, self.last.number + 1)
        ends = bisect_left(
            numbers, offset + 1, key=lambda number: self.of(number).ends.get(topic, 0)
        )
        segment = self.of(numbers[ends])
        begin, table = segment.begins[topic], self._table(segment.number)
        rows = table.filter(pc.equal(table["topic"], topic)).slice(offset - begin)
        count = most_bytes * len(rows) // max(rows.nbytes, 1)
        columns = (rows.slice(0, max(count, 1))[name].to_pylist() for name in _READ)
        return Rows(offset, *columns)

    def of(self, number: int) -> Segment:
        """Return the metadata of a segment, from memory or from its file; no record is read.

        Raises:
            StateError: The segment's file is gone.
        """
        with self._lock:
            if number not in self._known:
                self._read(number)
            # What was not asked for for longest is forgotten first.
            self._known.move_to_end(number)
            return self._known[number]

    def _table(self, number: int) -> pa.Table:
        with self._lock:
            if number not in self._tables:
                self._read(number)
            self._tables.move_to_end(number)
            return self._tables[number][0]

    def _read(self, number: int) -> None:
        data = self._folder.read_bytes(_name(number))
        if data is None:
            message = f"Segment {number} of the change log {self._folder} is gone."
            hint = "Restore it; or begin a new log in an empty folder, with a new snapshot."
            raise StateError(message, hint, file=_name(number))
        table = pq.read_table(pa.BufferReader(data))
        self._keep(Segment(**json.loads(table.schema.metadata[_META])), table)

    def _keep(self, segment: Segment, table: pa.Table) -> None:
        number, size = segment.number, table.nbytes
        with self._lock:
            self._known[number] = segment
            while len(self._known) > _CACHED:
                self._known.popitem(last=False)
            _, before = self._tables.pop(number, (None, 0))
            self._tables[number] = table, size
            self._tables_bytes += size - before
            while len(self._tables) > 1 and (
                self._tables_bytes > _CACHED_BYTES or len(self._tables) > _CACHED
            ):
                _, (_, gone) = self._tables.popitem(last=False)
                self._tables_bytes -= gone


def _name(number: int) -> str:
    return f"{_FOLDER}/{number:012d}.parquet"


def _number(name: str) -> int:
    return int(name.rpartition("/")[2].removesuffix(".parquet"))
