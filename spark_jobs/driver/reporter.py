"""Reports of a running job: the heartbeat in the state folder, and Dagster's log if it listens."""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dagster_pipes import DAGSTER_PIPES_CONTEXT_ENV_VAR, PipesContext, open_dagster_pipes
from pyspark.sql.streaming.query import StreamingQuery

from sources.common.positions import now_ms, to_ms
from sources.common.state import Generation
from sources.errors import ErrorReport
from spark_jobs.checkpoint import offset_log
from spark_jobs.launch.record import last_launch, log_path
from spark_jobs.run_state.heartbeat import Heartbeat, describe, heartbeat_name
from spark_jobs.run_state.progress_log import (
    EVERY_S,
    ProgressLog,
    progress_log_name,
    read_progress_log,
    sample_of,
)
from spark_jobs.run_state.run_log import trim

if TYPE_CHECKING:
    from spark_jobs.query.streaming_query import Query

BEAT_S = 1.0
# MicroBatchExecution's words between two triggers, and 10 ms long after one without data.
_WAITING = ("Waiting for next trigger", "Waiting for data to arrive")


def open_pipes() -> PipesContext | None:
    """The channel to the Dagster step that launched this job, or None outside Dagster."""
    # Outside Dagster, Pipes would hand out a mock and warn.
    if DAGSTER_PIPES_CONTEXT_ENV_VAR not in os.environ:
        return None
    return open_dagster_pipes()


