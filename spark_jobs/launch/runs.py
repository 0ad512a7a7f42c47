"""Launches: who runs a generation's query, written down before anything is started.

Whoever comes back, be it another click, a restarted Dagster or a command line, finds the run by
this and goes on watching it instead of starting a second one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from sources.common.positions import now_ms
from sources.common.state import Generation
from sources.config.loader import LoadedPipeline
from sources.errors import RunError, StateError
from spark_jobs.launch import submit
from spark_jobs.launch.base import Launch, Launcher, Order, Status
from spark_jobs.launch.choice import launcher_at, place_of
from spark_jobs.launch.cluster_cli import require_tool
from spark_jobs.launch.local import GRACE_S, kill_group, wait_until
from spark_jobs.run_state import run_log
from spark_jobs.run_state.heartbeat import Heartbeat, heartbeat_name, read_heartbeat
from spark_jobs.run_state.lock import is_held, is_launched, take_launch_lock

__all__ = [
    "ALIVE",
    "GRACE_S",
    "Launch",
    "OnOutput",
    "Run",
    "find_or_launch",
    "find_run",
    "go_on",
    "last_launch",
    "last_lines",
    "log_path",
    "wait_until",
    "why_ended",
]

_POLL_S = 0.2
# A question to a cluster may start a JVM.
_ASK_S = 5.0
_TAIL_LINES = 25
_RECORD = "run/launch.json"
ALIVE = ("starting", "running")

OnOutput = Callable[[str], None]


def last_launch(generation: Generation) -> Launch | None:
    """The last launch, be it alive or not."""
    return generation.read(_RECORD, Launch)


def log_path(generation: Generation, source: str) -> Path:
    """Where the output of a source's last run goes."""
    last = last_launch(generation)
    # One that went on with another source writes where it began.
    is_its = last is not None and last.source == source
    return generation.path(last.log if last is not None and is_its else _log_name(source))


def go_on(generation: Generation, launch_id: str, source: str) -> None:
    """Write down that a launch has finished its source and goes on with the next one.

    Raises:
        StateError: Another one was launched meanwhile.
    """
    last = last_launch(generation)
    if last is None or last.launch_id != launch_id or source not in last.then:
        raise StateError("Another driver was launched meanwhile.", "Nothing is to be done.")
    then = last.then[last.then.index(source) + 1 :]
    changes = {"source": source, "then": then, "at_ms": now_ms()}
    generation.replace(_RECORD, last.model_copy(update=changes))


def find_run(generation: Generation, source: str) -> Run | None:
    """The run of a source if it is there, be it that it is still coming up.

    One of which a cluster does not tell anything counts as there.
    """
    run = _last_run(generation)
    if run is not None and run.source != source:
        return run.on(source)
    return run if run is not None and run.is_current() else None


def why_ended(generation: Generation, source: str) -> str | None:
    """What a cluster tells of the end of a source's last run; None if there is nothing to tell."""
    run = _last_run(generation)
    if run is None or run.source != source or not run.is_on_cluster:
        return None
    return run.status().reason or None


def last_lines(generation: Generation, lines: int) -> tuple[str, str] | None:
    """The source that was launched last, and the last lines that its driver printed.

    Returns:
        None if nothing was ever launched.
    """
    run = _last_run(generation)
    return None if run is None else (run.source, run.last_lines(lines))


