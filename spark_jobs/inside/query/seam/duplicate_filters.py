"""Duplicates in the seam: removed by key, event time or log position; possible updates refused.

The seam is an interval of offsets, from the start offsets to the log ends read when history was
last listed. Inside it a live row is dropped if history holds its key; or, without a key, if its
event time is not later than history's end. Only the keys of history's most recent event times are
compared; they are kept next to the checkpoint. A row of the seam that is older than these is rare:
the query fails at the first one, its rows are looked up in all of history, and it is restarted.

A row whose key history holds with other content may be an update. Nothing tells which of the two
is later, so it is refused, never dropped: next to each key the hashes of its rows are kept.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.database_snapshot import DatabaseSnapshot
from sources.common.shard_snapshots import ShardSnapshots
from sources.common.sql.sql_names import in_backticks
from sources.common.times import iso
from sources.errors import SeamError
from sources.storage.folder import Folder
from spark_jobs.inside.query.seam.row_cache import KeptRows, find_kept, publish_rows, write_rows
from spark_jobs.inside.query.seam.row_content import content_of
from spark_jobs.inside.query.seam.rows_in_seam import is_in_seam
from spark_jobs.inside.readers.topics.kafka_stream import LOG_COLUMNS
from spark_jobs.inside.readers.topics.record_errors import raise_at_record

KEYS = "keys"  # with the hashes of their rows
RECENT = "recent"  # the rows themselves
_OLDER = "older"
IS_NEW = "__is_new"
_IS_OLDER = "__is_older"
_CONTENTS = "__contents"
_SAME = "__same"
_KEY_TEXT = "__key_text"
MOST_BROADCAST = 1_000_000
"""Keys up to which they are compared in memory; each takes about 150 bytes of it."""
# By the folder of the keys: pipelines that share a driver do not wait for each other.
_KEEPING: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def kept_name(column: str) -> str:
    """Return the name that a column of the key has in the keys which the filter keeps."""
    return f"__{column}"


class OlderThanKeysError(SeamError):
    """Error of a query that met a row of the seam older than the keys kept of history.

    Not a failure: the driver looks such rows up in all of history and restarts the query.
    """

    kind = "older_than_seam_keys"
    transient = True


_CHANGED = "has the key of a row of history but other values, so it may be an update of that row"
_CHANGED_HINT = (
    "Nothing tells which of the two rows is later. Declare `sink.sequence`, the column that orders "
    "the changes of one key; or put the column with a row's version into the pipeline's `key`. If "
    "rows of one key never change, and files and topic only write them differently, declare "
    "`seam_filter: key`; with `seam_filter: off`, rows that are in both come twice. These take "
    "effect in a new generation: `hybrid generation new P`. No row of this micro-batch was written."
)


_NEW_SNAPSHOT_HINT = (
    "Take a new snapshot into a folder of its own (`hybrid snapshot P`, after naming the folder in "
    "the file source), then begin a new generation: `hybrid generation new P`."
)


class HeldConditions(NamedTuple):
    """Conditions of a filter in SQL, which Spark and DuckDB evaluate alike.

    Attributes:
        columns: Names of the columns that they read.
        held: Whether history contains a row; never null.
        refused: Why the row must end the run, a sentence, with its condition; null is false.
    """

    columns: Sequence[str]
    held: str
    refused: Mapping[str, str] = MappingProxyType({})


class SeamFilter(ABC):
    """Filter of the seam: it marks the rows of the topic that history contains, to be removed."""

    @abstractmethod
    def mark(self, live: DataFrame) -> DataFrame:
        """Add a boolean column :data:`IS_NEW`, false for rows that history contains; keep all rows.

        Args:
            live: Parsed rows with their topic, partition and offset (:data:`LOG_COLUMNS`). A filter
                that ends with the seam needs the columns of :meth:`SeamOffsets.mark`, too.
        """

    def conditions(self, quote: Callable[[str], str]) -> HeldConditions | None:
        """Return the filter's conditions on a row, in SQL; None if other rows are needed to decide.

        Args:
            quote: Quotes the name of a column, for Spark or for DuckDB.
        """
        return None


class SequenceFilter(SeamFilter):
    """Filter that drops changes that the snapshot contains: at or before its log position.

    It stays in the query for ever: a connector that lags may append such a change at any time, and
    one comparison costs nothing.

    Args:
        column: Name of the column with a row's log position; rows without one are kept.
        sequence: Log position of the snapshot.
    """

    def __init__(self, column: str, sequence: int) -> None:
        self._column = column
        self._sequence = sequence

    def mark(self, live: DataFrame) -> DataFrame:
        """Add ``IS_NEW``: true for rows whose log position is after the snapshot's, or null."""
        return live.withColumn(IS_NEW, ~F.expr(self.conditions(in_backticks).held))

    def conditions(self, quote: Callable[[str], str]) -> HeldConditions:
        """Return the condition that a row's log position is the snapshot's or before it, in SQL."""
        held = f"coalesce({quote(self._column)} <= {self._sequence}, false)"
        return HeldConditions([self._column], held)


