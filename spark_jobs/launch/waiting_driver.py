"""Driver that is started in advance, so that a run need not wait for Spark's start.

While a first run is planned, it answers the plan's questions: Spark then starts once, not once to
check the transform and again for the run. Towards the end of a bounded source, it is the driver of
the next one. It has all that one of a launch has: its settings, its log, and the launch lock, as
files whose names or locks it gets with its run. Until then it ends as soon as the process that
started it does.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sources.config.loader import LoadedPipeline
from sources.kept_definitions import code_digests
from sources.state.generation import Generation
from spark_jobs.launch.places.local import kill_group
from spark_jobs.launch.questions.spark_process import TIMEOUT_S, Channel, SparkProcess
from spark_jobs.launch.submission import submit
from spark_jobs.launch.user_socket import listen
from spark_jobs.run_state import run_log
from spark_jobs.run_state.inherited_file import UnnamedFile
from spark_jobs.run_state.inherited_lock import InheritedLock
from spark_jobs.run_state.lock import Lock

_LOOK_S = 0.2


class WaitingDriver(SparkProcess):
    """Spark driver that is started in advance and waits for a run; a context manager.

    While a plan is made it answers questions, too. On leaving the context it is ended, unless it
    was given a run: then it outlives the context, and another one may be started.

    Args:
        loaded: The pipeline.

    Attributes:
        launch_id: Identifier of the launch that the driver is for; empty before one was started.
    """

    def __init__(self, loaded: LoadedPipeline) -> None:
        super().__init__(loaded)
        self.launch_id = ""
        self._launched: Generation | None = None
        self._started_as: tuple[Any, ...] = ()
        self._lock: InheritedLock | None = None
        self._output: UnnamedFile | None = None
        self._server: socket.socket | None = None
        self._connection: Channel | None = None

    @staticmethod
    def fits(loaded: LoadedPipeline) -> bool:
        """Return whether a pipeline's runs can use a driver that was started in advance.

        True if driver and executors are one process of this machine, the state is on it as well,
        and nobody has to approve the plan before a run.
        """
        spark = loaded.pipeline.spark
        is_here = spark.master.startswith("local") and spark.driver == "own"
        return is_here and loaded.state.is_local and not loaded.pipeline.approve

    def start_next(self, generation: Generation) -> None:
        """Start a driver for a generation's next launch, when the present run nears its end.

        Does nothing if one waits already; raises nothing if it can't be started.

        Args:
            generation: State folder of the generation.
        """
        if self._process is None and self._launched is None:
            self._launched, self.reason = generation, None
            self.start()

    def end(self) -> None:
        """End the waiting driver, unless it was given a run: then it runs on."""
        super().end()
        self._leave()

    def take_lock(self, loaded: LoadedPipeline, generation: Generation) -> Lock | None:
        """Take a generation's launch lock for the waiting driver; call :meth:`run` next.

        The driver holds the lock until it ends. None, with the driver ended, if there is no driver,
        it was started for something else, such as code that was changed since, or another process
        launches: then launch in the ordinary way.

        Args:
            loaded: The pipeline as it is launched.
            generation: State folder of the generation.

        Raises:
            InputError: Java, Spark or a jar is missing.
        """
        process, inherited, lock = self._process, self._lock, None
        is_fit = process is not None and process.poll() is None and self.reason is None
        if is_fit and inherited and self._needed(loaded) == self._started_as:
            lock = inherited.take(generation)
        if lock is None:
            self.end()
        # Who has the lock closes its file.
        self._lock = None
        return lock

    def run(
        self, generation: Generation, sources: Sequence[str], log: Path, extra: Mapping[str, str]
    ) -> tuple[int, subprocess.Popen[bytes]]:
        """Give the waiting driver its run: sources to read, one after the other.

        From then on it outlives this process. If it has ended already, nothing is raised here: who
        watches the run finds that out.

        Args:
            generation: State folder of the generation, whose lock was taken for it.
            sources: Names of the sources, in order.
            log: The run's log file.
            extra: More environment variables for its job.

        Returns:
            Process id of the driver, and the process.

        Raises:
            OSError: The log can't be written.
        """
        process, output = self._process, self._output
        assert process is not None
        assert output is not None
        submit.claim_scratch(submit.scratch_folder(self.launch_id), generation)
        run_log.begin(log)
        log.unlink()
        output.name(log)
        arguments = submit.job_arguments(self._loaded, sources, self.launch_id, generation.name)
        # One that has ended is noticed by who watches the run.
        if (channel := self._channel(process)) is not None:
            with suppress(ConnectionError):
                channel.questions.write(f"{json.dumps([arguments, dict(extra)])}\n")
                channel.questions.flush()
        self._process = self._scratch = None
        self._leave()
        return process.pid, process

    def _needed(self, loaded: LoadedPipeline) -> tuple[list[str], dict[str, str], list[str]]:
        """Return command and environment of the driver, and what shows a change of the code."""
        return (
            submit.waiting_command(loaded, self.launch_id),
            submit.environment(loaded, submit.scratch_folder(self.launch_id)),
            code_digests(loaded),
        )

    def _leave(self) -> None:
        """Close what connects this process with the driver."""
        for way in self._connection or ():
            with suppress(ConnectionError):
                way.close()
        if self._server is not None:
            self._server.close()
        for file in (self._lock, self._output):
            if file is not None:
                os.close(file.descriptor)
        self._connection = self._server = self._lock = self._output = self._launched = None

    def _start(self) -> subprocess.Popen[Any]:
        root, launched = self._loaded.state.root, self._launched
        try:
            self._output = UnnamedFile(root)
        except OSError:
            if launched is not None:
                raise
            # The plan can do without a driver that waits.
            return super()._start()
        self._lock, self.launch_id = InheritedLock(root, launched), uuid.uuid4().hex
        self._started_as = command, environment, _ = self._needed(self._loaded)
        scratch = self._scratch = submit.scratch_folder(self.launch_id)
        submit.prepare_scratch(self._loaded, scratch)
        self._server = listen(scratch)
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._output.descriptor,
            stderr=subprocess.STDOUT,
            cwd=self._loaded.folder,
            env=environment,
            start_new_session=True,
            pass_fds=[self._lock.descriptor],
        )

    def _channel(self, process: subprocess.Popen[Any]) -> Channel | None:
        if self._server is None:
            return super()._channel(process)
        if self._connection is None:
            self._server.settimeout(_LOOK_S)
            connection, deadline = None, time.monotonic() + TIMEOUT_S
            # The driver connects before it starts Spark.
            while connection is None and process.poll() is None:
                if time.monotonic() > deadline:
                    kill_group(process.pid)
                with suppress(TimeoutError):
                    connection, _ = self._server.accept()
            if connection is not None:
                with connection:
                    connection.settimeout(None)
                    self._connection = Channel(connection.makefile("w"), connection.makefile("r"))
        return self._connection

    def _log(self) -> Path | None:
        return super()._log() if self._output is None else self._output.path
