"""Reporting of one query: when a heartbeat is due, late rows, seam, lag, a silent broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sources.common.times import now_ms
from sources.errors import ErrorReport
from spark_jobs.inside.driver.reports.broker_look import BrokerLook
from spark_jobs.inside.driver.reports.heartbeat_writer import HeartbeatWriter
from spark_jobs.inside.driver.reports.late_row_limit import LateRowCounter
from spark_jobs.inside.driver.reports.measurement import Measurement, Pace
from spark_jobs.inside.driver.reports.progress_reports import ProgressReports
from spark_jobs.inside.query.places.place import PlaceStream
from spark_jobs.inside.query.query_sources import QueryDeclaration
from spark_jobs.inside.query.streaming_query import RunningQuery

if TYPE_CHECKING:
    from spark_jobs.inside.driver.reports.reporter import Reporter

# A query that waits for data and does not look for longer may hang.
_CURRENT_MS = 10_000


class QueryReporter:
    """Reporter of one query of a launch; the launch's reporter makes it (``Reporter.follow``).

    Args:
        reporter: The launch's reporter.
        beat: Writer of the launch's heartbeat.
        measurement: Measurement of the query.
        pace: Speed of the launch in splits, kept over all its queries.
        broker: Look at the broker of the topics that the query reads.
    """

    def __init__(
        self,
        reporter: Reporter,
        beat: HeartbeatWriter,
        measurement: Measurement,
        pace: Pace,
        broker: BrokerLook,
    ) -> None:
        self._reporter = reporter
        self._beat = beat
        self._measurement = measurement
        self._pace = pace
        self._broker = broker
        self._begun_ms = now_ms()
        self._late: LateRowCounter | None = None
        self._seam = ProgressReports()

    def started(self, stream: PlaceStream) -> None:
        """Report that the query is built: whether it filters the seam, and its trigger interval."""
        self._reporter.update(filtering=stream.filtering, pace_ms=stream.interval_ms)

    def count_late_rows(self, declared: QueryDeclaration) -> None:
        """Begin to count the rows that this query drops behind its watermark.

        Call it before a query with a watermark is started. Reports the count of earlier runs, and
        warns if they left micro-batches whose count is unknown.

        Raises:
            InputError: The state's store refuses.
            StateError: A count of late rows or the launch record is damaged, or the state can't be
                written.
            UnavailableError: The state's store does not answer.
        """
        self._late = LateRowCounter(declared.context, declared.source.name)
        self._reporter.late_rows(self._late.counted.dropped)
        if unknown := self._late.counted.unknown_batches:
            self._reporter.listeners.warn(
                f"Source `{declared.source.name}`: whether late rows were dropped in {unknown:,} "
                "micro-batches is unknown, because a driver ended right after their commit. The "
                "audit shows whether rows are missing."
            )

    def late_rows(self, running: RunningQuery) -> None:
        """Count the rows dropped behind the watermark since the last call, and report the total.

        Does nothing unless :meth:`count_late_rows` was called.
        """
        if self._late is not None:
            self._reporter.late_rows(self._late.take(running.spark_query).dropped)

    def seam(self, running: RunningQuery) -> None:
        """Add what the query's micro-batches have reported of the seam since the last call.

        Does nothing for a query that filters no seam. The sums are kept in memory, in the launch's
        ``seam_metrics``.
        """
        if running.stream.filtering:
            metrics = self._reporter.seam_metrics
            self._seam.pass_on(running.spark_query, metrics.last_batch, metrics.add)
            if (seam := running.declared.place.seam) is not None:
                metrics.add_counts(seam.counts.by_batch)

    def progress(self, running: RunningQuery) -> int | None:
        """Report the query's progress in a heartbeat, if there is any, or if one is due.

        Progress is a committed micro-batch, or a change of idleness.

        Called at each look at the query. A committed micro-batch is also reported to Dagster's log.

        Returns:
            Number of the last committed micro-batch; None if none was committed.

        Raises:
            InputError: The state's store refuses.
            SeamError: A topic was created again, or its log was truncated.
            StateError: The checkpoint or the launch record is damaged, or the state can't be
                written.
            UnavailableError: The state's store does not answer.
        """
        self._reporter.follow_tasks(running)
        self._reporter.look_at_tasks()
        measured, beat = self._measurement, self._beat.latest
        idle = measured.is_idle(running.spark_query)
        aligned = _aligned(running.stream, idle=idle)
        latest, committed = running.spark_query.lastProgress, measured.committed()
        advanced = measured.advanced_at_ms(committed, beat, idle=idle)
        unreachable = self._look_at_broker(advanced)
        if committed is not None and measured.is_news(latest, committed):
            fields = {**measured.take(latest, committed, beat, idle=idle), "unreachable": None}
            if "splits_done" in fields:
                self._pace.add(fields["splits_done"])
            elif "offsets" in fields:
                lag, held = measured.lag(latest), aligned.get("held_offsets") or 0
                # What is held back does not wait for this driver.
                self._beat.lag = None if lag is None else max(lag - held, 0)
            self._reporter.update(**fields, **aligned)
            self._reporter.listeners.log(self._reporter.position())
        elif idle != beat.idle or self._beat.age_s() >= self._reporter.pace_s:
            self._reporter.update(
                idle=idle, advanced_at_ms=advanced, unreachable=unreachable, **aligned
            )
        return committed

    def _look_at_broker(self, advanced_ms: int | None) -> ErrorReport | None:
        """Return why the broker does not answer a query that makes no progress; else None.

        None for a query that reads files.
        """
        worked_ms = self._beat.latest.worked_at_ms
        still_ms = now_ms() - max(advanced_ms or 0, worked_ms or 0, self._begun_ms)
        pace_ms = self._beat.latest.pace_ms
        return self._broker.look((still_ms - pace_ms) / 1000)


def _aligned(stream: PlaceStream, *, idle: bool) -> dict[str, int | None]:
    """Return the heartbeat's fields about partitions that are aligned; empty if none are."""
    if stream.alignment is None or not stream.alignment.is_needed:
        return {}
    found = stream.alignment.drift
    is_current = not idle or now_ms() - found.at_ms < _CURRENT_MS + stream.interval_ms
    return {
        "drift_ms": found.drift_ms,
        "held_offsets": found.held_offsets if is_current else None,
    }
