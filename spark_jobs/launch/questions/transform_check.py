"""Check of a transform while planning; nothing is refused if Spark can't run on this machine."""

from __future__ import annotations

from typing import Self

from sources.config.loader import LoadedPipeline
from sources.errors import error_of
from sources.extensions import extensions
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
    """Check of a pipeline's transform (each has one) against its plan; a context manager.

    Done by a Spark process, which :meth:`start` starts, so that it comes up while files are listed,
    or else the first analysis. When the context is left, the process is ended, also a given one.

    Args:
        loaded: The pipeline.
        process: The Spark process; a new one if None.

    Attributes:
        process: The Spark process, which answers other questions, too.
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
        """Start the Spark process of the check, without waiting for it; raises nothing.

        Call it early, as Spark takes seconds to start. The check itself reports why a start has
        failed. Does nothing if no installed extension analyzes transforms.
        """
        if _is_analyzed():
            self.process.start()

    def require(self, plan: Plan) -> None:
        """Refuse a plan whose transform can't run on the planned columns.

        Nothing is refused if Spark can't run on this machine, or no installed extension analyzes
        transforms.

        Raises:
            InputError: The transform fails, or does not fit a stream or the sink; names file and
                line of the user's code.
            SeamError: The transform would count rows of a seam twice.
        """
        self._made = self.analyze(request_by_plan(self._loaded, plan))

    def settle(self, plan: Plan, generation: Generation) -> TransformAnalysis:
        """Return the analysis of the present transform, and record it in the state if it is new.

        A recorded one is reused, unless the transform was changed since, or could not be analyzed.

        Args:
            plan: The plan of the generation.
            generation: State of the generation; the analysis is written to it.

        Raises:
            InputError: The transform fails, or does not fit a stream or the sink.
            SeamError: The transform would count rows of a seam twice.
            StateError: The state is damaged, or can't be written.
            UnavailableError: The state's store does not answer.
        """
        request = request_by_plan(self._loaded, plan)
        kept = read_analysis(generation)
        made = self._of(request, kept)
        if made is not kept:
            keep_analysis(generation, made)
        return made

    def current(self, plan: Plan, generation: Generation) -> TransformAnalysis:
        """Return the analysis of the present transform, recorded or made now; writes nothing.

        Args:
            plan: The plan of the generation.
            generation: State of the generation.

        Raises:
            InputError: The transform fails, or does not fit a stream or the sink.
            SeamError: The transform would count rows of a seam twice.
            StateError: The state is damaged.
            UnavailableError: The state's store does not answer.
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
        """Analyze the transform by the Spark process; call it once.

        If Spark can't run on this machine, or no installed extension analyzes transforms, the
        result has a ``warning`` and no columns.

        Args:
            request: What to analyze.

        Raises:
            InputError: The transform fails, or does not fit a stream or the sink; names file and
                line of the user's code.
            SeamError: The transform would count rows of a seam twice.
        """
        if not _is_analyzed():
            return self._unknown(request, "no installed extension does that")
        text = self.process.ask(request.model_dump_json())
        answer = AnalysisAnswer.model_validate_json(text) if text else AnalysisAnswer()
        if answer.refusal is not None:
            raise error_of(answer.refusal)
        if answer.analysis is not None:
            return answer.analysis
        return self._unknown(request, f"Spark can't run on this machine: {self.process.reason}")

    def _unknown(self, request: AnalysisRequest, why: str) -> TransformAnalysis:
        warning = (
            f"`transform: {self._loaded.pipeline.transform.name}` could not be analyzed before the "
            f"run, because {why}. An error in it shows only when Spark runs it."
        )
        return TransformAnalysis(digest=request.digest, columns=None, warning=warning)


def _is_analyzed() -> bool:
    return any(each.transform_analysis is not None for each in extensions())
