"""Late rows in the supervision: rows dropped behind the watermark, and their limit."""

from __future__ import annotations

from dataclasses import dataclass

from orchestration.supervision.rules.verdict import Finding
from sources.common.counting import counted
from sources.common.durations import span_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.config.supervision import LateRowLimits
from sources.state.generation import Generation
from spark_jobs.run_state.late_row_count import read_late_rows


@dataclass(frozen=True)
class LateSeen:
    """Numbers of rows of a generation that Spark dropped as late (behind the watermark).

    Attributes:
        history: Rows dropped of the bounded sources.
        live: Rows dropped of the last source, since it was first read.
        read, dropped: Rows of the last source that were read, and dropped, within the declared
            period ``supervision.late_rows.within``.
        unknown_batches: Micro-batches whose driver ended before it reported how many it dropped.
        unaligned: Name of the last source if it is a topic whose partitions are not aligned; else
            None.
    """

    history: int = 0
    live: int = 0
    read: int = 0
    dropped: int = 0
    unknown_batches: int = 0
    unaligned: str | None = None

    @property
    def share(self) -> float:
        """Share of dropped rows among those read within the period, from 0 to 1.

        0 if none were read or dropped; 1 if some were dropped though none were read.
        """
        # An aggregation can drop more rows than it read: one for each window of a row.
        return min(self.dropped / self.read, 1.0) if self.read else float(self.dropped > 0)


def look_at_late_rows(
    loaded: LoadedPipeline, generation: Generation, now_ms: int
) -> LateSeen | None:
    """Read the numbers of late rows of a generation from the state folder.

    Args:
        loaded: The pipeline.
        generation: State of the generation.
        now_ms: The present, in ms since 1970.

    Returns:
        None if no query with a watermark has run, so that no row can be dropped.

    Raises:
        StateError: A document is damaged.
        UnavailableError: The state's store does not answer.
    """
    names = [source.name for source in loaded.pipeline.sources]
    counts = [read_late_rows(generation, name) for name in names]
    known = [each for each in counts if each is not None]
    if not known:
        return None
    since_ms = now_ms - span_ms(loaded.pipeline.supervision.late_rows.within)
    live = counts[-1]
    last = loaded.pipeline.sources[-1]
    is_unaligned = isinstance(last, KafkaSource) and last.align is None
    read, dropped = (0, 0) if live is None else live.share(since_ms)
    return LateSeen(
        history=sum(each.dropped for each in counts[:-1] if each is not None),
        live=0 if live is None else live.dropped,
        read=read,
        dropped=dropped,
        unknown_batches=sum(each.unknown_batches for each in known),
        unaligned=last.name if is_unaligned else None,
    )


def late_rows(seen: LateSeen | None, limits: LateRowLimits) -> Finding:
    """Judge the number of late rows against the declared limits. A pure function.

    The finding's number is the share of the live run's rows; or the rows of history, if these are
    too many. Micro-batches without a report only warn: whether they dropped rows stays unknown.

    Args:
        seen: The numbers; None, which passes, if the query has no watermark.
        limits: The limits, ``supervision.late_rows``.
    """
    if seen is None:
        text = "The query has no watermark, so it drops no late rows."
        return Finding(name="late_rows", passed=True, text=text)
    minutes = limits.within.total_seconds() / 60
    parts = [
        f"Dropped behind the watermark: {counted(seen.history, 'row')} of history",
        f" and {seen.live:,} of the live run; in the last {minutes:,.0f} min {seen.dropped:,} for "
        f"{counted(seen.read, 'row')} read ({seen.share:.2%}).",
    ]
    is_too_many = False
    value, limit, unit = seen.share, limits.live, "share of rows"
    if limits.history is not None and seen.history > limits.history:
        is_too_many = True
        value, limit, unit = seen.history, limits.history, "rows"
        parts.append(f" `late_rows.history` allows {counted(limits.history, 'row')}.")
    if limits.live is not None and seen.share > limits.live:
        is_too_many = True
        parts.append(f" `late_rows.live` allows {limits.live:.2%}.")
        if seen.unaligned is not None:
            parts.append(
                " If some partitions are behind others in time, declare `align: {drift: …}` for "
                f"source `{seen.unaligned}`, with at most the watermark's delay."
            )
    if seen.unknown_batches:
        parts.append(
            f" Of {seen.unknown_batches:,} more micro-batches it is unknown, because their driver "
            "ended before it reported them."
        )
    passed = not (is_too_many or seen.unknown_batches)
    is_pending = not passed and not is_too_many
    return Finding(
        name="late_rows",
        passed=passed,
        is_pending=is_pending,
        text="".join(parts),
        value=value,
        limit=limit,
        unit=unit,
    )
