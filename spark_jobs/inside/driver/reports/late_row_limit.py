"""Late rows of a running query, counted once per micro-batch, and the limit on those of history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from sources.common.counting import counted
from sources.common.durations import span_ms
from sources.common.times import iso
from sources.errors import StateError
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.driver.reports.progress_reports import ProgressReports
from spark_jobs.run_state.late_row_count import LateRows, late_rows_name, read_late_rows


class LateRowCounter:
    """Counter of late rows: those of one source that a query drops behind its watermark.

    Every progress report of Spark is read, and the count is written to the state folder, so that it
    continues in the next run. Only for queries with a watermark: others drop nothing.

    Args:
        context: The pipeline and its state.
        source: Name of the source that the query reads.

    Raises:
        StateError: A count of late rows is damaged, or of an unknown version.
        UnavailableError: The state's store does not answer.
    """

    def __init__(self, context: PipelineContext, source: str) -> None:
        self._generation = context.generation
        self._within_ms = span_ms(context.pipeline.supervision.late_rows.within)
        known = read_late_rows(self._generation, source) or LateRows(source=source)
        names = [each.name for each in context.pipeline.sources]
        counts = [read_late_rows(self._generation, name) for name in names]
        # Micro-batches are counted over the whole checkpoint, whichever source they read.
        last = max([-1, *(each.last_batch for each in counts if each is not None)])
        committed = offset_log.last_committed(self._generation.checkpoint)
        start = known.model_copy(update={"last_batch": last})
        self._counted = start if committed is None else start.after(committed)
        self._reports = ProgressReports()

    @property
    def counted(self) -> LateRows:
        """Count up to the last call of :meth:`take`."""
        return self._counted

    def take(self, running: StreamingQuery) -> LateRows:
        """Count late rows of micro-batches reported since the last call, and return the total.

        A changed count is written to the state folder.

        Args:
            running: The query, or one that has ended.

        Raises:
            StateError: The state folder can't be written.
        """
        self._reports.pass_on(running, self._counted.last_batch, self._count)
        return self._counted

    def _count(self, reports: Sequence[Mapping[str, Any]]) -> None:
        counted = self._counted.with_reports(reports, self._within_ms)
        self._generation.replace(late_rows_name(counted.source), counted)
        self._counted = counted


def require_no_late_rows(context: PipelineContext) -> None:
    """Refuse to continue if bounded sources have lost more late rows than is declared.

    The limit is ``supervision.late_rows.history``; without one nothing is refused. Called before
    and after a bounded source is read.

    Args:
        context: The pipeline and its state.

    Raises:
        StateError: Names the first micro-batch that dropped rows, their number, the watermark, the
            operator, and the ways out; or a count in the state is damaged.
        UnavailableError: The state's store does not answer.
    """
    limit = context.pipeline.supervision.late_rows.history
    bounded = [
        source.name
        for source in context.pipeline.sources
        if source.boundedness is Boundedness.BOUNDED
    ]
    found = [read_late_rows(context.generation, name) for name in bounded]
    counts = [each for each in found if each is not None and each.first is not None]
    total = sum(each.dropped for each in counts)
    if limit is None or total <= limit:
        return
    first = counts[0].first
    if first is None:
        return
    source, watermark = counts[0].source, first.watermark_ms
    behind = "" if watermark is None else f" {iso(watermark)}"
    message = (
        f"Source `{source}`: micro-batch {first.batch_id} dropped "
        f"{counted(first.rows, 'late row')} behind the watermark{behind} (operator "
        f"{', '.join(first.operators)}). The bounded sources lost {counted(total, 'row')} so far, "
        f"and `supervision.late_rows.history` allows {limit:,}. The table "
        "lacks them, and the checkpoint has moved past them."
    )
    hint = (
        "Raise the delay of the watermark (`withWatermark`, or `transform.watermark` of a query); "
        f"or raise `batch.files` and `batch.bytes` of `{source}`, so that files whose event times "
        "overlap are read in one micro-batch; or, after a wrong clock, set `event_time.not_after`. "
        "Then begin a new generation, which reads everything again: `hybrid generation new P`. If "
        "the table may lack these rows, raise `supervision.late_rows.history` instead, and run the "
        "pipeline again: `hybrid run P`."
    )
    raise StateError(message, hint, source=source, field="supervision.late_rows.history")
