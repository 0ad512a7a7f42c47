"""A short Spark process on this machine that answers questions while a plan is made."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from spark_jobs.launch.local import kill_group
from spark_jobs.launch.submit import analysis_environment

# A transform may read the schemas of other tables, which can take a while.
TIMEOUT_S = 300.0
_COMMAND = (sys.executable, "-m", "spark_jobs.analysis_job")


class SparkProcess:
    """The process; use it as a context manager, as it has ended when the context is left.

    It is started by :meth:`start`, so that Spark comes up meanwhile, or else by the first question.

    Args:
        loaded: The pipeline, whose settings of Spark it has.

    Attributes:
        reason: Why there was no answer: a phrase; None if there was one, or no question.
    """

    def __init__(self, loaded: LoadedPipeline) -> None:
        self._loaded = loaded
        self._process: subprocess.Popen[str] | None = None
        self._scratch: Path | None = None
        self.reason: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            # With it its JVM, for whose orderly end nothing waits.
            kill_group(self._process.pid)
            with contextlib.suppress(BrokenPipeError):
                self._process.communicate()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def start(self) -> None:
        """Start the process, which then waits for a question; no error if it can't be started."""
        scratch = self._scratch = Path(tempfile.mkdtemp(prefix="hybrid-analysis-"))
        try:
            environment = analysis_environment(self._loaded, scratch)
            with (scratch / "log").open("wb") as log:
                self._process = subprocess.Popen(
                    _COMMAND,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=self._loaded.folder,
                    env={**os.environ, **environment},
                    text=True,
                    start_new_session=True,
                )
        # Whoever asks decides what it means.
        except (HybridError, OSError) as error:
            self.reason = str(error)

    def ask(self, question: str) -> str:
        """Return the answer to a question.

        Args:
            question: A line, without its end.

        Returns:
            The answer, a line; empty, with a ``reason``, if the process can't be started, ends
            without one, or takes longer than 300 s.
        """
        if self._scratch is None:
            self.start()
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return ""
        # One that has ended is noticed by its silence.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(f"{question}\n")
            process.stdin.flush()
        if not select.select([process.stdout], [], [], TIMEOUT_S)[0]:
            self.reason = f"the analysis took longer than {TIMEOUT_S:.0f} s"
            return ""
        text = process.stdout.readline()
        if not text:
            self.reason = (
                f"its process ended with exit status {process.wait()}: {self._last_line()}"
            )
        return text

    def _last_line(self) -> str:
        if self._scratch is None:
            return ""
        lines = (self._scratch / "log").read_text(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "it printed nothing")
