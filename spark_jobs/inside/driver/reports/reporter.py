"""Reporting of a running job: heartbeats, also during long steps, and the log of Dagster's run."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

from dagster_pipes import (
    PipesContext,
    PipesDefaultContextLoader,
    PipesDefaultMessageWriter,
    PipesMappingParamsLoader,
)
from pyspark.sql import SparkSession

from sources.common.times import now_ms
from sources.config.source.bad_record_policy import BadRecordCount
from sources.errors import ErrorReport, UnavailableError
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from spark_jobs.inside.driver.reports.broker_look import BrokerLook
from spark_jobs.inside.driver.reports.heartbeat_writer import HeartbeatWriter
from spark_jobs.inside.driver.reports.measurement import Measurement, Pace, TaskWatch
from spark_jobs.inside.driver.reports.query_reporter import QueryReporter
from spark_jobs.inside.query.places.place import Growing
from spark_jobs.inside.query.query_sources import QueryDeclaration
from spark_jobs.inside.query.seam.metrics import SeamMetrics
from spark_jobs.inside.query.streaming_query import RunningQuery
from spark_jobs.run_state.driver_lock import QueryLock
from spark_jobs.run_state.heartbeat import Heartbeat, describe


@dataclass(frozen=True)
class Beats:
    """Intervals of reporting: how often a driver looks at its query, and writes a heartbeat.

    Attributes:
        every_s: Seconds between two looks; also between two heartbeats, unless the state's store
            needs longer intervals.
        idle_s: Seconds between two heartbeats while the query waits for data, if that is more.
    """

    every_s: float = 1.0
    idle_s: float = 0.0


USUAL_BEATS = Beats()


def open_pipes(environment: Mapping[str, str]) -> PipesContext | None:
    """Connect the job's reports to Dagster Pipes, if a Dagster step launched it; else return None.

    Args:
        environment: Environment variables of the launch.

    Returns:
        None if no Dagster step launched it, by the environment.
    """
    given = PipesMappingParamsLoader(environment)
    if not given.is_dagster_pipes_process():
        return None
    # Not the channel of the whole process: it may run pipelines of several steps.
    return PipesContext(given, PipesDefaultContextLoader(), PipesDefaultMessageWriter())


class Listeners:
    """Receivers of a job's reports in words: the log of Dagster's run, and standard error.

    Args:
        pipes: The channel to Dagster's run; None if no Dagster step launched the job.
    """

    def __init__(self, pipes: PipesContext | None) -> None:
        self._pipes = pipes

    def warn(self, text: str) -> None:
        """Write a warning to standard error, and to the log of Dagster's run if there is one."""
        sys.stderr.write(f"WARNING: {text}\n")
        if self._pipes is not None:
            self._pipes.log.warning(text)

    def log(self, text: str) -> None:
        """Write a line to the log of Dagster's run, if a Dagster step launched the job."""
        if self._pipes is not None:
            self._pipes.log.info(text)


