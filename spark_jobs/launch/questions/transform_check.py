"""Check of a transform while planning, by a short-lived local Spark process."""

from __future__ import annotations

from typing import Self

from sources.config.loader import LoadedPipeline
from sources.errors import error_of
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
from spark_jobs.launch.questions.spark_process import SparkProcess


class TransformCheck:
    """Check of a pipeline's transform against its plan; use it as a context manager.

    The process is started by :meth:`start`, so that Spark comes up while files are listed, or else
    by the first analysis; it has ended when the context is left.

    Args:
        loaded: The pipeline.
        process: The process; by default a new one.

    Attributes:
        process: The process, which answers other questions, too.
    """

    def __init__(self, loaded: LoadedPipeline, process: SparkProcess | None = None) -> None:
        self._loaded = loaded
        self.process = process or SparkProcess(loaded)
        self._made: TransformAnalysis | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.end()

    def start(self) -> None:
        """Start the process, which then waits for a request; a failed start raises no error."""
        self.process.start()

    def require(self, plan: Plan) -> None:
        """Refuse a plan whose transform can't run on the planned columns.

        Raises:
            InputError: The transform fails, or does not fit a stream or the sink; names file and
                line of the user's code.
            SeamError: The transform would count rows of a seam twice.
        """
        self._made = self.analyze(request_by_plan(self._loaded, plan))

    def settle(self, plan: Plan, generation: Generation) -> TransformAnalysis:
        """Return the analysis of the present transform, and record it with the generation.

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
        made = self._of(request, kept)
        if made is not kept:
            keep_analysis(generation, made)
        return made

    def current(self, plan: Plan, generation: Generation) -> TransformAnalysis:
        """Return the analysis of the present transform without writing it.

        Args:
            plan: The plan of the generation.
            generation: State of the generation.

        Raises:
            InputError, SeamError, StateError: As :meth:`settle`.
        """
        return self._of(request_by_plan(self._loaded, plan), read_analysis(generation))

    def _of(self, request: AnalysisRequest, kept: TransformAnalysis | None) -> TransformAnalysis:
        """Return what is kept, unless the transform was changed since or could not be analyzed."""
        if kept is not None and kept.digest == request.digest and kept.warning is None:
            return kept
        if self._made is not None and self._made.digest == request.digest:
            return self._made
        return self.analyze(request)

    def analyze(self, request: AnalysisRequest) -> TransformAnalysis:
        """Analyze the transform; call it once.

        Returns:
            The analysis; with a warning if the transform, or Spark, can't run on this machine.

        Raises:
            InputError: As :meth:`require`.
            SeamError: As :meth:`require`.
        """
        text = self.process.ask(request.model_dump_json())
        answer = AnalysisAnswer.model_validate_json(text) if text else AnalysisAnswer()
        if answer.refusal is not None:
            raise error_of(answer.refusal)
        if answer.analysis is not None:
            return answer.analysis
        warning = (
            f"`transform: {self._loaded.pipeline.transform.name}` could not be analyzed before the "
            f"run, because Spark can't run on this machine: {self.process.reason}. An error in it "
            "shows only when Spark runs it."
        )
        return TransformAnalysis(digest=request.digest, columns=None, warning=warning)
