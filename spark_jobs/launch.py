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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field

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
        source: Which source it reads by now.
        then: Sources that it goes on with by itself, in order.
        log: Name of its output in the state folder.
        group: Process group of all that it started; None until it was.
        at_ms: When it was launched, or went on with this source.
    """

    VERSION = 2

    launch_id: str
    source: str
    then: list[str] = Field(default_factory=list)
    log: str
    group: int | None
    at_ms: int


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
    """The run of a source if it is there, be it that it is still coming up."""
    if not is_launched(generation):
        return None
    found = last_launch(generation)
    if found is None or not _reads(generation, found, source):
        return None
    return Run(generation, found.model_copy(update={"source": source}), None)


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
        extra: More variables for a job that is launched.

    Raises:
        StateError: A run of another source is there, or a driver that nobody launched.
        InputError: Spark can't be started.
    """
    source, *then = sources
    if (running := find_run(generation, source)) is not None:
        return running
    launch_id = uuid.uuid4().hex
    # All that may be refused or takes time comes before the lock.
    command = submit.command(loaded, generation, sources, launch_id)
    scratch = submit.scratch_folder(generation, launch_id)
    environment = {**submit.environment(loaded, scratch), **extra}
    deadline = time.monotonic() + GRACE_S
    while (lock := take_launch_lock(generation)) is None:
        if (running := find_run(generation, source)) is not None:
            return running
        found = last_launch(generation)
        if found is not None and found.source != source and _is_current(generation, found):
            message = f"A run of `{found.source}` is active."
            raise StateError(message, "Wait for it, or end it with `hybrid stop`.")
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
        made = Launch(
            launch_id=launch_id,
            source=source,
            then=then,
            log=_log_name(source),
            group=None,
            at_ms=now_ms(),
        )
        generation.replace(_RECORD, made)
        with generation.path(made.log).open("wb") as output:
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


def _reads(generation: Generation, launch: Launch, source: str) -> bool:
    """Whether a launch whose lock is held reads a source, or goes on with it at this moment."""
    if launch.source == source:
        return _is_current(generation, launch)
    beat = read_heartbeat(generation, launch.source)
    is_done = beat is not None and beat.launch_id == launch.launch_id and beat.state == "finished"
    return is_done and launch.then[:1] == [source] and is_held(generation)


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
        self._log = generation.path(launch.log)
        # Somebody who came later is told what comes later.
        self._read = 0 if process is not None else _size(self._log)

    def beats(self, on_output: OnOutput = lambda _: None) -> Iterator[Heartbeat]:
        """Each new heartbeat until the run ends; lines of its output are handed on meanwhile.

        For who watches a source, its run ends where the driver goes on with the next one.
        """
        seen = 0
        while self._is_alive() and not self.has_gone_on():
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
        if self.has_gone_on():
            return
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
        if (obstacle := self._generation.obstacle()) is not None:
            # Then the run could not keep its own last words.
            cause = f"{obstacle[0].upper()}{obstacle[1:]}. {cause}"
        how = "" if status is None else f" with status {status}"
        return RunError(f"The Spark run of `{self._launch.source}` ended{how}. {cause}")

    def has_gone_on(self) -> bool:
        """Whether the driver has finished the source and reads another one."""
        recorded = self._recorded()
        if recorded is None:
            return False
        return self._launch.source not in (recorded.source, *recorded.then)

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


def _log_name(source: str) -> str:
    return f"run/{source}.log"


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
