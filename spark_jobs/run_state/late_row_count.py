"""Late rows dropped behind the watermark: counted once per micro-batch, unknown ones, the share.

The number is Spark's ``numRowsDroppedByWatermark``. It counts rows as they arrive at a stateful
operator. An aggregation combines the rows of each task and group before that, so one dropped row
may stand for several rows of the input; only zero is exact:
https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from sources.common.state_document import Part, Record
from sources.common.times import to_ms
from sources.storage.folder import Folder

# Periods kept of the recent past; the share of dropped rows is computed over their sum.
_PERIODS = 60
_SHORTEST_MS = 1000


class DroppedRows(Part):
    """Late rows that one micro-batch dropped behind the watermark.

    Attributes:
        batch_id: Number of the micro-batch.
        rows: Number of rows, over all operators.
        watermark_ms: Watermark of the micro-batch, in Unix milliseconds; None if Spark reported
            none.
        operators: Names of the operators that dropped rows, as Spark reports them.
    """

    batch_id: int
    rows: int
    watermark_ms: int | None
    operators: list[str]


class Period(Part):
    """Rows of the micro-batches that began within a short period of time.

    Attributes:
        begin_ms: Start of the period, in Unix milliseconds.
        read: Rows that the query read.
        dropped: Rows that its operators dropped behind the watermark.
    """

    begin_ms: int
    read: int
    dropped: int


class LateRows(Record):
    """State document: late rows of one source, over all of its runs in a generation.

    Attributes:
        source: Name of the source that was read.
        last_batch: Number of the last micro-batch that is counted, in ``dropped`` or as unknown.
        dropped: Rows dropped so far.
        unknown_batches: Number of micro-batches that were committed without a report of Spark, as
            when a driver is killed right after a commit: whether they dropped rows is unknown.
        first, latest: The first and the latest micro-batch that dropped rows; None without any.
        periods: Rows read and dropped in the recent past, oldest first.
    """

    source: str
    last_batch: int = -1
    dropped: int = 0
    unknown_batches: int = 0
    first: DroppedRows | None = None
    latest: DroppedRows | None = None
    periods: list[Period] = Field(default_factory=list)

    def after(self, batch_id: int) -> LateRows:
        """Return a copy with all micro-batches up to one counted, those without report as unknown.

        Args:
            batch_id: Number of the micro-batch; one that is counted already changes nothing.
        """
        if batch_id <= self.last_batch:
            return self
        unknown = self.unknown_batches + batch_id - self.last_batch
        return self.model_copy(update={"last_batch": batch_id, "unknown_batches": unknown})

    def with_reports(self, reports: Iterable[Mapping[str, Any]], within_ms: int) -> LateRows:
        """Return a copy that also counts Spark's progress reports, each micro-batch once.

        Args:
            reports: Progress reports of micro-batches, decoded from JSON, in any order; those that
                are counted already are left out.
            within_ms: For how long back, in ms, the numbers of :meth:`share` are kept.
        """
        counted = self
        for report in sorted(reports, key=lambda each: int(each["batchId"])):
            if report["batchId"] > counted.last_batch:
                counted = counted.after(report["batchId"] - 1)._with(report, within_ms)
        return counted

    def share(self, since_ms: int) -> tuple[int, int]:
        """Return the number of rows read, and of those dropped, in micro-batches since a time.

        Counted by the periods that are kept: only those that begin at the time or later.

        Args:
            since_ms: The time, in Unix milliseconds.
        """
        recent = [each for each in self.periods if each.begin_ms >= since_ms]
        return sum(each.read for each in recent), sum(each.dropped for each in recent)

    def _with(self, report: Mapping[str, Any], within_ms: int) -> LateRows:
        found = _dropped(report)
        at_ms = to_ms(datetime.fromisoformat(report["timestamp"]))
        step = max(within_ms // _PERIODS, _SHORTEST_MS)
        begin = at_ms // step * step
        kept = [each for each in self.periods if begin - within_ms <= each.begin_ms < begin]
        same = [each for each in self.periods if each.begin_ms == begin]
        read = int(report["numInputRows"]) + sum(each.read for each in same)
        dropped = found.rows + sum(each.dropped for each in same)
        changes: dict[str, Any] = {
            "last_batch": int(report["batchId"]),
            "dropped": self.dropped + found.rows,
            "periods": [*kept, Period(begin_ms=begin, read=read, dropped=dropped)],
        }
        if found.rows:
            changes |= {"first": self.first or found, "latest": found}
        return self.model_copy(update=changes)


def _dropped(report: Mapping[str, Any]) -> DroppedRows:
    counts = {
        (number, each["operatorName"]): int(each["numRowsDroppedByWatermark"])
        for number, each in enumerate(report["stateOperators"])
    }
    watermark = report.get("eventTime", {}).get("watermark")
    return DroppedRows(
        batch_id=int(report["batchId"]),
        rows=sum(counts.values()),
        watermark_ms=None if watermark is None else to_ms(datetime.fromisoformat(watermark)),
        operators=[name for (_, name), count in counts.items() if count],
    )


def late_rows_name(source: str) -> str:
    """Return the path of a source's count of late rows, relative to the generation's folder."""
    return f"late/{source}.json"


def read_late_rows(generation: Folder, source: str) -> LateRows | None:
    """Read the count of late rows of a source.

    None if no query with a watermark has read the source yet.

    Raises:
        StateError: The file is damaged, or of an unknown version.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(late_rows_name(source), LateRows)
