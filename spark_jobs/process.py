"""Starting, watching and ending the processes of Spark runs, on this machine.

A run is a process group of its own: ``spark-submit``'s JVM with the Python driver as its child.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from sources.document import LoadedPipeline
from sources.errors import RunError, StateError
from sources.state import Generation
from spark_jobs import submit
from spark_jobs.heartbeat import Heartbeat, read_heartbeat
from spark_jobs.lock import is_held

GRACE_S = 20.0
_JVM_EXIT_S = 5.0
_POLL_S = 0.2
_TAIL_LINES = 25

OnBeat = Callable[[Heartbeat], None]
OnOutput = Callable[[str], None]


def run_to_end(
    loaded: LoadedPipeline,
    generation: Generation,
    source: str,
    on_beat: OnBeat = lambda _: None,
    on_output: OnOutput = lambda _: None,
    extra_environment: Mapping[str, str] | None = None,
) -> None:
    """Run a bounded source and wait for its end; if interrupted, end Spark too.

    Args:
        loaded: The pipeline.
        generation: Its state.
        source: Name of the source.
        on_beat: Called with each new heartbeat.
        on_output: Called with each line of the run's own output.
        extra_environment: More variables for the job.

    Raises:
        RunError: It failed; carries exit status, cause and last lines.
        StateError: Another run of this generation is active.
    """
    launch = _Launch(loaded, generation, source)
    process = launch.start(subprocess.PIPE, extra_environment or {})
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    assert process.stdout is not None
    reader = threading.Thread(target=_tee, args=(process.stdout, tail, on_output), daemon=True)
    reader.start()
    try:
        for beat in launch.beats(process):
            on_beat(beat)
    finally:
        launch.end(process)
        reader.join(GRACE_S)
    if process.returncode != 0:
        raise launch.failure(process.returncode, "\n".join(tail))


def start_detached(
    loaded: LoadedPipeline, generation: Generation, source: str, on_beat: OnBeat = lambda _: None
) -> Heartbeat:
    """Start an unbounded source, or find it running; return once its first batch is in.

    The run is a process of its own and lives on. With nothing to read, waiting for data counts
    as a first batch.

    Raises:
        RunError: It ended before that; carries the cause and last lines.
        StateError: A run of another source of this generation is active.
    """
    if (running := find_running(generation, source)) is not None:
        return running
    launch = _Launch(loaded, generation, source)
    log = log_path(generation, source)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = launch.start(output, {})
    try:
        for beat in launch.beats(process):
            on_beat(beat)
            if beat.state == "running" and (beat.batches or beat.idle):
                return beat
    except BaseException:
        launch.end(process)
        raise
    launch.end(process)
    lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    raise launch.failure(process.returncode, "\n".join(lines))


def find_running(generation: Generation, source: str) -> Heartbeat | None:
    """The heartbeat of a source's run if it is alive."""
    beat = read_heartbeat(generation, source)
    return beat if beat is not None and beat.state in _ALIVE and is_held(generation) else None


def stop(generation: Generation, source: str, grace_s: float = GRACE_S) -> bool:
    """End a run: SIGTERM to its driver, which ends the query cleanly; SIGKILL after ``grace_s``.

    Returns:
        Whether there was a run to end.
    """
    beat = find_running(generation, source)
    if beat is None:
        if not is_held(generation):
            # What a run that died alone has left.
            shutil.rmtree(submit.scratch_folder(generation), ignore_errors=True)
        return False
    try:
        group = os.getpgid(beat.pid)
        os.kill(beat.pid, signal.SIGTERM)
    except ProcessLookupError:
        # It ended by itself between the look and the signal.
        return False
    deadline = time.monotonic() + grace_s
    while is_held(generation) and time.monotonic() < deadline:
        time.sleep(_POLL_S / 2)
    # The JVM follows its driver; what has not gone by itself is ended by force.
    deadline = time.monotonic() + _JVM_EXIT_S
    while _group_alive(group) and time.monotonic() < deadline:
        time.sleep(_POLL_S / 2)
    _signal_group(group, signal.SIGKILL)
    shutil.rmtree(submit.scratch_folder(generation), ignore_errors=True)
    return True


def log_path(generation: Generation, source: str) -> Path:
    """Where the output of an unbounded run goes."""
    return generation.path(f"run/{source}.log")


_ALIVE = ("starting", "running")


class _Launch:
    """One launch of a source: its id, its process, and how it is ended."""

    def __init__(self, loaded: LoadedPipeline, generation: Generation, source: str) -> None:
        self.launch_id = uuid.uuid4().hex
        self._loaded = loaded
        self._generation = generation
        self._source = source
        self._scratch = submit.scratch_folder(generation)

    def start(self, output: int | IO[bytes], extra: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start the process.

        Raises:
            StateError: Another run of this generation is active.
        """
        if is_held(self._generation):
            message = f"Another run of pipeline `{self._loaded.pipeline.name}` is active."
            raise StateError(message, "Wait for it, or end it with `hybrid stop`.")
        environment = submit.environment(self._loaded, self._scratch)
        command = submit.command(self._loaded, self._generation, self._source, self.launch_id)
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=self._loaded.folder,
            env={**environment, **extra},
            start_new_session=True,
        )

    def beats(self, process: subprocess.Popen[bytes]) -> Iterator[Heartbeat]:
        """Each new heartbeat of this launch, until its process ends."""
        seen = 0
        while process.poll() is None:
            beat = self.beat()
            if beat is not None and beat.at_ms != seen:
                seen = beat.at_ms
                yield beat
            _wait(process, _POLL_S)

    def beat(self) -> Heartbeat | None:
        """The latest heartbeat of this launch, not of an earlier one."""
        beat = read_heartbeat(self._generation, self._source)
        return beat if beat is not None and beat.launch_id == self.launch_id else None

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Make sure that nothing of the group is left: gently first, then by force."""
        if process.poll() is None:
            beat = self.beat()
            with contextlib.suppress(ProcessLookupError):
                # Only the driver: a JVM that gets the signal too is gone before the query stops.
                if beat is not None:
                    os.kill(beat.pid, signal.SIGTERM)
                else:
                    os.killpg(process.pid, signal.SIGTERM)
            _wait(process, GRACE_S)
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def failure(self, status: int, tail: str) -> RunError:
        beat = self.beat()
        cause = beat.error if beat is not None and beat.error else f"The last lines:\n{tail}"
        message = f"The Spark run of `{self._source}` ended with status {status}. {cause}"
        return RunError(message)


def _tee(stream: IO[bytes], tail: deque[str], on_output: OnOutput) -> None:
    for line in stream:
        text = line.decode(errors="replace").rstrip("\n")
        tail.append(text)
        on_output(text)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


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
