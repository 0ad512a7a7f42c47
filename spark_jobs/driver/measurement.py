"""What is measured of a running query: Spark's progress reports, its tasks, its checkpoint."""

from __future__ import annotations

import json
import math
import time
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sources.common.positions import now_ms, to_ms
from spark_jobs.checkpoint import offset_log
from spark_jobs.query.declaration import QueryDeclaration
from spark_jobs.run_state.heartbeat import Heartbeat

# MicroBatchExecution's messages between two triggers, and for 10 ms after one without data.
_WAITING = ("Waiting for next trigger", "Waiting for data to arrive")


class TaskWatch:
    """Observer of the tasks of the active stages.

    Args:
        spark: The session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        # Number of tasks that have ended, by active stage.
        self._ended: dict[int, int] = {}

    def has_progressed(self) -> bool:
        """Return whether tasks have ended since the last call."""
        tracker = self._spark.sparkContext.statusTracker()
        stages = {number: tracker.getStageInfo(number) for number in tracker.getActiveStageIds()}
        ended = {number: stage.numCompletedTasks for number, stage in stages.items() if stage}
        if ended == self._ended:
            return False
        self._ended = ended
        return True


class Pace:
    """Speed of a launch that reads a plan, from its first measurement to its last."""

    def __init__(self) -> None:
        self._measured: list[tuple[float, int]] = []

    def add(self, splits_done: int) -> None:
        """Add a measurement, as of now."""
        self._measured = [*self._measured[:1], (time.monotonic(), splits_done)]

    def eta_s(self, splits_total: int | None) -> float | None:
        """Return the seconds until all splits are read at this pace; None if unknown."""
        if not splits_total or not self._measured:
            return None
        (then, done_then), (now, done_now) = self._measured[0], self._measured[-1]
        if done_now == done_then:
            return None
        return (splits_total - done_now) * (now - then) / (done_now - done_then)


class Measurement:
    """Measurement of one query.

    Args:
        declared: What the query reads.
        started_ms: When this launch began.
    """

    def __init__(self, declared: QueryDeclaration, started_ms: int) -> None:
        self._declared = declared
        self._started_ms = started_ms
        # Run of the query and micro-batch that were measured last.
        self._seen: tuple[str, int] | None = None

    def begin(self) -> dict[str, Any]:
        """Return the heartbeat's fields as they are before the query is started."""
        place = self._declared.place
        fields: dict[str, Any] = {}
        if place.end is not None:
            fields = {"splits_total": place.end.splits, "rows_total": place.end.rows}
        # A launch that resumes where another one ended reports that from the start.
        reached = place.reached(self._declared.committed())
        if reached.splits is not None:
            fields |= {
                "splits_done": reached.splits,
                "rows_done": reached.rows,
                "event_time_ms": reached.event_time_ms,
            }
        elif place.starts is not None:
            fields["offsets"] = {**place.starts, **(reached.offsets or {})}
        return fields

    def is_idle(self, running: StreamingQuery) -> bool:
        """Return whether the query waits for data."""
        status = running.status
        # Before the first trigger no data is available either, but it does not wait for the next.
        is_waiting = not status["isTriggerActive"] and status["message"] in _WAITING
        return is_waiting and not status["isDataAvailable"]

    def committed(self) -> int | None:
        """Return the number of the last committed micro-batch, or None."""
        return offset_log.last_committed(self._declared.generation.checkpoint)

    def is_news(self, latest: Any, committed: int | None) -> bool:
        """Return whether a progress report is the first one since a micro-batch was committed.

        A report of an idle trigger carries the number of the batch that will come: what was
        committed decides whether there is news, not the number of the report.
        """
        return (
            latest is not None
            and committed is not None
            and (str(latest.runId), committed) != self._seen
            and latest.batchId >= committed
        )

    def take(self, latest: Any, committed: int, beat: Heartbeat, *, idle: bool) -> dict[str, Any]:
        """Return the heartbeat's fields after a micro-batch.

        Args:
            latest: Spark's last progress report.
            committed: Number of the last committed micro-batch.
            beat: The heartbeat before.
            idle: Whether the query waits for data.
        """
        declared = self._declared
        self._seen = (str(latest.runId), committed)
        fields: dict[str, Any] = {
            "batch_id": committed,
            "idle": idle,
            "batches": beat.batches + (latest.batchId == committed),
            "committed_at_ms": self._committed_at_ms(committed),
            "advanced_at_ms": self.advanced_at_ms(committed, beat, idle=idle),
            "rows_per_s": _finite(latest.processedRowsPerSecond),
            "input_rows_per_s": _finite(latest.inputRowsPerSecond),
            "watermark_ms": _event_ms(latest.eventTime.get("watermark")),
            "state_rows": sum(op.numRowsTotal for op in latest.stateOperators) or None,
            "state_bytes": sum(op.memoryUsedBytes for op in latest.stateOperators) or None,
        }
        offset = offset_log.offset_of(declared.generation.checkpoint, committed, declared.index)
        reached = declared.place.reached(offset)
        if reached.splits is not None:
            fields |= {
                "splits_done": reached.splits,
                "rows_done": reached.rows,
                "event_time_ms": reached.event_time_ms,
            }
        elif offset is not None:
            fields["offsets"] = reached.offsets
            if (highest := _event_ms(latest.eventTime.get("max"))) is not None:
                fields["event_time_ms"] = highest
        return fields

    def lag(self, latest: Any) -> int | None:
        """Return the records of a topic that the last micro-batch left, by the ends it saw."""
        topic = latest.sources[self._declared.index]
        ends, reached = (
            offset_log.kafka_offsets(json.loads(text or "null"))
            for text in (topic.latestOffset, topic.endOffset)
        )
        return sum(end - reached.get(at, end) for at, end in ends.items()) if ends else None

    def advanced_at_ms(self, committed: int | None, beat: Heartbeat, *, idle: bool) -> int | None:
        """Return when this launch last committed, or had nothing to read; no earlier launch."""
        if idle:
            return now_ms()
        committed_at = 0 if committed is None else self._committed_at_ms(committed)
        if committed_at < self._started_ms:
            return beat.advanced_at_ms
        return max(committed_at, beat.advanced_at_ms or 0)

    def _committed_at_ms(self, committed: int) -> int:
        return offset_log.committed_at_ms(self._declared.generation.checkpoint, committed)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _event_ms(text: str | None) -> int | None:
    if text is None:
        return None
    return to_ms(datetime.fromisoformat(text))