class SnapshotFilter(SeamFilter):
    """Filter that drops changes visible to a database snapshot, whatever their log position.

    It stays in the query for ever: a connector that lags may append such a change at any time.

    Args:
        columns: Columns of the rows, by the part of the record that fills them.
        snapshot: Which changes the snapshot contains.
    """

    def __init__(
        self, columns: Mapping[Any, str], snapshot: DatabaseSnapshot | ShardSnapshots
    ) -> None:
        self._columns = columns
        self._snapshot = snapshot

    def mark(self, live: DataFrame) -> DataFrame:
        """Add ``IS_NEW``: true for the changes that the snapshot does not contain.

        A connector that has lost its position takes a new snapshot of its own, and no record
        reports what was deleted in between. So its first record fails the query with a
        :class:`SeamError`, as does a change whose order is not known.
        """
        _, held, refused_for = self.conditions(in_backticks)
        checked = F.lit(True)
        for reason, condition in refused_for.items():
            refused = raise_at_record(SeamError, F.lit(reason), _NEW_SNAPSHOT_HINT)
            checked = F.when(F.expr(condition), refused.cast("boolean")).otherwise(checked)
        return live.withColumn(IS_NEW, ~F.expr(held) & checked)

    def conditions(self, quote: Callable[[str], str]) -> HeldConditions:
        """Return in SQL which changes the snapshot contains, and which have to end the run."""
        columns = {part: quote(name) for part, name in self._columns.items()}
        held, refused = self._snapshot.holds(columns), self._snapshot.refusals(columns)
        read = [
            self._columns[part]
            for part, name in columns.items()
            if any(name in condition for condition in (held, *refused.values()))
        ]
        return HeldConditions(read, held, refused)


class EventTimeFilter(SeamFilter):
    """Filter that drops live rows of the seam that are not later than history's end.

    Args:
        column: Name of the event-time column; rows without an event time are kept.
        end_ms: Highest event time of history, in ms.
    """

    def __init__(self, column: str, end_ms: int) -> None:
        self._column = column
        # Event times have microseconds; the end was truncated to milliseconds.
        self._after = F.timestamp_millis(F.lit(end_ms + 1))

    def mark(self, live: DataFrame) -> DataFrame:
        """Add ``IS_NEW``: true for rows beyond the seam, or with an event time after history's end.

        Also for rows without an event time. Needs the columns of :meth:`SeamOffsets.mark`.
        """
        is_held = is_in_seam() & (F.col(in_backticks(self._column)) < self._after)
        return live.withColumn(IS_NEW, ~F.coalesce(is_held, F.lit(False)))


@dataclass(frozen=True)
class KeyColumns:
    """Columns by which the seam filter recognizes rows of a topic that history contains.

    Attributes:
        key: Columns that identify a row.
        compared: Columns whose values must be those of a row of history with the same key; empty if
            the key alone decides.
        event_time: Name of the event-time column.
    """

    key: Sequence[str]
    compared: Collection[str]
    event_time: str

    @property
    def all(self) -> set[str]:
        """All columns that recognition needs: key, compared columns and event time."""
        return {*self.key, *self.compared, self.event_time}


