"""Measurements of a running query: rates, lag, time left, idle or stuck, tasks that progress."""

from __future__ import annotations

import ast
import json
import math
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sources.common.positions import Offsets
from sources.common.times import now_ms, to_ms
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.query.query_sources import QueryDeclaration
from spark_jobs.run_state.heartbeat import Heartbeat

# MicroBatchExecution's messages between two triggers, and for 10 ms after one without data.
_WAITING = ("Waiting for next trigger", "Waiting for data to arrive")


class TaskWatch:
    """Measurement of a launch's Spark tasks, to tell a slow query from one that hangs.

    Jobs of other launches in the same driver do not count. Creating it puts the jobs that this
    thread starts into the launch's job group.

    Args:
        spark: The session.
        launch_id: Id of the launch.
    """

    def __init__(self, spark: SparkSession, launch_id: str) -> None:
        context = spark.sparkContext
        context.setJobGroup(launch_id, f"launch {launch_id}")
        self._tracker = context.statusTracker()
        jvm: Any = context._jsc
        self._jobs = jvm.sc().statusStore()
        self._launch_id = launch_id
        # Spark puts the jobs of a query into a group that has the id of the query's run.
        self._run_id: str | None = None
        # Number of tasks that have ended, by active job.
        self._ended: dict[int, int] = {}

    def follow(self, run_id: str) -> None:
        """Observe the jobs of a query's run from now on, in place of those of an earlier run.

        Args:
            run_id: ``runId`` of the streaming query.
        """
        self._run_id = str(run_id)

    def has_progressed(self) -> bool:
        """Return whether tasks were completed, or jobs began or ended, since the previous call.

        The first call returns True if a job is active. Only jobs of this launch and its query
        count.
        """
        jobs = [self._jobs.job(number) for number in self._tracker.getActiveJobsIds()]
        groups = [job.jobGroup() for job in jobs]
        known = (self._launch_id, self._run_id)
        own = [
            job
            for job, group in zip(jobs, groups, strict=True)
            if group.isDefined() and group.get() in known
        ]
        ended = {int(job.jobId()): int(job.numCompletedTasks()) for job in own}
        if ended == self._ended:
            return False
        self._ended = ended
        return True


class Pace:
    """Speed of a launch in splits per second, since its first measurement: for the time left."""

    def __init__(self) -> None:
        self._measured: list[tuple[float, int]] = []

    def add(self, splits_done: int) -> None:
        """Add a measurement: the number of splits read until now. Only first and last are kept."""
        self._measured = [*self._measured[:1], (time.monotonic(), splits_done)]

    def eta_s(self, splits_total: int | None) -> float | None:
        """Return the seconds until all splits are read, at the speed measured so far.

        Args:
            splits_total: Number of splits of the plan; None if there is none.

        Returns:
            None if there is no plan, or no split was read between the first and last measurement.
        """
        if not splits_total or not self._measured:
            return None
        (then, done_then), (now, done_now) = self._measured[0], self._measured[-1]
        if done_now == done_then:
            return None
        return (splits_total - done_now) * (now - then) / (done_now - done_then)


