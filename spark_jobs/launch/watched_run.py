"""Handle of a run that is watched: its heartbeats, a frozen driver, its end and the reason."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

from sources.common.durations import duration
from sources.errors import RunError
from spark_jobs.launch.driver_error import KILLED, DriverError
from spark_jobs.launch.driver_state import DriverState
from spark_jobs.launch.launch_record import log_of
from spark_jobs.launch.places.base import DriverStatus
from spark_jobs.launch.places.local import GRACE_S, kill_group, wait_until
from spark_jobs.launch.submission import submit
from spark_jobs.run_state import run_log
from spark_jobs.run_state.driver_lock import is_held, is_launched
from spark_jobs.run_state.heartbeat import ALIVE, Heartbeat, heartbeat_name

_POLL_S = 0.2
_TAIL_LINES = 25

OnOutput = Callable[[str], None]
"""Called with each line that a run prints."""


class WatchedRun:
    """Handle of a Spark run: yields its heartbeats, ends it, and reports how it ended.

    Also for a run that another process launched.

    Args:
        driver: State of the run's driver.
        process: ``spark-submit``, if this process started it; else None.
    """

    def __init__(self, driver: DriverState, process: subprocess.Popen[bytes] | None = None) -> None:
        self.driver = driver
        self._process = process
        self._generation = driver.generation
        self._log = log_of(driver.generation, driver.launch)
        # A process that did not launch the run gets what is printed from now on.
        self._output = run_log.Tail(self._log, 0 if process is not None else None)

    @property
    def source(self) -> str:
        """Name of the source that the run reads, from the launch's record."""
        return self.driver.source

    def beats(
        self, on_output: OnOutput = lambda _: None, silence: timedelta = timedelta.max
    ) -> Iterator[Heartbeat]:
        """Yield each new heartbeat until the run has ended, or its driver reads a later source.

        Blocks between them.

        Args:
            on_output: Called with each line of the run's own output meanwhile.
            silence: Longest time between two heartbeats; by default without limit.

        Raises:
            RunError: There was no heartbeat for longer than ``silence``: the driver is frozen. The
                caller has to end it.
            StateError: The heartbeat, the launch's record or a lease is damaged.
            UnavailableError: The state's store does not answer.
        """
        seen, shown, heard = 0, "", time.monotonic()
        while self._is_alive() and not self.driver.has_switched():
            beat = self.driver.beat()
            if beat is not None and beat.at_ms != seen:
                seen = beat.at_ms
                yield beat
                heard = time.monotonic()
            elif beat is not None and time.monotonic() - heard > silence.total_seconds():
                message = (
                    f"The Spark run of `{self.source}` is frozen: its driver, process {beat.pid} "
                    f"on {beat.host}, has written no heartbeat for "
                    f"{duration(time.monotonic() - heard)}."
                )
                hint = (
                    "The run is being ended, as that is longer than `supervision.stuck_after` and "
                    "`supervision.end_stuck_after` together. Then run the pipeline again, which "
                    "resumes after the last committed micro-batch: `hybrid run P`."
                )
                raise RunError(message, hint, source=self.source, server=beat.host)
            self._hand_on(on_output)
            answer = self.driver.known_status
            if answer is not None and answer.reason not in ("", shown):
                shown = answer.reason
                on_output(f"{answer.state}: {shown}")
            time.sleep(max(_POLL_S, self._generation.poll_s))
        self._hand_on(on_output)

    def end(self) -> None:
        """End all processes of the run: SIGTERM first, SIGKILL after at most 25 s.

        A driver on a cluster is ended by the cluster. No error if the run has ended already.
        Removes the run's folder for temporary files.

        Raises:
            RunError: Another machine launched the run, or the cluster did not end it.
            StateError: The launch's record, the heartbeat or a lease is damaged.
            UnavailableError: The cluster or the state's store does not answer.
            InputError: The cluster's command line tool is not installed.
        """
        driver = self.driver
        if not driver.is_on_cluster:
            # A process that came while it was being started does not know its group yet.
            ended = driver.launch.model_copy(update={"group": None})
            driver.launcher.stop(driver.recorded() or ended)
        elif self._is_alive():
            self._end_launching()
            self.end_on_cluster()
        shutil.rmtree(submit.scratch_folder(driver.launch.launch_id), ignore_errors=True)

    def end_on_cluster(self) -> None:
        """End the run's driver through its cluster, and wait up to 20 s until its lock is free.

        A driver that was killed can't report its end, so ``stopped`` is written to its heartbeat
        here.

        Raises:
            RunError: The cluster did not end it.
            StateError: The heartbeat or a lease is damaged, or the state can't be written.
            UnavailableError: The cluster or the state's store does not answer.
            InputError: The cluster's command line tool is not installed.
        """
        self.driver.launcher.stop(self.driver.launch)
        wait_until(lambda: not is_held(self._generation), GRACE_S)
        beat = self.driver.beat()
        if beat is not None and beat.state in ALIVE and not is_held(self._generation):
            # A driver that is killed can't write this itself.
            stopped = beat.model_copy(update={"state": "stopped"})
            self._generation.replace(heartbeat_name(self.source), stopped)

    def kill_remains(self) -> None:
        """Kill processes of the run that remain after its driver has ended, at once.

        Such as a ``spark-submit`` that holds the launch lock. Does nothing for a launch of another
        machine.
        """
        launch = self.driver.launch
        if launch.group is not None and launch.is_from_here:
            kill_group(launch.group)

    def require_good_end(self) -> None:
        """Refuse a run that has ended without having completed its work; call it after the end.

        Returns if the driver succeeded, or went on to a later source.

        Raises:
            StateError: The launch's record or the heartbeat is damaged.
            UnavailableError: The state's store does not answer.
            DriverError: It did not; with what the driver reported, or the last lines of its log.
        """
        if self.driver.has_switched():
            return
        is_good = self._ended().is_good
        beat = self.driver.beat()
        if is_good or (is_good is None and beat is not None and beat.state == "finished"):
            return
        raise self.failure()

    def failure(self) -> DriverError:
        """Return, for the caller to raise, the error that explains why the run ended.

        It contains what the driver reported, or else the last lines of the run's log; and what
        keeps the state folder from being written, if anything does.

        Raises:
            StateError: The heartbeat or a lease is damaged.
            UnavailableError: The state's store does not answer.
        """
        how, beat = self._ended().reason, self.driver.beat()
        reported = None if beat is None else beat.failure
        words = "" if reported is not None else self._last_words(how)
        if (obstacle := self._generation.obstacle()) is not None:
            # Then the driver may have been unable to report.
            words = f"{obstacle[0].upper()}{obstacle[1:]}. {words}".rstrip()
        return DriverError(self.source, how, reported, words)

    def _end_launching(self) -> None:
        """End a ``spark-submit`` that may still hand the driver over to the cluster."""
        recorded = self.driver.recorded()
        if recorded is None or recorded.group is None or not is_launched(self._generation):
            return
        if not recorded.is_from_here:
            message = (
                f"The run of `{self.source}` is being launched on {recorded.host}, so it can't be "
                "ended from this machine yet: its driver may still come up and write."
            )
            hint = (
                f"Run `hybrid stop P --generation {self._generation.name}` again once the driver "
                f"runs (`hybrid status P`), or run it on {recorded.host} now."
            )
            raise RunError(message, hint, source=self.source, server=recorded.host)
        kill_group(recorded.group)
        wait_until(lambda: not is_launched(self._generation), GRACE_S)

    def _ended(self) -> DriverStatus:
        """Return how it ended; a process that was started here is reaped."""
        if self._process is not None:
            self._process.wait()
        return self.driver.status()

    def _last_words(self, how: str) -> str:
        if how in KILLED:
            return "It was killed: by a person, or by the system because memory ran out."
        driver = self.driver
        printed = driver.launcher.logs(driver.launch, _TAIL_LINES)
        if driver.is_on_cluster and printed and self._log.exists():
            # Next to ``spark-submit``'s output: the pod, and YARN's logs, are removed some day.
            with self._log.open("a") as log:
                log.write(f"\n{printed}\n")
        return f"The last lines:\n{printed or run_log.last_lines(self._log, _TAIL_LINES)}"

    def _is_alive(self) -> bool:
        if self._process is not None and self._process.poll() is None:
            return True
        if self.driver.is_on_cluster:
            return self.driver.recorded() is not None and self.driver.is_there()
        if self._process is not None or self.driver.recorded() is None:
            return False
        return is_launched(self._generation)

    def _hand_on(self, on_output: OnOutput) -> None:
        for line in self._output.new_lines():
            on_output(line)
