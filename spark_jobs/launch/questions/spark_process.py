"""Local Spark process that answers questions of a plan, each within 300 s, and is then killed."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from spark_jobs.launch.places.local import kill_group
from spark_jobs.launch.submission.submit import local_spark_environment

# A transform may read the schemas of other tables, which can take a while.
TIMEOUT_S = 300.0
COMMAND = (sys.executable, "-m", "spark_jobs.analysis_job")
"""Command line of the process that answers."""


class Channel(NamedTuple):
    """Both directions of a connection with a process.

    Attributes:
        questions: Where questions are written.
        answers: Where answers are read.
    """

    questions: IO[str]
    answers: IO[str]


class SparkProcess:
    """Short-lived local Spark process that answers questions; a context manager, which ends it.

    Questions are about the transform and the catalog, while a plan is made. It is started by
    :meth:`start`, so that Spark comes up meanwhile, or else by the first question.

    Args:
        loaded: The pipeline, whose Spark settings the process gets.

    Attributes:
        reason: Why there was no answer: a phrase; None if there was one, or no question.
    """

    def __init__(self, loaded: LoadedPipeline) -> None:
        self._loaded = loaded
        self._process: subprocess.Popen[Any] | None = None
        self._scratch: Path | None = None
        self.reason: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill the process with its JVM and wait for its end; do nothing if none runs."""
        if self._process is not None:
            # Nothing waits for the JVM's orderly end.
            kill_group(self._process.pid)
            with contextlib.suppress(BrokenPipeError):
                self._process.communicate()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        self._process = self._scratch = None

    def start(self) -> None:
        """Start the process, and return without waiting for Spark.

        A failed start raises nothing; the next question gets no answer, and ``reason`` says why.
        """
        try:
            self._process = self._start()
        # The caller decides what a missing answer means.
        except (HybridError, OSError) as error:
            self.reason = str(error)

    def _start(self) -> subprocess.Popen[Any]:
        scratch = self._scratch = Path(tempfile.mkdtemp(prefix="hybrid-analysis-"))
        environment = local_spark_environment(self._loaded, scratch)
        with (scratch / "log").open("wb") as log:
            return subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._loaded.folder,
                env={**os.environ, **environment},
                text=True,
                start_new_session=True,
            )

    def ask(self, question: str) -> str:
        """Send a question to the process, starting it if needed, and wait for its answer.

        The answer is a line. It is empty, and ``reason`` is set, if the process can't be started,
        ends without an answer, or takes longer than 300 s. A start that has failed is not tried
        again.

        Args:
            question: A line, without its end.
        """
        if self._process is None and self.reason is None:
            self.start()
        if (process := self._process) is None:
            return ""
        text = ""
        if (channel := self._channel(process)) is not None:
            # One that has ended is noticed by its silence.
            with contextlib.suppress(ConnectionError):
                channel.questions.write(f"{question}\n")
                channel.questions.flush()
            if not select.select([channel.answers], [], [], TIMEOUT_S)[0]:
                self.reason = f"the analysis took longer than {TIMEOUT_S:.0f} s"
                return ""
            with contextlib.suppress(ConnectionError):
                text = channel.answers.readline()
        if not text:
            self.reason = (
                f"its process ended with exit status {process.wait()}: {self._last_line()}"
            )
        return text

    def _channel(self, process: subprocess.Popen[Any]) -> Channel | None:
        """Return the way to the process; None if it has ended without a conversation."""
        if process.stdin is None or process.stdout is None:
            return None
        return Channel(process.stdin, process.stdout)

    def _log(self) -> Path | None:
        """Return the file with what the process prints; None before it was started."""
        return None if self._scratch is None else self._scratch / "log"

    def _last_line(self) -> str:
        if (log := self._log()) is None:
            return ""
        lines = log.read_text(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "it printed nothing")