class Measurement:
    """Measurements of one query, as fields of its heartbeat.

    Args:
        declared: Declaration of the query.
        started_ms: When this launch began, in ms since the epoch.

    Raises:
        StateError: Several topics are read, and the checkpoint is damaged.
        UnavailableError: Several topics are read, and the checkpoint's store does not answer.
    """

    def __init__(self, declared: QueryDeclaration, started_ms: int) -> None:
        self._declared = declared
        self._started_ms = started_ms
        # Run of the query and micro-batch that were measured last.
        self._seen: tuple[str, int] | None = None
        # The last micro-batch whose time of commit is known, and that time.
        self._commit = (-1, 0)
        # Up to where each of several topics was read when the query began.
        self._begun = {
            number: self._read_up_to(number, declared.committed(number))
            for number in (declared.read_places if declared.beside else ())
        }

    def first_fields(self) -> dict[str, Any]:
        """Return the heartbeat's fields that are known before the query is started.

        Totals of the plan, and what earlier launches have read by the checkpoint: splits, rows and
        event time (ms) of a planned source; offsets by partition of a followed topic.
        """
        place = self._declared.place
        fields: dict[str, Any] = {}
        if ends := self._declared.ends:
            rows = [end.rows for end in ends if end.rows is not None]
            fields = {
                "splits_total": sum(end.splits for end in ends),
                "rows_total": sum(rows) if len(rows) == len(ends) else None,
            }
        # A launch that resumes where another one ended reports that from the start.
        reached = self._declared.reached(self._declared.committed)
        if reached.splits is not None:
            fields |= {
                "splits_done": reached.splits,
                "rows_done": reached.rows,
                "event_time_ms": reached.event_time_ms,
            }
        elif place.starts is not None:
            fields["offsets"] = self._offsets_reached(self._declared.committed)
        return fields

    def _offsets_reached(self, offset_of: Callable[[int], Any]) -> Offsets:
        """Return the first unread offset of each partition of all topics that the run follows.

        Args:
            offset_of: Returns Spark's offset of a place, decoded from JSON; None if never read.
        """
        offsets: Offsets = {}
        for number in self._declared.read_places:
            offsets |= self._read_up_to(number, offset_of(number))
        return offsets

    def _read_up_to(self, number: int, offset: Any) -> Offsets:
        """Return the first unread offset of each partition of a topic, by Spark's offset of it."""
        place = self._declared.places[number]
        return {**(place.starts or {}), **(place.reached(offset).offsets or {})}

    def _silent(self, offset_of: Callable[[int], Any]) -> list[str]:
        """Return the names of several inputs' topics without a record since the query began."""
        sources = self._declared.context.pipeline.sources
        return [
            sources[number].name
            for number, begun in sorted(self._begun.items())
            if self._read_up_to(number, offset_of(number)) == begun
        ]

    def is_idle(self, running: StreamingQuery) -> bool:
        """Return whether the query waits for data: its last trigger has ended and found none.

        By Spark's status of the query, at once. False before the first trigger, and between two
        triggers if the last one read data.
        """
        status = running.status
        # Before the first trigger no data is available either, but it does not wait for the next.
        is_waiting = not status["isTriggerActive"] and status["message"] in _WAITING
        return is_waiting and not status["isDataAvailable"]

    def committed(self) -> int | None:
        """Return the number of the last micro-batch that is committed in the checkpoint.

        Read from the checkpoint's ``commits`` at each call; None if nothing was committed.

        Raises:
            UnavailableError: The checkpoint's store does not answer.
        """
        return offset_log.last_committed(self._declared.generation.checkpoint)

    def is_news(self, latest: Any, committed: int | None) -> bool:
        """Return whether a progress report is the first one since a micro-batch was committed.

        A report of an idle trigger carries the number of the batch that will come: so what was
        committed decides, not the number of the report. Asking remembers nothing: it stays True
        until :meth:`take` has marked that commit as reported.

        Args:
            latest: Spark's last progress report; None before the first.
            committed: Number of the last committed micro-batch; None before the first.
        """
        return (
            latest is not None
            and committed is not None
            and (str(latest.runId), committed) != self._seen
            and latest.batchId >= committed
        )

    def take(self, latest: Any, committed: int, beat: Heartbeat, *, idle: bool) -> dict[str, Any]:
        """Return the heartbeat's fields after a committed micro-batch, and mark it as reported.

        Call it once for each commit, after :meth:`is_news` returned True.

        Args:
            latest: Spark's last progress report.
            committed: Number of the last committed micro-batch.
            beat: The heartbeat before.
            idle: Whether the query waits for data.

        Returns:
            Values by name of a :class:`~spark_jobs.run_state.heartbeat.Heartbeat` field: number and
            time of the micro-batch, rates, watermark, operators' state, and how far the source was
            read.

        Raises:
            StateError: The file with the micro-batch's offsets is missing or damaged.
            UnavailableError: The checkpoint's store does not answer.
        """
        declared = self._declared
        self._seen = (str(latest.runId), committed)
        fields: dict[str, Any] = {
            "batch_id": committed,
            "idle": idle,
            "batches": beat.batches + (latest.batchId == committed),
            "committed_at_ms": self._committed_at_ms(committed),
            "advanced_at_ms": self.advanced_at_ms(committed, beat, idle=idle),
            "batch_ms": int(latest.batchDuration),
            **self.rates(latest),
            "watermark_ms": _event_ms(latest.eventTime.get("watermark")),
            "state_rows": sum(op.numRowsTotal for op in latest.stateOperators) or None,
            "state_bytes": sum(op.memoryUsedBytes for op in latest.stateOperators) or None,
        }
        offset_of = partial(offset_log.offset_of, declared.generation.checkpoint, committed)
        reached = declared.reached(offset_of)
        if reached.splits is not None:
            fields |= {
                "splits_done": reached.splits,
                "rows_done": reached.rows,
                "event_time_ms": reached.event_time_ms,
            }
            if declared.is_bounded:
                # Spark counts splits as rows wherever tasks of this project parse them.
                fields |= _planned_rates(latest, reached.rows, beat.rows_done)
        elif any(offset_of(number) is not None for number in declared.read_places):
            fields["offsets"] = self._offsets_reached(offset_of)
            fields["silent"] = self._silent(offset_of)
            if (highest := _event_ms(latest.eventTime.get("max"))) is not None:
                fields["event_time_ms"] = highest
        return fields

    def rates(self, latest: Any) -> dict[str, float | None]:
        """Return a micro-batch's rates, ``rows_per_s`` and ``input_rows_per_s``, from its report.

        For a followed topic whose rows Spark does not see, the first one counts offsets and the
        other is None; so is a rate that is not finite.

        Args:
            latest: Spark's last progress report.
        """
        if not latest.numInputRows and (offsets := self._offsets(latest)):
            # Tasks have read the records, of which Spark knows nothing.
            took_s = latest.batchDuration / 1000
            return {"rows_per_s": offsets / took_s if took_s else None, "input_rows_per_s": None}
        return {
            "rows_per_s": _finite(latest.processedRowsPerSecond),
            "input_rows_per_s": _finite(latest.inputRowsPerSecond),
        }

    def _offsets(self, latest: Any) -> int:
        """Return how many offsets of followed topics were read; 0 for other sources."""
        read = 0
        for number, place in self._declared.read_places.items():
            if place.starts is not None:
                topic = latest.sources[number]
                before = {**place.starts, **_kafka_offsets(topic.startOffset)}
                read += _between(before, _kafka_offsets(topic.endOffset))
        return read

    def lag(self, latest: Any) -> int | None:
        """Return how many offsets of followed topics the last micro-batch left unread.

        Counted up to the topics' ends as that micro-batch saw them, over all partitions.

        Args:
            latest: Spark's last progress report.

        Returns:
            None if a source reports no end, as before its first offset.
        """
        topics = [latest.sources[number] for number in self._declared.read_places]
        ends = [_kafka_offsets(topic.latestOffset) for topic in topics]
        if not all(ends):
            return None
        reached = [_kafka_offsets(topic.endOffset) for topic in topics]
        return sum(_between(*each) for each in zip(reached, ends, strict=True))

    def advanced_at_ms(self, committed: int | None, beat: Heartbeat, *, idle: bool) -> int | None:
        """Return when this launch last committed a micro-batch or had nothing to read, in ms.

        The supervision takes a query for stuck when this time stands still.

        Args:
            committed: Number of the last committed micro-batch; None without any.
            beat: The heartbeat before, whose value is kept if this launch committed nothing.
            idle: Whether the query waits for data; then the result is now.

        Raises:
            UnavailableError: The checkpoint's store does not answer.
        """
        if idle:
            return now_ms()
        committed_at = 0 if committed is None else self._committed_at_ms(committed)
        if committed_at < self._started_ms:
            return beat.advanced_at_ms
        return max(committed_at, beat.advanced_at_ms or 0)

    def _committed_at_ms(self, committed: int) -> int:
        if committed != self._commit[0]:
            at_ms = offset_log.committed_at_ms(self._declared.generation.checkpoint, committed)
            if at_ms is None:
                return 0
            self._commit = (committed, at_ms)
        return self._commit[1]