class Reporter:
    """Reporter of one launch while it reads one source: writes its heartbeat, and Dagster's log.

    Creating it writes the first heartbeat, with the state ``starting``.

    Args:
        context: The pipeline, and the state that keeps the heartbeat.
        source: Name of the source.
        launch_id: Id of the launch.
        pipes: The channel to Dagster's run; None if no Dagster step launched the job.
        lock: The driver's lock; None for none, so that it never counts as lost.
        beats: How often the driver looks at the query and writes a heartbeat.

    Attributes:
        beats: As given.
        listeners: Receivers of the job's messages: Dagster's run and standard error.
        every_s: Seconds between two heartbeats of a driver that has nothing new to report.
        seam_metrics: What the micro-batches of this launch have reported of the source's seam.

    Raises:
        InputError: The state's store refuses.
        StateError: The progress log or the launch record is damaged, or the state can't be written.
        UnavailableError: The state's store does not answer.
    """

    def __init__(
        self,
        context: PipelineContext,
        source: str,
        launch_id: str,
        pipes: PipesContext | None,
        lock: QueryLock | None = None,
        beats: Beats = USUAL_BEATS,
    ) -> None:
        self.listeners = Listeners(pipes)
        self._lock = lock
        self.beats = beats
        self.every_s = max(beats.every_s, context.generation.pace_s)
        self.seam_metrics = SeamMetrics()
        self._launch_id = launch_id
        self._pace = Pace()
        self._tasks: TaskWatch | None = None
        self._growing: Growing | None = None
        is_bounded = context.pipeline.source(source).boundedness is Boundedness.BOUNDED
        first = Heartbeat(
            launch_id=launch_id,
            pid=os.getpid(),
            host=socket.gethostname(),
            source=source,
            phase="bounded" if is_bounded else "unbounded",
            state="starting",
            at_ms=now_ms(),
        )
        self._beat = HeartbeatWriter(context.generation, first)

    @property
    def pace_s(self) -> float:
        """Seconds between two heartbeats at present: ``every_s``, or more while nothing is read."""
        return max(self.every_s, self.beats.idle_s) if self._beat.latest.idle else self.every_s

    def follow(self, spark: SparkSession, declared: QueryDeclaration) -> QueryReporter:
        """Write a heartbeat ``running`` with the totals of the source, and follow a new query.

        Call it after the query is declared, before it is built.

        Returns:
            The reporter of this query.

        Raises:
            InputError: The state's store refuses.
            StateError: The checkpoint or the launch record is damaged, or the state can't be
                written.
            UnavailableError: The state's store does not answer.
        """
        self._tasks = TaskWatch(spark, self._launch_id)
        self._growing = declared.place.growing
        measurement = Measurement(declared, self._beat.started_ms)
        ui_url = spark.sparkContext.uiWebUrl
        fields = {"filtering": False, "pace_ms": 0, **measurement.first_fields()}
        self.update(state="running", ui_url=ui_url, **fields)
        broker = BrokerLook(declared.require_same_logs)
        return QueryReporter(self, self._beat, measurement, self._pace, broker)

    def late_rows(self, count: int) -> None:
        """Write a heartbeat if the source's number of late rows has changed; else do nothing.

        Args:
            count: Rows of this source dropped behind the watermark so far, by this launch and those
                before it.

        Raises:
            InputError, StateError, UnavailableError: As :meth:`update`.
        """
        if count != self._beat.latest.late_rows:
            self.update(late_rows=count)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Write heartbeats from a thread during a long step, such as building a query.

        One every ``every_s`` seconds, so that the supervision does not take the driver for dead;
        those of a frozen process stop all the same. A store that does not answer is passed over.

        Yields:
            Nothing; the heartbeats end with the ``with`` block.
        """
        done = threading.Event()

        def beat() -> None:
            while not done.wait(self.every_s):
                self.look_at_tasks()
                # What keeps the state may be back a second later, before anybody misses a beat.
                with suppress(UnavailableError):
                    self.update()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def follow_tasks(self, running: RunningQuery) -> None:
        """Count the completed Spark tasks of this query as the launch's work from now on."""
        if self._tasks is not None:
            self._tasks.follow(running.spark_query.runId)

    def look_at_tasks(self) -> None:
        """Set ``worked_at_ms`` to now if Spark tasks have ended since the last call.

        Only in memory: the next :meth:`update` writes it. So a long micro-batch does not count as
        stuck.
        """
        if self._tasks is not None and self._tasks.has_progressed():
            self._beat.worked()

    def update(self, **fields: Any) -> None:
        """Change fields of the heartbeat and write it to the state folder, with the present time.

        A folder that keeps growing adds its number of splits, and when its next listing is due.

        Args:
            **fields: New values by name of a field of the heartbeat.

        Raises:
            InputError: The state's store refuses.
            StateError: The launch record is damaged, or the state can't be written.
            UnavailableError: The state's store does not answer.
        """
        if self._growing is not None:
            folder = self._growing.folder
            fields |= {"splits_total": folder.splits, "listing_due_ms": folder.due_ms}
        self._beat.update(**fields)

    def is_replaced(self) -> bool:
        """Return whether the state folder records a later launch, so that this one must end.

        Raises:
            StateError: The launch record is damaged, or of an unknown version.
            UnavailableError: The state's store does not answer.
        """
        return self._beat.is_replaced()

    def has_lease(self) -> bool:
        """Return whether the driver's lock is a lease, which expires and can be taken over.

        False for a lock on a local file, and without a lock.
        """
        return self._lock is not None and self._lock.is_lease

    def require_lock(self) -> None:
        """Refuse to continue if the driver's lock was lost, as another driver may be running.

        Call it regularly while the query runs; it does nothing without a lock.

        Raises:
            StateError: The driver's lease is lost.
        """
        if self._lock is not None:
            self._lock.require_held()

    def ended(self, state: Literal["finished", "stopped"]) -> None:
        """Write the state of a run that ended without a failure; Dagster's log gets a line, too.

        Raises:
            InputError, StateError, UnavailableError: As :meth:`update`.
        """
        self.update(state=state)
        self.listeners.log(f"{self._beat.latest.source}: {state}.")

    def failed(self, report: ErrorReport) -> None:
        """Write the heartbeat of a failed run: state ``failed``, with the error's report.

        Raises:
            InputError, StateError, UnavailableError: As :meth:`update`.
        """
        self.update(state="failed", failure=report)

    def position(self) -> str:
        """Describe how far the run is, in one line: micro-batch, splits, rows, event time.

        From the latest heartbeat in memory; for Dagster's log and for warnings.
        """
        return describe(self._beat.latest)

    def eta_s(self) -> float | None:
        """Return the seconds until all planned splits are read, at this launch's speed so far.

        None if the source has no plan, or this launch has not measured any split as read yet.
        """
        return self._pace.eta_s(self._beat.latest.splits_total)

    def retention(self, text: str | None) -> None:
        """Write how long Kafka still keeps the records after history into the heartbeat.

        Args:
            text: The time that remains, in words; None if Kafka deletes nothing.

        Raises:
            InputError, StateError, UnavailableError: As :meth:`update`.
        """
        self.update(retention=text)

    def bad_records(self, counts: Mapping[str, BadRecordCount]) -> None:
        """Write a heartbeat if the number of this source's bad records has changed.

        Args:
            counts: Records dropped or quarantined since the generation began, by name of the
                source.

        Raises:
            InputError, StateError, UnavailableError: As :meth:`update`.
        """
        count, beat = counts.get(self._beat.latest.source), self._beat.latest
        if count is None:
            return
        known = (beat.bad_records, beat.outside_records, beat.broken_rules)
        if (count.total, count.outside, count.broken) != known:
            self.update(
                bad_records=count.total,
                outside_records=count.outside,
                broken_rules=count.broken,
            )
