"""Writer of a launch's heartbeat and samples, none once a later launch has replaced this one."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

from sources.common.times import now_ms
from sources.state.generation import Generation
from spark_jobs.launch.launch_record import last_launch, log_path
from spark_jobs.run_state.heartbeat import ALIVE, Heartbeat, heartbeat_name
from spark_jobs.run_state.progress_log import (
    EVERY_S,
    ProgressLog,
    progress_log_name,
    read_progress_log,
    sample_of,
)
from spark_jobs.run_state.run_log import keep, trim


class HeartbeatWriter:
    """Writer of one launch's heartbeat into the state folder; threads may share it.

    With a heartbeat it keeps samples of the progress over time, and shortens the run's log file.

    Args:
        generation: State of the generation, which keeps the heartbeat and the samples.
        first: The first heartbeat, which is written at once.

    Attributes:
        lag: Records of a followed topic that wait to be read, as the query last saw it; None if
            unknown. The caller sets it; it becomes part of the samples.
        started_ms: When this launch began, in ms since the epoch.

    Raises:
        InputError: The state's store refuses.
        StateError: The progress log or the launch record is damaged, or the state can't be written.
        UnavailableError: The state's store does not answer.
    """

    def __init__(self, generation: Generation, first: Heartbeat) -> None:
        self.lag: int | None = None
        self.started_ms = first.at_ms
        self._generation = generation
        self._latest = first
        self._lock = threading.RLock()
        self._beat_at = 0.0
        self._samples = read_progress_log(generation, first.source)
        # State of the heartbeat that was sampled last, and when that was.
        self._sampled: tuple[str, float] = ("", 0.0)
        # Whether another launch has replaced this one, and when that was looked at.
        self._replaced = (False, -math.inf)
        self._write()

    @property
    def latest(self) -> Heartbeat:
        """Heartbeat in memory, with changes that the next :meth:`update` will write."""
        return self._latest

    def age_s(self) -> float:
        """Return the seconds since this writer last wrote a heartbeat, by the monotonic clock."""
        return time.monotonic() - self._beat_at

    def update(self, **changes: Any) -> None:
        """Change fields of the heartbeat, set its time to now, and write it to the state folder.

        Once a later launch has replaced this one, which is checked as often as the state's store
        allows, nothing is written any more.

        Args:
            **changes: New values by name of the field.

        Raises:
            InputError: The state's store refuses.
            StateError: The launch record is damaged, or the state can't be written.
            UnavailableError: The state's store does not answer.
        """
        with self._lock:
            self._latest = self._latest.model_copy(update={"at_ms": now_ms(), **changes})
            self._write()

    def worked(self) -> None:
        """Set ``worked_at_ms`` to now in memory, after a Spark task ended; ``update`` writes it."""
        with self._lock:
            self._latest = self._latest.model_copy(update={"worked_at_ms": now_ms()})

    def is_replaced(self) -> bool:
        """Return whether a later launch is recorded in the state folder, so that this one must end.

        Read from the state at each call. False if no launch is recorded.

        Raises:
            StateError: The launch record is damaged, or of an unknown version.
            UnavailableError: The state's store does not answer.
        """
        last = last_launch(self._generation)
        is_own = last is None or last.launch_id == self._latest.launch_id
        is_later = last is not None and not is_own and last.at_ms > self.started_ms
        self._replaced = (is_later, time.monotonic())
        return is_later

    def _write(self) -> None:
        self._beat_at = time.monotonic()
        is_replaced, at = self._replaced
        is_last = self._latest.state not in ALIVE
        if is_last or self._beat_at - at >= self._generation.pace_s:
            is_replaced = self.is_replaced()
        if not is_replaced:
            self._generation.replace(heartbeat_name(self._latest.source), self._latest)
            state, sampled_at = self._sampled
            every_s = max(EVERY_S, 3 * self._generation.pace_s)
            if state != self._latest.state or time.monotonic() - sampled_at >= every_s:
                log = log_path(self._generation, self._latest.source)
                trim(log)
                keep(self._generation, f"run/{log.name}", log)
                self._keep_sample()

    def _keep_sample(self) -> None:
        """Add a sample to those of all launches."""
        beat = self._latest
        if (measured := sample_of(beat, 0 if beat.idle else self.lag)) is None:
            return
        unit, sample = measured
        self._sampled = (beat.state, time.monotonic())
        if self._samples is None or self._samples.unit != unit:
            # Samples in different units can't be compared.
            self._samples = ProgressLog(unit=unit)
        self._samples = self._samples.with_sample(sample)
        self._generation.replace(progress_log_name(beat.source), self._samples)
