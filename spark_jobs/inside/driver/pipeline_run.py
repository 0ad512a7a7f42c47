"""Run of one pipeline in a driver: checks of approval, lock and generation; sources in order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.errors import ErrorReport, StateError, UnavailableError
from sources.hybrid import Boundedness
from sources.kept_definitions import which_file
from sources.planning.approval import require_approved
from sources.planning.context import PipelineContext
from spark_jobs.inside.driver.bounded_run import run_bounded
from spark_jobs.inside.driver.reports.reporter import USUAL_BEATS, Beats, Reporter, open_pipes
from spark_jobs.inside.driver.unbounded_run import run_unbounded
from spark_jobs.inside.driver.warm_switch import switch
from spark_jobs.inside.driver.warm_up import Ahead
from spark_jobs.inside.errors.error_reports import has_lost_jvm, report_of
from spark_jobs.inside.errors.out_of_memory import out_of_memory
from spark_jobs.inside.errors.silent_broker import silent_broker
from spark_jobs.inside.errors.store_answer import is_of_store
from spark_jobs.inside.query.places.followed_topic_stream import Prepared
from spark_jobs.jvm.storage_jar import use_own_classes
from spark_jobs.launch.launch_record import log_path, require_last_launch
from spark_jobs.run_state.driver_lock import QueryLock
from spark_jobs.run_state.run_log import last_lines
from spark_jobs.table.ownership.belonging import require_belonging

# Spark prints the trace of one error several times before it ends.
_LAST_LINES = 200


def only_session() -> SparkSession:
    """Return the Spark session of this process, for its pipeline runs; the first call starts it.

    Paths without a scheme are of this machine, whatever file system Hadoop's configuration makes
    the default.
    """
    # State and target are paths of the machines, whatever file system HADOOP_CONF_DIR makes the
    # default. `spark-submit` may need that default on a cluster, so it is changed only here.
    builder = SparkSession.builder.config("spark.hadoop.fs.defaultFS", "file:///")
    spark = builder.getOrCreate()
    use_own_classes(spark)
    return spark


@dataclass(frozen=True)
class PipelineRun:
    """One launch of a pipeline, run by a thread of a driver: :meth:`run` does it.

    Attributes:
        sources: Names of the sources to be read, one after the other.
        launch_id: Id of the launch.
        stop: Event that another thread or a signal sets to stop the run.
        session: Returns the Spark session for the run's queries.
        environment: Environment variables of the launch, by which a Dagster step is found.
        beats: How often it looks at a query, and writes a heartbeat.
        generation: Name of the generation that the launch is for; None for the newest one.
    """

    sources: Sequence[str]
    launch_id: str
    stop: threading.Event
    session: Callable[[], SparkSession] = only_session
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    beats: Beats = USUAL_BEATS
    generation: str | None = None

    def run(self, loaded: LoadedPipeline) -> int:
        """Take the query lock and read the sources in order, until all are read or it must end.

        It ends when a source fails, one may not start yet, or ``stop`` is set. What an earlier
        launch has committed is not read again.

        Args:
            loaded: The pipeline.

        Returns:
            0 if finished, or stopped while following; 3 if a bounded source was stopped before its
            end.

        Raises:
            HybridError: Invalid input or state, the generation was discarded meanwhile, the plan is
                not approved, or another driver of the generation runs or was launched since.
            Exception: Any other failure of a query, such as Spark's.
        """
        context = PipelineContext.require(loaded)
        self._require_generation(context)
        # A job may be started by hand, too.
        require_approved(context)
        with QueryLock(context.generation, self.launch_id) as lock:
            if self.generation is not None:
                # Else it may be one that was started by hand, whose launch nobody has recorded.
                require_last_launch(context.generation, self.launch_id)
            require_belonging(context.loaded, context.generation)
            return self.read(context, lock)

    def _require_generation(self, context: PipelineContext) -> None:
        """Refuse to run another generation than the launch is for: that one may be gone by now."""
        newest = context.generation.name
        if self.generation in (None, newest):
            return
        message = (
            f"This driver was launched for generation {self.generation}, and the newest one is "
            f"{newest} by now. Nothing was read."
        )
        hint = "`hybrid status P` shows what runs; `hybrid run P` runs the newest generation."
        raise StateError(message, hint, pipeline=context.pipeline.name, generation=newest)

    def read(self, context: PipelineContext, lock: QueryLock) -> int:
        """Read the sources in order, as ``run``, under a query lock that the caller holds.

        Args:
            context: The pipeline and its state.
            lock: The query lock of the generation, which is held.

        Returns:
            Exit status: 0 if finished, or stopped while following; 3 if a bounded source was
            stopped before its end.

        Raises:
            HybridError: Invalid input or state.
            Exception: Any other failure of a query, such as Spark's.
        """
        status = 0
        ahead: Ahead | None = None
        for source, following in zip(self.sources, [*self.sources[1:], None], strict=True):
            is_first = source == self.sources[0]
            if not is_first and not switch(context, self.launch_id, source):
                break
            # The Dagster step that launched this job is about the first source only.
            with (open_pipes(self.environment) if is_first else None) or nullcontext() as pipes:
                reporter = Reporter(context, source, self.launch_id, pipes, lock, self.beats)
                prepared = None if ahead is None else ahead.prepared
                ahead = _ahead(context, source, is_same_driver=following is not None)
                status = self._read(context, source, reporter, ahead, prepared)
            if status or self.stop.is_set():
                break
        return status

    def _read(
        self,
        context: PipelineContext,
        source: str,
        reporter: Reporter,
        ahead: Ahead | None,
        prepared: Prepared | None,
    ) -> int:
        try:
            spark = self.session()
            if context.pipeline.source(source).boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
                return run_unbounded(spark, context, source, reporter, self.stop, prepared)
            return run_bounded(spark, context, source, reporter, self.stop, ahead)
        except Exception as error:
            reporter.failed(_report_of(error, context, source))
            raise


def _ahead(context: PipelineContext, source: str, *, is_same_driver: bool) -> Ahead | None:
    """Return the source after this one if it is a followed topic: what to prepare for."""
    topic = context.pipeline.topic_after(source)
    if context.pipeline.inputs:
        # Histories of other inputs may still be unread.
        return None
    if topic is None or topic is not context.pipeline.source_after(source):
        return None
    is_followed = topic.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    return Ahead(topic, is_same_driver) if is_followed else None


def _report_of(error: Exception, context: PipelineContext, source: str) -> ErrorReport:
    """Return the report of a failure; that of a store or broker, if it does not answer.

    Of a store, also if it does not let us in. A JVM that is gone is asked no more, but has printed
    that it ran out of memory, if it did.

    Answers to S3A's commonest request have no body, so its errors don't say why. What people have
    to correct in the pipeline's file names the copy, if the generation goes by one.
    """
    if has_lost_jvm(error):
        printed = last_lines(log_path(context.generation, source), _LAST_LINES)
        if (lack := out_of_memory(printed)) is not None:
            return lack
    if is_of_store(error):
        loaded, stores = context.loaded, context.pipeline.stores
        sources = [each for each in context.pipeline.sources if isinstance(each, FileSource)]
        paths = [loaded.state.url, loaded.target.url, *(p for s in sources for p in s.patterns)]
        try:
            for path in paths:
                if path.startswith("s3://"):
                    stores.require_answer(path)
        except UnavailableError as unavailable:
            return unavailable.report()
    if (silence := silent_broker(error, context.pipeline.topics)) is not None:
        return silence.report()
    found, copy = report_of(error), which_file(context.loaded)
    if found.transient or not copy:
        return found
    return found.model_copy(update={"hint": f"{found.hint} {copy}".strip()})