class KeyFilter(SeamFilter):
    """Filter that drops rows of the seam whose key is in history; others with that key fail it.

    Args:
        folder: Where the keys are kept, next to the checkpoint.
        history: All bounded sources before the topic, as one batch.
        columns: Columns by which a row is recognized.
        keys_from_ms: Keys of rows before this event time (ms) are not kept.
        table: The same rows, read from the table that has them; None if it may have others.
        recent: Those of them whose keys are compared, few, so that keys need not be kept; or None.
    """

    def __init__(
        self,
        folder: Folder,
        history: DataFrame,
        columns: KeyColumns,
        *,
        keys_from_ms: int,
        table: DataFrame | None = None,
        recent: DataFrame | None = None,
    ) -> None:
        self._folder = folder
        self._history = history
        self._table = history if table is None else table
        self._recent = recent
        self._key = columns.key
        self._compared = [field for field in history.schema if field.name in columns.compared]
        self._event_time = columns.event_time
        self._keys_from = F.timestamp_millis(F.lit(keys_from_ms))
        self._keys_from_ms = keys_from_ms

    def mark(self, live: DataFrame) -> DataFrame:
        """Add ``IS_NEW``: true for rows beyond the seam, and for those that are not in history.

        Writes the keys of history first if they are not kept yet. The query fails with
        :class:`OlderThanKeysError` at the first row of the seam that is older than the kept keys,
        unless :meth:`look_up_older` was called before; and with a :class:`SeamError` at the first
        row whose key history holds with other values only.

        Raises:
            StateError: The document of the kept keys is damaged, or the state can't be written.
            UnavailableError: The state's store does not answer.
        """
        if self._recent is not None:
            # In one task, as they are few and each micro-batch groups them again.
            return self._marked(live, F.broadcast(self._grouped(self._recent.coalesce(1))))
        kept = self.keep()
        # A broadcast table has to fit into memory, the driver's first; a sort can spill.
        way = "broadcast" if kept.rows <= MOST_BROADCAST else "merge"
        schema = self._grouped(self._history).schema
        return self._marked(live, kept.read(live.sparkSession, self._folder, schema).hint(way))

    def _marked(self, live: DataFrame, keys: DataFrame) -> DataFrame:
        is_held = self._matches(live, keys) & is_in_seam()
        # Each key is kept once, so no row is doubled.
        found = live.join(keys, is_held, "left")
        is_known = F.col(_CONTENTS).isNotNull()
        is_same = F.array_contains(_CONTENTS, content_of(self._compared))
        refused = raise_at_record(SeamError, self._changed(), _CHANGED_HINT).cast("boolean")
        # Of older rows not all of history's versions are kept.
        remains = (
            F.when(is_known & is_same, F.lit(False))
            .when(is_known & ~F.coalesce(self._is_older(), F.lit(False)), refused)
            .otherwise(F.lit(True))
        )
        found = found.select(*map(in_backticks, live.columns), remains.alias(IS_NEW))
        older = find_kept(self._folder, _OLDER)
        if older is None:
            is_new = F.col(IS_NEW) & self._is_recent()
            return found.withColumn(IS_NEW, is_new)
        known = older.read(live.sparkSession, self._folder)
        places = [F.col(name).alias(f"{name}_known") for name in LOG_COLUMNS]
        # Each place in the log is kept once, so no row is doubled.
        known = known.select(*places, F.lit(True).alias(_IS_OLDER))
        same = [found[name] == known[f"{name}_known"] for name in LOG_COLUMNS]
        both = found.join(
            F.broadcast(known), reduce(lambda left, right: left & right, same), "left"
        )
        is_new = F.col(IS_NEW) & F.col(_IS_OLDER).isNull()
        return both.select(*map(in_backticks, live.columns), is_new.alias(IS_NEW))

    def look_up_older(self, seam: DataFrame) -> int:
        """Find the rows of the seam that are older than the kept keys and are in history.

        Called after a query failed with :class:`OlderThanKeysError`. Reads all of history once, and
        keeps the offsets of these rows, which :meth:`mark` then knows.

        Args:
            seam: All rows of the seam, parsed, with :data:`LOG_COLUMNS`.

        Returns:
            The number of these rows.

        Raises:
            SeamError: History holds the key of such a row with other values only.
        """
        older = seam.where(self._is_older())
        wanted = older.select(*map(in_backticks, self._key)).distinct()
        matches = [
            self._history[name].eqNullSafe(wanted[name]) for name in map(in_backticks, self._key)
        ]
        both = reduce(lambda left, right: left & right, matches)
        keys = self._grouped(self._history.join(wanted, both, "left_semi"))
        held = older.join(keys, self._matches(older, keys), "inner").select(
            *LOG_COLUMNS,
            F.array_contains(_CONTENTS, content_of(self._compared)).alias(_SAME),
            self._key_text().alias(_KEY_TEXT),
        )
        written = write_rows(self._folder, _OLDER, held)
        found = written.read(seam.sparkSession, self._folder)
        changed = found.where(~F.col(_SAME)).orderBy(*LOG_COLUMNS).first()
        if changed is not None:
            self._folder.folder(written.folder).delete_all()
            topic, partition, offset = (changed[name] for name in LOG_COLUMNS)
            message = (
                f"Topic `{topic}`, partition {partition}, offset {offset}: the row "
                f"{changed[_KEY_TEXT]} {_CHANGED}."
            )
            raise SeamError(message, _CHANGED_HINT, topic=topic, partition=partition, offset=offset)
        return publish_rows(self._folder, _OLDER, written).rows

    def keep(self) -> KeptRows:
        """Write the recent keys of history as Parquet unless they are kept; return them.

        Each key is there once, with the hashes of all its rows, as Parquet next to the checkpoint.
        The first call reads history and writes them there; meanwhile others of this driver wait.

        Raises:
            StateError: The document of the kept keys is damaged, or the state can't be written.
            UnavailableError: The state's store does not answer.
        """
        # The live query is built while the warm-up still looks the keys up, if history is short.
        with _KEEPING[self._folder.url]:
            kept = find_kept(self._folder, KEYS)
            if kept is not None:
                return kept
            # Rows without an event time may be in the seam, too.
            at = F.col(in_backticks(self._event_time))
            recent = self._table.where((at >= self._keys_from) | at.isNull())
            return publish_rows(
                self._folder, KEYS, write_rows(self._folder, KEYS, self._grouped(recent))
            )

    def _grouped(self, rows: DataFrame) -> DataFrame:
        """Return each key of some rows of history, renamed, with the hashes of its rows."""
        renamed = [F.col(in_backticks(name)).alias(kept_name(name)) for name in self._key]
        hashes = F.collect_set(content_of(self._compared)).alias(_CONTENTS)
        return rows.groupBy(*renamed).agg(hashes)

    def _matches(self, rows: DataFrame, keys: DataFrame) -> Column:
        matches = [
            rows[in_backticks(name)].eqNullSafe(keys[in_backticks(kept_name(name))])
            for name in self._key
        ]
        return reduce(lambda left, right: left & right, matches)

    def _changed(self) -> Column:
        return F.concat(F.lit("the row "), self._key_text(), F.lit(f" {_CHANGED}."))

    def _key_text(self) -> Column:
        return F.to_json(F.struct(*map(in_backticks, self._key)))

    def _is_older(self) -> Column:
        return F.col(in_backticks(self._event_time)) < self._keys_from

    def _is_recent(self) -> Column:
        """Return true; it fails at the first new row that is older than the kept keys."""
        refused = raise_at_record(
            OlderThanKeysError,
            F.lit(
                f"the row's event time is before {iso(self._keys_from_ms)}, and the keys kept of "
                "history begin there."
            ),
            "Nothing needs to be done: the driver looks the row up in all of history, then starts "
            "the query again.",
        )
        is_older = is_in_seam() & self._is_older()
        # A condition that can fail keeps Spark from dropping the branch as unused.
        return F.when(F.col(IS_NEW) & is_older, refused.cast("boolean")).otherwise(F.lit(True))