def find_or_launch(
    loaded: LoadedPipeline,
    generation: Generation,
    sources: Sequence[str],
    extra: Mapping[str, str],
) -> Run:
    """The run of a source: found if it is there, else launched.

    Args:
        loaded: The pipeline.
        generation: Its state.
        sources: Which source is to be read; a driver that is launched goes on with those after it.
        extra: More variables for a job that is launched on this machine.

    Raises:
        StateError: A run of another source is there, or a driver that nobody launched; or nobody
            can tell whether one is there.
        RunError: A cluster does not end what is left of the run before.
        InputError: Spark can't be started, or could not be asked about later.
    """
    source, *then = sources
    if (running := find_run(generation, source)) is not None:
        running.require_known()
        return running
    launch_id = uuid.uuid4().hex
    # All that may be refused or takes time comes before the lock.
    place = place_of(loaded.pipeline.spark)
    require_tool(place)
    command = submit.command(loaded, generation, sources, launch_id)
    scratch = submit.scratch_folder(generation, launch_id)
    environment = {**submit.environment(loaded, scratch), **extra}
    deadline = time.monotonic() + GRACE_S
    while (lock := take_launch_lock(generation)) is None:
        if (running := find_run(generation, source)) is not None:
            return running
        found = _last_run(generation)
        if found is not None and found.is_current():
            found.require_source(source)
        if time.monotonic() > deadline + GRACE_S:
            message = f"Somebody launches pipeline `{loaded.pipeline.name}`, and gets nowhere."
            raise StateError(message, "End that process, then run again.")
        if time.monotonic() > deadline and found is not None:
            # Its driver is gone, what started it is not.
            found.kill_what_is_left()
    try:
        if is_held(generation):
            message = f"Another run of pipeline `{loaded.pipeline.name}` is active."
            raise StateError(message, "Wait for it, or end it with `hybrid stop`.")
        if (found := _launched_on_cluster(generation)) is not None:
            found.require_source(source)
            found.require_known()
            return found
        for left in submit.scratch_folders(generation):
            shutil.rmtree(left, ignore_errors=True)
        scratch.mkdir(parents=True)
        made = Launch(
            launch_id=launch_id,
            source=source,
            then=then,
            log=_log_name(source),
            group=None,
            at_ms=now_ms(),
            place=place,
        )
        log = generation.path(made.log)
        launcher = launcher_at(place, generation, log)
        generation.replace(_RECORD, made)
        process = launcher.launch(Order(command, environment, loaded.folder, log, lock))
        generation.replace(_RECORD, made.model_copy(update={"group": process.pid}))
    finally:
        os.close(lock)
    return Run(generation, made, launcher, process)


def _last_run(generation: Generation) -> Run | None:
    """The run of the last launch, be it there or not."""
    if (found := last_launch(generation)) is None:
        return None
    launcher = launcher_at(found.place, generation, generation.path(found.log))
    return Run(generation, found, launcher)


def _launched_on_cluster(generation: Generation) -> Run | None:
    """The last run if it is a cluster's: it may be there while nobody holds a lock for it.

    Raises:
        RunError: It has said its last word and does not go away.
    """
    found = _last_run(generation)
    if found is None or not found.is_on_cluster or found.status().state == "ended":
        return None
    if not found.is_over():
        return found
    found.end_on_cluster()
    return None