def reported_offset(text: str | None) -> Any:
    """Parse the text of an offset in a progress report, be it JSON or a Python literal.

    PySpark 4.1 prints offsets as Python does. None for None, before the first offset.

    Raises:
        ValueError, SyntaxError: The text is neither.
    """
    try:
        return json.loads(text or "null")
    except ValueError:
        return ast.literal_eval(str(text))


def _kafka_offsets(text: str | None) -> Offsets:
    return offset_log.kafka_offsets(reported_offset(text))


def _between(begin: Offsets, end: Offsets) -> int:
    """Return how many offsets lie between two; a partition that only the latter has counts as 0."""
    return sum(to - begin.get(at, to) for at, to in end.items())


def _planned_rates(
    latest: Any, rows: int | None, rows_before: int | None
) -> dict[str, float | None]:
    """Return the rates of a micro-batch of planned splits, by the rows that the plan has counted.

    Args:
        latest: Spark's last progress report.
        rows: Rows of all splits read up to and with the micro-batch; None if they are not counted.
        rows_before: The same before it.
    """
    took_s = latest.batchDuration / 1000
    is_counted = rows is not None and rows_before is not None
    read = (rows or 0) - (rows_before or 0) if is_counted else None
    rate = read / took_s if read is not None and took_s else None
    return {"rows_per_s": rate, "input_rows_per_s": None}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _event_ms(text: str | None) -> int | None:
    return None if text is None else to_ms(datetime.fromisoformat(text))
