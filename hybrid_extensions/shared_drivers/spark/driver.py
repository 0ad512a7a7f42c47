"""Driver that several pipelines share: one Spark application, a thread for each; ends if idle."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from hybrid_extensions.shared_drivers.requests import (
    Answer,
    Request,
    RunRequest,
    log_of,
    receive,
)
from sources.config.code.own_modules import OwnModules
from sources.config.loader import load_pipeline
from sources.errors import HybridError
from spark_jobs.inside.driver.own_output import OwnOutput
from spark_jobs.inside.driver.pipeline_run import PipelineRun, only_session
from spark_jobs.inside.driver.reports.reporter import Beats
from spark_jobs.launch.submission.spark_properties import POOL
from spark_jobs.launch.user_socket import listen
from spark_jobs.run_state import run_log

IDLE_S = 60.0
"""Seconds without a pipeline after which the driver ends."""
_LOOK_S = 1.0
_END_S = 60.0
_BEATS = Beats(idle_s=10.0)


@dataclass
class _Member:
    """A run in the driver.

    Attributes:
        pipeline: Name of the pipeline.
        stop: Event that stops the run.
    """

    pipeline: str
    stop: threading.Event = field(default_factory=threading.Event)


class SharedDriver:
    """Process that runs several pipelines in one Spark application, on request through a socket.

    It ends when it has had no pipeline for 60 s. Each run has a thread, a Spark session, a pool of
    Spark's fair scheduler, its locks, a heartbeat and a log of its own. One that fails or is
    stopped does not touch the others.

    Args:
        folder: The driver's folder on this machine; no other driver of the folder runs.
        settings: Digests of what the pipelines have in common, by field.
        started_by: Name of the pipeline whose launch has started the driver.
    """

    def __init__(self, folder: Path, settings: dict[str, str], started_by: str) -> None:
        self._folder = folder
        self._settings = settings
        self._started_by = started_by
        # Runs by the id of their launch.
        self._members: dict[str, _Member] = {}
        self._parent = os.getppid()
        self._spark: SparkSession | None = None
        self._starting = threading.Lock()

    def serve(self, end: threading.Event) -> int:
        """Answer requests until the driver is idle for 60 s, is asked to end, or loses its JVM.

        Blocks. At the end all runs are stopped, for which it waits 60 s at most; if some still run
        then, or the JVM has ended, the process exits at once with status 1.

        Args:
            end: Event that ends the driver.

        Returns:
            0.
        """
        with listen(self._folder) as server, OwnOutput.installed():
            server.settimeout(_LOOK_S)
            busy_at = time.monotonic()
            while not end.is_set() and self._has_jvm():
                with suppress(TimeoutError):
                    connection, _ = server.accept()
                    with connection:
                        if self._answer(connection).is_ending:
                            break
                run_log.trim(log_of(self._folder))
                if self._members:
                    busy_at = time.monotonic()
                elif time.monotonic() - busy_at > IDLE_S:
                    break
            has_jvm = self._has_jvm()
            for member in list(self._members.values()):
                member.stop.set()
            deadline = time.monotonic() + _END_S
            while self._members and has_jvm and time.monotonic() < deadline:
                time.sleep(0.1)
        if not has_jvm or self._members:
            # Threads that wait for the JVM would keep the process, and with it their locks.
            os._exit(1)
        if self._spark is not None:
            self._spark.stop()
        return 0

    def _application(self) -> SparkSession:
        """Return the application's session; the first run starts it, and the others wait for it."""
        with self._starting:
            if self._spark is None:
                self._spark = only_session()
            return self._spark

    def _has_jvm(self) -> bool:
        """Return whether the JVM that has started this process runs, and its Spark application."""
        if os.getppid() != self._parent:
            return False
        if self._spark is None:
            return True
        try:
            jvm: Any = self._spark.sparkContext._jsc
            return not jvm.sc().isStopped()
        # Whatever Py4J raises once the other side is gone.
        except Exception:
            return False

    def _answer(self, connection: socket.socket) -> Answer:
        """Read one request, do it, and answer."""
        answer = Answer(started_by=self._started_by)
        try:
            request, descriptors = receive(connection)
            answer = self._do(request, descriptors)
            connection.sendall(answer.model_dump_json().encode())
        except OSError:
            # Whoever asked has gone, or only looked which process listens.
            pass
        except ValueError as error:
            sys.stderr.write(f"A request can't be read: {error}\n")
        return answer

    def _do(self, request: Request, descriptors: list[int]) -> Answer:
        given = request.fits if request.run is None else request.run.settings
        fields = sorted({*self._settings, *(given or self._settings)})
        differs = (
            []
            if given is None
            else [name for name in fields if given.get(name) != self._settings.get(name)]
        )
        if request.stop is not None and request.stop in self._members:
            self._members[request.stop].stop.set()
        if request.run is not None and not differs:
            self._start(request.run, descriptors)
        else:
            _close(descriptors)
        return Answer(
            differs=differs,
            started_by=self._started_by,
            members=sorted(member.pipeline for member in self._members.values()),
            is_ending=bool(differs) and not self._members,
        )

    def _start(self, request: RunRequest, descriptors: list[int]) -> None:
        member = _Member(request.pipeline)
        self._members[request.launch_id] = member

        def drive() -> None:
            try:
                with Path(request.log).open("a", buffering=1) as log, OwnOutput.into(log):
                    run_pipeline(request, member.stop, self._application)
            finally:
                # The locks are free before anybody can see that the run is gone.
                _close(descriptors)
                del self._members[request.launch_id]

        threading.Thread(target=drive, name=request.pipeline, daemon=True).start()


def run_pipeline(
    request: RunRequest, stop: threading.Event, application: Callable[[], SparkSession]
) -> None:
    """Run one pipeline of a shared driver in the calling thread, until it ends or is stopped.

    A failure, also one to load the pipeline, is printed to standard error and never raised.

    Args:
        request: The launch.
        stop: Event that stops the run.
        application: Returns the application's session; the run gets a new session of it.
    """

    def session() -> SparkSession:
        # Settings that a query or a user's function makes stay in it.
        own = application().newSession()
        own.sparkContext.setLocalProperty(POOL, f"{request.pipeline} {request.launch_id[:8]}")
        return own

    run = PipelineRun(
        request.sources,
        request.launch_id,
        stop,
        session,
        request.environment,
        _BEATS,
        request.generation,
    )
    try:
        loaded = load_pipeline(Path(request.file), request.environment)
        run.run(replace(loaded, modules=OwnModules()))
    except HybridError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    except Exception:
        traceback.print_exc()


def _close(descriptors: list[int]) -> None:
    for each in descriptors:
        os.close(each)


def serve(folder: Path, settings: dict[str, str], started_by: str, end: threading.Event) -> int:
    """Run the driver of a folder, by :meth:`SharedDriver.serve`.

    Args:
        folder: The driver's folder on this machine; no other driver of the folder runs.
        settings: Digests of what the pipelines have in common, by field.
        started_by: Name of the pipeline whose launch has started the driver.
        end: Event that ends the driver.
    """
    return SharedDriver(folder, settings, started_by).serve(end)
