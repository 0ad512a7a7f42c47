"""Launches: who runs a generation's query, written down before anything is started.

Whoever comes back, be it another click, a restarted Dagster or a command line, finds the run by
this and goes on watching it instead of starting a second one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from sources.document import LoadedPipeline
from sources.errors import RunError, StateError
from sources.positions import Record, now_ms
from sources.state import Generation
from spark_jobs import submit
from spark_jobs.heartbeat import Heartbeat, read_heartbeat
from spark_jobs.lock import is_held, is_launched, take_launch_lock

GRACE_S = 20.0
_JVM_EXIT_S = 5.0
_POLL_S = 0.2
_TAIL_LINES = 25
_RECORD = "run/launch.json"
ALIVE = ("starting", "running")

OnOutput = Callable[[str], None]


class Launch(Record):
    """The last launch of a generation.

    Attributes:
        launch_id: Which one; its heartbeats carry it.
        source: Which source it reads.
        group: Process group of all that it started; None until it was.
        at_ms: When.
    """

    launch_id: str
    source: str
    group: int | None
    at_ms: int


def last_launch(generation: Generation) -> Launch | None:
    """The last launch, be it alive or not."""
    return generation.read(_RECORD, Launch)


def log_path(generation: Generation, source: str) -> Path:
    """Where the output of a source's last run goes."""
    return generation.path(f"run/{source}.log")


def find_run(generation: Generation, source: str) -> Run | None:
    """The run of a source if it is there, be it that it is still coming up."""
    if not is_launched(generation):
        return None
    found = last_launch(generation)
    is_it = found is not None and found.source == source and _is_current(generation, found)
    return Run(generation, found, None) if found is not None and is_it else None


def find_or_launch(
    loaded: LoadedPipeline, generation: Generation, source: str, extra: Mapping[str, str]
) -> Run:
    """The run of a source: found if it is there, else launched.

    Args:
        loaded: The pipeline.
        generation: Its state.
        source: Which source is to be read.
        extra: More variables for a job that is launched.

    Raises:
        StateError: A run of another source is there, or a driver that nobody launched.
        InputError: Spark can't be started.
    """
    if (running := find_run(generation, source)) is not None:
        return running
    launch_id = uuid.uuid4().hex
    # All that may be refused or takes time comes before the lock.
    command = submit.command(loaded, generation, source, launch_id)
    scratch = submit.scratch_folder(generation, launch_id)
    environment = {**submit.environment(loaded, scratch), **extra}
    deadline = time.monotonic() + GRACE_S
    while (lock := take_launch_lock(generation)) is None:
        found = last_launch(generation)
        if found is not None and _is_current(generation, found):
            if found.source != source:
                message = f"A run of `{found.source}` is active."
                raise StateError(message, "Wait for it, or end it with `hybrid stop`.")
            return Run(generation, found, None)
        if time.monotonic() > deadline + GRACE_S:
            message = f"Somebody launches pipeline `{loaded.pipeline.name}`, and gets nowhere."
            raise StateError(message, "End that process, then run again.")
        if time.monotonic() > deadline and found is not None and found.group is not None:
            # Its driver is gone, what started it is not.
            _signal_group(found.group, signal.SIGKILL)
    try:
        if is_held(generation):
            message = f"Another run of pipeline `{loaded.pipeline.name}` is active."
            raise StateError(message, "Wait for it, or end it with `hybrid stop`.")
        for left in submit.scratch_folders(generation):
            shutil.rmtree(left, ignore_errors=True)
        scratch.mkdir(parents=True)
        made = Launch(launch_id=launch_id, source=source, group=None, at_ms=now_ms())
        generation.replace(_RECORD, made)
        log = log_path(generation, source)
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=loaded.folder,
                env=environment,
                start_new_session=True,
                pass_fds=[lock],
            )
        generation.replace(_RECORD, made.model_copy(update={"group": process.pid}))
    finally:
        os.close(lock)
    return Run(generation, made, process)


def _is_current(generation: Generation, launch: Launch) -> bool:
    """Whether a launch whose lock is held is coming up or running, and not what is left of it."""
    beat = read_heartbeat(generation, launch.source)
    if beat is None or beat.launch_id != launch.launch_id:
        return True
    return beat.state in ALIVE and is_held(generation)


class Run:
    """A run that is watched, by whoever launched it or by somebody who came later.

    Args:
        generation: Its state.
        launch: What was written down of it.
        process: The process, if it was launched here.
    """

    def __init__(
        self, generation: Generation, launch: Launch, process: subprocess.Popen[bytes] | None
    ) -> None:
        self._generation = generation
        self._launch = launch
        self._process = process
        self._log = log_path(generation, launch.source)
        # Somebody who came later is told what comes later.
        self._read = 0 if process is not None else _size(self._log)

    def beats(self, on_output: OnOutput = lambda _: None) -> Iterator[Heartbeat]:
        """Each new heartbeat until the run ends; lines of its output are handed on meanwhile."""
        seen = 0
        while self._is_alive():
            beat = self.beat()
            if beat is not None and beat.at_ms != seen:
                seen = beat.at_ms
                yield beat
            self._hand_on(on_output)
            time.sleep(_POLL_S)
        self._hand_on(on_output)

    def end(self) -> None:
        """Make sure that nothing of it is left: gently first, then by force."""
        # Whoever came while it was started does not know its group yet.
        recorded = self._recorded()
        group = recorded.group if recorded is not None else None
        if group is not None and self._is_alive():
            beat = self.beat()
            with contextlib.suppress(ProcessLookupError):
                # Only the driver: a JVM that gets the signal too is gone before the query stops.
                if beat is not None:
                    os.kill(beat.pid, signal.SIGTERM)
                else:
                    os.killpg(group, signal.SIGTERM)
            wait_until(lambda: not self._is_alive(), GRACE_S)
            _end_group(group)
        elif self._process is not None:
            _end_group(self._process.pid)
        scratch = submit.scratch_folder(self._generation, self._launch.launch_id)
        shutil.rmtree(scratch, ignore_errors=True)

    def require_good_end(self) -> None:
        """Refuse a run that did not end as it should.

        Raises:
            RunError: Carries exit status, where it is known, and the cause or the last lines.
        """
        status = None if self._process is None else self._process.wait()
        beat = self.beat()
        if status == 0 or (status is None and beat is not None and beat.state == "finished"):
            return
        raise self.failure()

    def failure(self) -> RunError:
        """What to tell of a run that ended."""
        status = None if self._process is None else self._process.wait()
        beat = self.beat()
        lines = self._log.read_text(errors="replace").splitlines() if _size(self._log) else []
        tail = "\n".join(lines[-_TAIL_LINES:])
        cause = beat.error if beat is not None and beat.error else f"The last lines:\n{tail}"
        how = "" if status is None else f" with status {status}"
        return RunError(f"The Spark run of `{self._launch.source}` ended{how}. {cause}")

    def _is_alive(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        return self._recorded() is not None and is_launched(self._generation)

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
        if _size(self._log) <= self._read:
            return
        with self._log.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                on_output(line.decode(errors="replace").rstrip("\n"))


def _size(path: Path) -> int:
    """Bytes in a file; 0 before it is made."""
    return path.stat().st_size if path.exists() else 0


def _end_group(group: int) -> None:
    """End all processes of a group that do not end by themselves soon."""
    wait_until(lambda: not _group_alive(group), _JVM_EXIT_S)
    _signal_group(group, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for a condition, but no longer than that."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(_POLL_S / 2)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _group_alive(group: int) -> bool:
    # A zombie still answers to signals: reap it if it is ours.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-group, os.WNOHANG)
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
