"""Watermark at the end of history: windows that end by it get no live row."""

from __future__ import annotations

from sources.common.state_document import Record
from sources.state.generation import Generation
from spark_jobs.checkpoint import offset_log

_NAME = "history-watermark.json"


class HistoryWatermark(Record):
    """State document with the watermark that history's last micro-batch has left.

    Spark drops rows of the next micro-batch whose windows end at or before it, and the sink has got
    those windows by then.

    Attributes:
        watermark_ms: The watermark, in ms since 1970; 0 if none was reached.
    """

    watermark_ms: int


def keep_history_watermark(generation: Generation) -> None:
    """Record the watermark of history's last micro-batch in the state folder, once.

    Call it before the first live micro-batch is planned; later calls do nothing, as does a call for
    a checkpoint without micro-batches.

    Args:
        generation: State of the generation whose history was read to its end.

    Raises:
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    if (reached := _reached(generation)) is not None:
        generation.put_if_absent(_NAME, reached)


def history_watermark(generation: Generation, *, is_live: bool) -> HistoryWatermark | None:
    """Return the watermark that history leaves to the live run, whose earlier windows are closed.

    Args:
        generation: State of the generation whose history was read to its end.
        is_live: Whether the live run has started once. Before that it is the watermark of the
            checkpoint's last micro-batch.

    Returns:
        None if it was not recorded, or nothing was read.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    known = generation.read(_NAME, HistoryWatermark)
    return known if known is not None or is_live else _reached(generation)


def _reached(generation: Generation) -> HistoryWatermark | None:
    last = offset_log.last_planned(generation.checkpoint)
    if last is None:
        return None
    return HistoryWatermark(watermark_ms=offset_log.watermark_ms(generation.checkpoint, last))
