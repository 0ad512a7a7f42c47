"""Check that the seam filter does not remove every row of the topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sources.common.positions import EndPosition, Offsets, StartPosition
from sources.common.sql.select import OnlySparkError
from sources.common.times import iso, now_ms
from sources.common.topic_log import Log
from sources.config.pipeline import Pipeline
from sources.config.source.event_time import EventTime
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.client.sampled_event_times import sampled_times
from sources.kafka.start.gaps import CLOSE_MS

_TAIL_RECORDS = 100


@dataclass(frozen=True)
class SeamOf:
    """A seam to be checked: the end of history, and the start of the topic after it.

    Attributes:
        ends: End positions of all sources before the topic, in order.
        start: Start position of the topic.
        seam_end: First offset of each partition beyond the seam.
    """

    ends: Sequence[EndPosition]
    start: StartPosition
    seam_end: Offsets

    @property
    def is_empty(self) -> bool:
        """Whether no offset lies in the seam."""
        starts = self.start.offsets()
        return all(starts.get(at, end) >= end for at, end in self.seam_end.items())


def check_event_time_filter(
    source: KafkaSource, read: Mapping[str, str], pipeline: Pipeline, log: Log, seam: SeamOf
) -> None:
    """Refuse to recognize delivered rows by event time if every row of the topic looks delivered.

    History then seems to end long after the newest event time among the topic's last records: by
    an hour and by ``allowed_lateness`` at least. A single row with a wrong clock is enough.

    Args:
        source: Declaration of the topic's source.
        read: All columns of a row before ``select``: names and Spark SQL types.
        pipeline: Declaration of the pipeline.
        log: Look-ups on the topics.
        seam: The seam that is filtered by event time.

    Raises:
        SeamError: The filter would remove every row, and ``on_gap`` is not ``accept``.
        UnavailableError: The broker, or the schema registry, does not answer.
        InputError: The broker refuses, or ``select`` can't be evaluated, or only by Spark.
    """
    if not seam.ends or seam.is_empty or source.on_gap == "accept":
        return
    try:
        newest_ms = _newest_event_ms(source, read, pipeline.event_time, log, seam.seam_end)
    except OnlySparkError as error:
        error.hint = (
            "Rows that history holds are recognized by their event times, as no `key` is declared. "
            f"Declare the pipeline's `key`. {error.hint}"
        )
        raise
    last = max(seam.ends, key=lambda end: end.event_time_ms)
    close_ms = max(pipeline.lateness_ms, CLOSE_MS)
    if newest_ms is None or last.event_time_ms - newest_ms <= close_ms:
        return
    end = iso(last.event_time_ms)
    message = (
        f"The seam filter would probably remove every row of topic {source.subscription}: no `key` "
        f"is declared, so rows at or before the end of history, {end}, count as delivered, and the "
        f"newest event time among the topic's last records is {iso(newest_ms)}."
    )
    hint = (
        f"A single row of source `{last.source}` with a wrong clock is enough. Leave such rows "
        "out: declare `not_after` under the pipeline's `event_time`. Or declare the pipeline's "
        "`key`, by which rows are compared. If history really holds all of these rows, declare "
        f"`on_gap: accept` for source `{source.name}`."
    )
    raise SeamError(message, hint, source=last.source, field="event_time.not_after", value=end)


def _newest_event_ms(
    source: KafkaSource, read: Mapping[str, str], event_time: EventTime, log: Log, seam_end: Offsets
) -> int | None:
    """Return the highest event time among the last records of each partition before the seam's end.

    Only some records are read, so the true highest one may be above it; None without any. Times
    outside of the bounds do not count.
    """
    begun, ends = log.log_start(), log.log_end()
    each = max(_TAIL_RECORDS // max(len(seam_end), 1), 1)
    until = {at: min(end, ends[at]) for at, end in seam_end.items() if at in ends}
    since = {at: max(end - each, begun[at]) for at, end in until.items()}
    tail = log.read({at: first for at, first in since.items() if first < until[at]}, each, until)
    return sampled_times(source, read, event_time, now_ms(), tail).highest_ms
