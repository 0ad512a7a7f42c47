"""Whether a topic is the log that history's offsets belong to: its records at these offsets.

A topic that was created again, and a mirror, have other records there. Only what is surely a
contradiction is refused; a record that is gone or can't be decoded shows nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Literal, NoReturn

from hybrid_extensions.held_offsets.last_rows import SAMPLE, digests, milliseconds, sampled
from sources.common.counting import counted
from sources.common.positions import EndPosition, HeldRow, Offsets, TopicPartition
from sources.common.sql.select import OnlySparkError
from sources.common.times import iso, now_ms
from sources.common.topic_log import Log, LogRecord
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.errors import ErrorFields, SeamError
from sources.kafka.client.kafka_errors import NEW_GENERATION
from sources.kafka.client.sampled_event_times import dated_records, decode_records
from sources.kafka.start.gaps import CLOSE_MS

Verdict = Literal["same", "unsure", "other"]
_ZONE_MS, _ZONES_MS = 15 * 60_000, 14 * 3_600_000
"""Time zones differ by whole quarters of an hour, from UTC by up to 14 hours."""


def compare_log(
    pipeline: Pipeline,
    source: KafkaSource,
    read: Mapping[str, str],
    log: Log,
    ends: Sequence[EndPosition],
) -> list[str]:
    """Compare a few records of a topic with what history holds at their offsets.

    With the last rows of history where its files show them. Otherwise no record that history holds
    may be later than all of history; none that lies before a database snapshot may be later than
    it. Arguments, result and errors are those of :func:`sources.files.held_offsets.check_same_log`.
    """
    compared = _Compared(pipeline, source, read, log, ends)
    try:
        return compared.rows() if compared.held.rows else compared.last_records()
    except OnlySparkError:
        return []


def judge(row: HeldRow, time_ms: int, found: Mapping[str, str], *, by_key: bool) -> Verdict:
    """Judge whether a row of history and the record at its offset are the same.

    Args:
        row: The row.
        time_ms: Event time of the record, in Unix milliseconds.
        found: Digests of the record's values, by column; of some columns that the row has.
        by_key: Whether these columns are of the pipeline's key.

    Returns:
        ``other`` if event times differ, other values too, and no common way to write times explains
        it; ``unsure`` if only one of the two differs; else ``same``.
    """
    gap_ms = abs(row.event_time_ms - time_ms)
    differs = any(row.digests[name] != digest for name, digest in found.items())
    # Of Parquet's microseconds and a text's nanoseconds one may be rounded.
    if gap_ms <= 1:
        return "unsure" if differs and by_key else "same"
    if _is_cut(row.event_time_ms, time_ms):
        return "unsure" if differs or not found else "same"
    is_zone = gap_ms % _ZONE_MS == 0 and gap_ms <= _ZONES_MS
    is_explained = (is_zone and not by_key) or (found and not differs)
    return "unsure" if is_explained else "other"


def _is_cut(one_ms: int, other_ms: int) -> bool:
    """Return whether two times may be the same, one of them in seconds, minutes, hours or days."""
    gap_ms, units = abs(one_ms - other_ms), (1000, 60_000, 3_600_000, 86_400_000)
    return any(gap_ms < unit and not (one_ms % unit and other_ms % unit) for unit in units)


class _Compared:
    """Comparison of a topic with the end of history; arguments as of :func:`compare_log`."""

    def __init__(
        self,
        pipeline: Pipeline,
        source: KafkaSource,
        read: Mapping[str, str],
        log: Log,
        ends: Sequence[EndPosition],
    ) -> None:
        self._pipeline = pipeline
        self._source = source
        self._read = read
        self._log = log
        self._ends = ends
        assert ends[-1].exact_offsets is not None  # what the caller asks about
        self.held = ends[-1].exact_offsets

    def rows(self) -> list[str]:
        """Compare the last rows of history with the records at their offsets."""
        rows = {(_place(row), row.offset): row for row in self.held.rows}
        first: Offsets = {}
        for at, offset in rows:
            first[at] = min(offset, first.get(at, offset))
        records = self._records(first)
        event_time, select = self._pipeline.event_time.column, self._source.selection
        columns = [
            name for name in self.held.rows[0].digests if select.inputs(name) <= self._read.keys()
        ]
        decoded, values = decode_records(self._source, self._read, [event_time, *columns], records)
        if not decoded:
            return []
        times = milliseconds(values[0])
        texts = [digests(each) for each in values[1:]]
        by_key = bool(columns) and set(columns) <= set(self._pipeline.key)
        judged = []
        for number, record in enumerate(decoded):
            row, time_ms = rows.get((record.partition, record.offset)), times[number]
            if row is not None and time_ms is not None:
                found = {name: text[number] for name, text in zip(columns, texts, strict=True)}
                judged.append((row, time_ms, judge(row, time_ms, found, by_key=by_key)))
        return self._conclude(judged, columns)

    def last_records(self) -> list[str]:
        """Compare the last record of each partition that history holds with the end of history."""
        end, event_time = self._ends[-1], self._pipeline.event_time
        history = self._pipeline.source(end.source)
        taken = [each.snapshot.taken_ms for each in self._ends if each.snapshot is not None]
        # The ids of a bounded topic were compared. An export may leave out its last records, and
        # rows of a table may have been deleted since.
        if not isinstance(history, FileSource) or not (taken or history.offsets == "names"):
            return []
        last = {at: after - 1 for at, after in self.held.next.items() if after > 0}
        records = self._records({at: last[at] for at in sampled(last)})
        close_ms = max(self._pipeline.lateness_ms, CLOSE_MS)
        if taken:
            latest_ms, time = max(taken), "timestamp"
            dated = [(record, record.timestamp_ms) for record in records]
            reached = "the snapshot was taken at"
        else:
            low_ms, high_ms = event_time.bounds_ms(now_ms())
            dated = dated_records(self._source, self._read, event_time.column, records)
            dated = [(record, ms) for record, ms in dated if low_ms <= ms <= high_ms]
            latest_ms, time = max(each.event_time_ms for each in self._ends), "event time"
            reached = "its highest event time is"
        late = [(record, ms) for record, ms in dated if ms > latest_ms + close_ms]
        if not late:
            return []
        record, ms = min(late, key=lambda each: each[0].partition)
        message = (
            f"Source `{self._source.name}` would start after the offsets that source "
            f"`{end.source}` holds, but they {{}} of another log: the record at offset "
            f"{record.offset} of {record.partition} has the {time} {iso(ms)}, and `{end.source}`, "
            f"which would hold it, ends before: {reached} {iso(latest_ms)}{_more(len(late))}."
        )
        if all(each.event_times == "exact" for each in self._ends):
            self._refuse(message.format("are"), record.partition, record.offset)
        return [f"{message.format('may be')} Its event times are sampled, so this is not sure."]

    def _records(self, first: Offsets) -> list[LogRecord]:
        """Read the records that the log still has, from an offset to history's end."""
        starts, ends = self._log.log_start(), self._log.log_end()
        # Of a partition that history holds and the topic does not have, others speak.
        since = {at: max(offset, starts[at]) for at, offset in first.items() if at in starts}
        until = {at: min(self.held.next[at], ends[at]) for at in since}
        left = {at: offset for at, offset in since.items() if offset < until[at]}
        return self._log.read(left, SAMPLE, until)

    def _conclude(
        self, judged: Sequence[tuple[HeldRow, int, Verdict]], columns: Sequence[str]
    ) -> list[str]:
        """Let the last row that is decisive speak for its partition."""
        others, unsure = [], []
        ranked = sorted(judged, key=lambda each: (*_place(each[0]), each[0].offset))
        for _, part in groupby(ranked, lambda each: _place(each[0])):
            some = list(part)
            decisive = [each for each in some if each[2] != "unsure"]
            if decisive and decisive[-1][2] == "other":
                others.append(decisive[-1])
            elif some[-1][2] == "unsure":
                unsure.append(some[-1])
        what = f" and other values in {', '.join(f'`{each}`' for each in columns)}"
        if others:
            row, time_ms, _ = others[0]
            at = _place(row)
            message = (
                f"Source `{self._source.name}` would start after the offsets in the files of "
                f"source `{self._ends[-1].source}`, but they are of another log: at offset "
                f"{row.offset} of {at}, file {row.file} has the event time "
                f"{iso(row.event_time_ms)}, and the topic has {iso(time_ms)}"
                f"{what if columns else ''}{_more(len(others))}."
            )
            self._refuse(message, at, row.offset, row.file)
        if not unsure:
            return []
        row, time_ms, _ = unsure[0]
        return [
            f"At offset {row.offset} of {_place(row)}, file {row.file} has the event time "
            f"{iso(row.event_time_ms)}, and the topic has {iso(time_ms)}, while only some values "
            f"differ{_more(len(unsure))}: one row that was written in two ways, or two rows of "
            "different logs. Compare them: offsets of another log lead to a wrong start."
        ]

    def _refuse(self, message: str, at: TopicPartition, offset: int, file: str = "") -> NoReturn:
        name = self._ends[-1].source
        hint = (
            "A topic that was created again, or a mirror, has other offsets: remove `offsets` "
            f"from source `{name}`, so that the topic starts by event time, or let source "
            f"`{self._source.name}` read the topic that the files were written from. If it is the "
            "same log, and the files hold other values than its records, declare the offsets "
            "themselves: `start: {offsets: …}`. If the pipeline is planned already, "
            f"{NEW_GENERATION}"
        )
        if self._ends[-1].snapshot is not None:
            hint = (
                f"The topic was created again after `{name}` was taken, or `bootstrap_servers` "
                f"leads to another cluster. Correct that, or take `{name}` again: {NEW_GENERATION}"
            )
        topic, number = at
        fields = ErrorFields(source=self._source.name, topic=topic, partition=number, offset=offset)
        if file:
            fields["file"] = file
        raise SeamError(message, hint, **fields)


def _place(row: HeldRow) -> TopicPartition:
    return TopicPartition(row.topic, row.partition)


def _more(count: int) -> str:
    return f" (and so in {counted(count - 1, 'other partition')})" if count > 1 else ""
