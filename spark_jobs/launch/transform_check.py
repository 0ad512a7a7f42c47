"""Check of a transform while its plan is made, by a short Spark process on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport, HybridError, InputError, SeamError, StateError
from sources.planning.plan import Plan
from sources.planning.transform_analysis import (
    AnalysisAnswer,
    AnalysisRequest,
    TransformAnalysis,
    keep_analysis,
    read_analysis,
    request_by_plan,
)
from sources.state.generation import Generation
from spark_jobs.launch.local import kill_group
from spark_jobs.launch.submit import analysis_environment

# A transform may read the schemas of other tables, which can take a while.
TIMEOUT_S = 300.0
_COMMAND = (sys.executable, "-m", "spark_jobs.analysis_job")
_REFUSALS: dict[str, type[HybridError]] = {each.kind: each for each in (SeamError, StateError)}


class TransformCheck:
    """Check of a pipeline's transform against its plan; use it as a context manager.

    The process is started by :meth:`start`, so that Spark comes up while files are listed, or else
    by the first analysis; it has ended when the context is left.

    Args:
        loaded: The pipeline.
    """

    def __init__(self, loaded: LoadedPipeline) -> None:
        self._loaded = loaded
        self._process: subprocess.Popen[str] | None = None
        self._scratch: Path | None = None
        self._reason: str | None = None
        self._made: TransformAnalysis | None = None

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
            self._process.communicate()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def start(self) -> None:
        """Start the process, which then waits for a request; no error if it can't be started."""
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
        # Nothing but this check depends on it: the run itself names what is missing.
        except (HybridError, OSError) as error:
            self._reason = str(error)

    def require(self, plan: Plan) -> None:
        """Refuse a plan whose transform can't run on the planned columns.

        Raises:
            InputError: The transform fails, or does not fit a stream or the sink; names file and
                line of the user's code.
            SeamError: The transform would count rows of a seam twice.
        """
        self._made = self.analyze(request_by_plan(self._loaded, plan))

    def settle(self, plan: Plan, generation: Generation) -> TransformAnalysis:
        """Return the analysis of the transform as it is now, and keep it with the generation.

        What is kept already is returned, unless the transform was changed since, or could not be
        analyzed.

        Args:
            plan: The plan of the generation.
            generation: State of the generation; the analysis is written to it.

        Raises:
            InputError: As :meth:`require`.
            SeamError: As :meth:`require`.
            StateError: The state is damaged, or can't be written.
        """
        request = request_by_plan(self._loaded, plan)
        kept = read_analysis(generation)
        if kept is not None and kept.digest == request.digest and kept.warning is None:
            return kept
        made = self._made
        if made is None or made.digest != request.digest:
            made = self.analyze(request)
        keep_analysis(generation, made)
        return made

    def analyze(self, request: AnalysisRequest) -> TransformAnalysis:
        """Return the analysis of the transform; call it once.

        Returns:
            The analysis; with a warning if the transform, or Spark, can't run on this machine.

        Raises:
            InputError: As :meth:`require`.
            SeamError: As :meth:`require`.
        """
        if self._scratch is None:
            self.start()
        answer = self._ask(request)
        if answer.refusal is not None:
            raise _error(answer.refusal)
        if answer.analysis is not None:
            return answer.analysis
        warning = (
            f"`transform: {self._loaded.pipeline.transform}` could not be analyzed before the run, "
            f"because Spark can't run on this machine: {self._reason}. An error in it shows only "
            "when Spark runs it."
        )
        return TransformAnalysis(digest=request.digest, columns=None, warning=warning)

    def _ask(self, request: AnalysisRequest) -> AnalysisAnswer:
        """Return the answer of the process; an empty one, and a reason, if it gives none."""
        if self._process is None or self._scratch is None:
            return AnalysisAnswer()
        try:
            text, _ = self._process.communicate(request.model_dump_json() + "\n", TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._reason = f"the analysis took longer than {TIMEOUT_S:.0f} s"
            return AnalysisAnswer()
        if text:
            return AnalysisAnswer.model_validate_json(text)
        lines = (self._scratch / "log").read_text(errors="replace").splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "it printed nothing")
        self._reason = f"its process ended with exit status {self._process.returncode}: {last}"
        return AnalysisAnswer()


def _error(report: ErrorReport) -> HybridError:
    """Return the error that a report describes."""
    kind = _REFUSALS.get(report.kind, InputError)
    made = kind(report.message, report.hint)
    made.fields.update(report.fields)  # type: ignore[typeddict-item]
    return made