class Reporter:
    """Keeps the heartbeat of one launch up to date.

    Args:
        generation: Where the heartbeat is kept.
        source: Name of the source that the run reads.
        bounded: Whether that source ends.
        launch_id: Which launch this is.
        pipes: Dagster's log, if it listens.
    """

    def __init__(
        self,
        generation: Generation,
        source: str,
        launch_id: str,
        pipes: PipesContext | None,
        *,
        bounded: bool,
    ) -> None:
        self._generation = generation
        self._pipes = pipes
        self._query: Query | None = None
        self._seen: tuple[str, int] | None = None
        self._beat_at = 0.0
        self._started_ms = now_ms()
        self._paced: list[tuple[float, int]] = []
        self._lock = threading.RLock()
        self._log = read_progress_log(generation, source)
        self._logged: tuple[str, float] = ("", 0.0)
        self._lag: int | None = None
        # Tasks that have ended, by active stage.
        self._tasks: dict[int, int] = {}
        self._latest = Heartbeat(
            launch_id=launch_id,
            pid=os.getpid(),
            host=socket.gethostname(),
            source=source,
            phase="bounded" if bounded else "unbounded",
            state="starting",
            at_ms=now_ms(),
        )
        self._write()

    def follow(self, query: Query) -> None:
        """The session is up and the query is known."""
        self._query = query
        totals: dict[str, Any] = {}
        if (end := query.end) is not None:
            totals = {"splits_total": end.splits, "rows_total": end.rows}
        if query.source.name in query.planned:
            # A launch that goes on where another one ended says so from the start.
            offset = offset_log.committed_offset(query.generation.checkpoint, query.place)
            totals |= self._position_in_plan(offset)
        elif (start := query.enumerator.start_of(query.source.name)) is not None:
            reached = offset_log.reached(query.generation.checkpoint, query.place)
            totals["offsets"] = {**start.offsets(), **reached}
        ui_url = query.spark.sparkContext.uiWebUrl
        self._update(state="running", ui_url=ui_url, **totals)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Keep the heart beating while a bounded run does what can take long and reports nothing.

        A process that is frozen is silent all the same.
        """
        done = threading.Event()

        def beat() -> None:
            while not done.wait(BEAT_S):
                if self._query is not None:
                    self._look_at_tasks()
                self._update()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def progress(self, running: StreamingQuery) -> None:
        """Take in what the query says; a beat a second, or a new micro-batch, is written."""
        self._look_at_tasks()
        status = running.status
        # Before the first trigger no data is available either, but it does not wait for the next.
        is_waiting = not status["isTriggerActive"] and status["message"] in _WAITING
        idle = is_waiting and not status["isDataAvailable"]
        latest = running.lastProgress
        committed = offset_log.last_committed(self._followed.generation.checkpoint)
        # A report of an idle trigger carries the number of the batch that will come: what was
        # committed decides whether there is news, not what the report is numbered.
        if (
            latest is not None
            and committed is not None
            and (str(latest.runId), committed) != self._seen
            and latest.batchId >= committed
        ):
            self._take(latest, committed, idle=idle)
        elif idle != self._latest.idle or time.monotonic() - self._beat_at >= BEAT_S:
            self._update(idle=idle, advanced_at_ms=self._advanced_at_ms(committed, idle=idle))

    def _look_at_tasks(self) -> None:
        """See whether tasks have ended since the last look."""
        tracker = self._followed.spark.sparkContext.statusTracker()
        found = {number: tracker.getStageInfo(number) for number in tracker.getActiveStageIds()}
        ended = {number: each.numCompletedTasks for number, each in found.items() if each}
        if ended != self._tasks:
            self._tasks = ended
            with self._lock:
                self._latest = self._latest.model_copy(update={"worked_at_ms": now_ms()})

    def is_replaced(self) -> bool:
        """Whether another run was launched since: this one was taken for dead."""
        last = last_launch(self._generation)
        is_own = last is None or last.launch_id == self._latest.launch_id
        return last is not None and not is_own and last.at_ms > self._started_ms

    def ended(self, state: str) -> None:
        """The run ended in good order."""
        self._update(state=state)
        self.log(f"{self._latest.source}: {state}")

    def failed(self, report: ErrorReport) -> None:
        """Report that the run failed, and why."""
        self._update(state="failed", failure=report)

    def position(self) -> str:
        """How far the run is, in words."""
        return describe(self._latest)

    def eta_s(self) -> float | None:
        """Seconds that a bounded run still needs at the pace of this launch, once it has one."""
        beat = self._latest
        if not beat.splits_total or not self._paced:
            return None
        (then, done_then), (now, done_now) = self._paced[0], self._paced[-1]
        if done_now == done_then:
            return None
        return (beat.splits_total - done_now) * (now - then) / (done_now - done_then)

    def retention(self, text: str | None) -> None:
        """How long the records to be read afterwards are safe."""
        self._update(retention=text)

    def bad_records(self, counts: Mapping[str, int]) -> None:
        """How many records were dropped or put into quarantine so far, by source."""
        count = counts.get(self._latest.source, 0)
        if count != self._latest.bad_records:
            self._update(bad_records=count)

    def warn(self, text: str) -> None:
        """Tell people about something that may end badly."""
        sys.stderr.write(f"WARNING: {text}\n")
        if self._pipes is not None:
            self._pipes.log.warning(text)

    def log(self, text: str) -> None:
        """Write a line into the log of the Dagster run, if there is one."""
        if self._pipes is not None:
            self._pipes.log.info(text)

    @property
    def _followed(self) -> Query:
        assert self._query is not None, "the query is followed before it reports"
        return self._query

    def _take(self, latest: Any, committed: int, *, idle: bool) -> None:
        query = self._followed
        self._seen = (str(latest.runId), committed)
        changes: dict[str, Any] = {
            "batch_id": committed,
            "idle": idle,
            "batches": self._latest.batches + (latest.batchId == committed),
            "committed_at_ms": self._committed_at_ms(committed),
            "advanced_at_ms": self._advanced_at_ms(committed, idle=idle),
            "rows_per_s": _finite(latest.processedRowsPerSecond),
            "input_rows_per_s": _finite(latest.inputRowsPerSecond),
            "watermark_ms": _event_ms(latest.eventTime.get("watermark")),
            "state_rows": sum(op.numRowsTotal for op in latest.stateOperators) or None,
            "state_bytes": sum(op.memoryUsedBytes for op in latest.stateOperators) or None,
        }
        offset = offset_log.offset_of(query.generation.checkpoint, committed, query.place)
        if query.source.name in query.planned:
            changes.update(self._position_in_plan(offset))
            self._paced = [*self._paced[:1], (time.monotonic(), changes["splits_done"])]
        elif offset is not None:
            changes["offsets"] = offset_log.kafka_offsets(offset)
            self._lag = _left(latest.sources[query.place])
            if (highest := _event_ms(latest.eventTime.get("max"))) is not None:
                changes["event_time_ms"] = highest
        self._update(**changes)
        self.log(describe(self._latest))

    def _committed_at_ms(self, committed: int) -> int:
        return offset_log.committed_at_ms(self._followed.generation.checkpoint, committed)

    def _advanced_at_ms(self, committed: int | None, *, idle: bool) -> int | None:
        """When this launch last committed, or had nothing to read; not by an earlier launch."""
        if idle:
            return now_ms()
        committed_at = 0 if committed is None else self._committed_at_ms(committed)
        if committed_at < self._started_ms:
            return self._latest.advanced_at_ms
        return max(committed_at, self._latest.advanced_at_ms or 0)

    def _position_in_plan(self, offset: Any) -> dict[str, Any]:
        planned = self._followed.planned[self._followed.source.name]
        entries = offset_log.position_in_plan(offset, planned.entries)
        splits, rows, highest = planned.reached(entries)
        return {"splits_done": splits, "rows_done": rows, "event_time_ms": highest}

    def _update(self, **changes: Any) -> None:
        update = {"at_ms": now_ms(), **changes}
        if (query := self._query) is not None:
            update |= {"filtering": query.filtering, "pace_ms": query.pace_ms}
            if (folder := query.folder) is not None:
                update |= {"splits_total": folder.splits, "listing_due_ms": folder.due_ms}
        with self._lock:
            self._latest = self._latest.model_copy(update=update)
            self._write()

    def _write(self) -> None:
        self._beat_at = time.monotonic()
        if not self.is_replaced():
            self._generation.replace(heartbeat_name(self._latest.source), self._latest)
            state, at = self._logged
            if state != self._latest.state or time.monotonic() - at >= EVERY_S:
                trim(log_path(self._generation, self._latest.source))
                self._keep_sample()

    def _keep_sample(self) -> None:
        """Add to what is kept of all launches."""
        beat = self._latest
        if (found := sample_of(beat, 0 if beat.idle else self._lag)) is None:
            return
        unit, sample = found
        self._logged = (beat.state, time.monotonic())
        if self._log is None or self._log.unit != unit:
            # What is counted otherwise can't be compared.
            self._log = ProgressLog(unit=unit)
        self._log = self._log.with_sample(sample)
        self._generation.replace(progress_log_name(beat.source), self._log)


def _left(topic: Any) -> int | None:
    """Records of a topic that a micro-batch left, by the ends that it saw when it was planned."""
    ends, reached = (
        offset_log.kafka_offsets(json.loads(text or "null"))
        for text in (topic.latestOffset, topic.endOffset)
    )
    return sum(end - reached.get(at, end) for at, end in ends.items()) if ends else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _event_ms(text: str | None) -> int | None:
    if text is None:
        return None
    return to_ms(datetime.fromisoformat(text))