class Run:
    """A run that is watched, by whoever launched it or by somebody who came later.

    Args:
        generation: Its state.
        launch: What was written down of it.
        launcher: Who launched it.
        process: ``spark-submit``, if it was started here.
    """

    def __init__(
        self,
        generation: Generation,
        launch: Launch,
        launcher: Launcher,
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self._generation = generation
        self._launch = launch
        self._launcher = launcher
        self._process = process
        self._log = generation.path(launch.log)
        # Somebody who came later is told what comes later.
        self._read = 0 if process is not None else run_log.size(self._log)
        self._asked: Status | None = None
        self._asked_at = 0.0

    @property
    def source(self) -> str:
        """Which source it reads."""
        return self._launch.source

    @property
    def is_on_cluster(self) -> bool:
        """Whether its driver is a cluster's."""
        return self._launch.place.is_cluster

    def status(self) -> Status:
        """What its launcher says of the driver; of a cluster's, what it said a moment ago."""
        is_due = time.monotonic() - self._asked_at >= _ASK_S
        if self._asked is None or is_due or not self.is_on_cluster:
            self._asked = self._launcher.status(self._launch)
            self._asked_at = time.monotonic()
        return self._asked

    def is_current(self) -> bool:
        """Whether it is coming up or running, and is not what is left of a run."""
        if self.is_over():
            return False
        if self.is_on_cluster:
            return self._is_there()
        is_driven = self.beat() is None or is_held(self._generation)
        return is_driven and is_launched(self._generation)

    def on(self, source: str) -> Run | None:
        """The same run as one of the source that it goes on with at this moment, if it does."""
        beat = self.beat()
        is_done = beat is not None and beat.state == "finished" and is_held(self._generation)
        if not is_done or self._launch.then[:1] != [source]:
            return None
        launch = self._launch.model_copy(update={"source": source})
        return Run(self._generation, launch, self._launcher)

    def is_over(self) -> bool:
        """Whether its driver has said its last word, be it still winding down."""
        beat = self.beat()
        return beat is not None and beat.state not in ALIVE

    def require_known(self) -> None:
        """Refuse to build on a run of which nobody can tell whether it is there.

        Raises:
            StateError: The cluster does not answer.
        """
        if self.is_on_cluster and not self._is_heard() and self.status().state == "unknown":
            message = (
                f"Whether the last launch of `{self.source}` still runs can't be told: "
                f"{self.status().reason}"
            )
            raise StateError(message, "Nothing was started. Run again once the cluster answers.")

    def require_source(self, source: str) -> None:
        """Refuse a run of another source.

        Raises:
            StateError: It is one.
        """
        if self.source != source:
            message = f"A run of `{self.source}` is active."
            raise StateError(message, "Wait for it, or end it with `hybrid stop`.")

    def kill_what_is_left(self) -> None:
        """End by force what is left of it on this machine."""
        if self._launch.group is not None and self._launch.is_from_here:
            kill_group(self._launch.group)

    def beats(
        self, on_output: OnOutput = lambda _: None, silence: timedelta = timedelta.max
    ) -> Iterator[Heartbeat]:
        """Each new heartbeat until the run ends; lines of its output are handed on meanwhile.

        For who watches a source, its run ends where the driver goes on with the next one.

        Args:
            on_output: Called with each line of the run's own output.
            silence: How long there may be none once there was one.

        Raises:
            RunError: There was none for so long: the driver is frozen.
        """
        seen, told, heard = 0, "", time.monotonic()
        while self._is_alive() and not self.has_gone_on():
            beat = self.beat()
            if beat is not None and beat.at_ms != seen:
                seen = beat.at_ms
                yield beat
                heard = time.monotonic()
            elif beat is not None and time.monotonic() - heard > silence.total_seconds():
                message = (
                    f"The Spark run of `{self.source}` is frozen: its driver, {beat.pid} on "
                    f"{beat.host}, was last heard of {time.monotonic() - heard:,.0f} s ago."
                )
                hint = "It was ended (`supervision.end_stuck_after`); run again, it goes on."
                raise RunError(message, hint)
            self._hand_on(on_output)
            if self._asked is not None and self._asked.reason not in ("", told):
                told = self._asked.reason
                on_output(f"{self._asked.state}: {told}")
            time.sleep(_POLL_S)
        self._hand_on(on_output)

    def end(self) -> None:
        """Make sure that nothing of it is left: gently first, then by force.

        Raises:
            RunError: A cluster does not do that now, or another machine launched it.
        """
        if not self.is_on_cluster:
            # Whoever came while it was started does not know its group yet.
            ended = self._launch.model_copy(update={"group": None})
            self._launcher.stop(self._recorded() or ended)
        elif self._is_alive():
            self._end_launching()
            self.end_on_cluster()
        scratch = submit.scratch_folder(self._generation, self._launch.launch_id)
        shutil.rmtree(scratch, ignore_errors=True)

    def end_on_cluster(self) -> None:
        """Let the cluster end it, and wait until its driver is gone.

        Raises:
            RunError: The cluster does not do that now.
        """
        self._launcher.stop(self._launch)
        wait_until(lambda: not is_held(self._generation), GRACE_S)
        beat = self.beat()
        if beat is not None and beat.state in ALIVE and not is_held(self._generation):
            # A driver that is killed can't say it by itself.
            said = beat.model_copy(update={"state": "stopped"})
            self._generation.replace(heartbeat_name(self.source), said)

    def _end_launching(self) -> None:
        """End what may still hand it over; the cluster is asked about what it was handed."""
        recorded = self._recorded()
        if recorded is None or recorded.group is None or not is_launched(self._generation):
            return
        if not recorded.is_from_here:
            message = f"The run of `{self.source}` is being launched on {recorded.host}."
            raise RunError(message, "Try again once it is launched, or end it from there.")
        kill_group(recorded.group)
        wait_until(lambda: not is_launched(self._generation), GRACE_S)

    def require_good_end(self) -> None:
        """Refuse a run that did not end as it should.

        Raises:
            RunError: Carries how it ended, where that is known, and the cause or the last lines.
        """
        if self.has_gone_on():
            return
        is_good = self._ended().is_good
        beat = self.beat()
        if is_good or (is_good is None and beat is not None and beat.state == "finished"):
            return
        raise self.failure()

    def failure(self) -> RunError:
        """What to tell of a run that ended."""
        how, beat = self._ended().reason, self.beat()
        cause = str(beat.failure) if beat is not None and beat.failure else self._last_words()
        if (obstacle := self._generation.obstacle()) is not None:
            # Then the run could not keep its own last words.
            cause = f"{obstacle[0].upper()}{obstacle[1:]}. {cause}"
        return RunError(f"The Spark run of `{self.source}` ended{how and f' {how}'}. {cause}")

    def has_gone_on(self) -> bool:
        """Whether the driver has finished the source and reads another one."""
        recorded = self._recorded()
        if recorded is None:
            return False
        return self._launch.source not in (recorded.source, *recorded.then)

    def _ended(self) -> Status:
        """How it ended; a process that was started here is reaped."""
        if self._process is not None:
            self._process.wait()
        return self.status()

    def last_lines(self, count: int) -> str:
        """The last lines that its driver printed; ``spark-submit``'s if there are none."""
        return self._launcher.logs(self._launch, count) or run_log.last_lines(self._log, count)

    def _last_words(self) -> str:
        printed = self._launcher.logs(self._launch, _TAIL_LINES)
        if self.is_on_cluster and printed:
            # Beside what `spark-submit` has printed: the pod, or YARN's memory, does not last.
            with self._log.open("a") as log:
                log.write(f"\n{printed}\n")
        return f"The last lines:\n{printed or run_log.last_lines(self._log, _TAIL_LINES)}"

    def _is_alive(self) -> bool:
        if self._process is not None and self._process.poll() is None:
            return True
        if self.is_on_cluster:
            return self._recorded() is not None and self._is_there()
        return (
            self._process is None and self._recorded() is not None and is_launched(self._generation)
        )

    def _is_there(self) -> bool:
        """Whether a cluster has it, or is about to get it; no answer is not an end."""
        if is_launched(self._generation) or self._is_heard():
            return True
        return self.status().state != "ended"

    def _is_heard(self) -> bool:
        """Whether its driver says that it runs, and holds its lock."""
        beat = self.beat()
        return beat is not None and beat.state in ALIVE and is_held(self._generation)

    def _recorded(self) -> Launch | None:
        """What is written down of it by now; None once there is a later launch."""
        last = last_launch(self._generation)
        return last if last is not None and last.launch_id == self._launch.launch_id else None

    def beat(self) -> Heartbeat | None:
        """The latest heartbeat of this launch, not of an earlier one."""
        beat = read_heartbeat(self._generation, self._launch.source)
        is_own = beat is not None and beat.launch_id == self._launch.launch_id
        return beat if is_own else None

    def _hand_on(self, on_output: OnOutput) -> None:
        size = run_log.size(self._log)
        if size < self._read:
            # The driver has put what was read aside.
            self._read = 0
        if size == self._read:
            return
        with self._log.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                on_output(line.decode(errors="replace").rstrip("\n"))


def _log_name(source: str) -> str:
    return f"run/{source}.log"
