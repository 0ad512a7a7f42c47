"""The watermark of a transform, and whether the planned order loses rows behind it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from sources.errors import InputError


def watermark_delay_ms(rows: DataFrame) -> int | None:
    """Return the watermark delay of a query in ms; None without a watermark.

    It is how far rows may lie behind the highest event time read before a stateful operator drops
    them.

    Of several watermarks Spark follows the one that is furthest behind
    (``spark.sql.streaming.multipleWatermarkPolicy``).
    """
    jvm: Any = rows.sparkSession._jvm
    node_class = jvm.org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
    delays: list[int] = []

    def visit(node: Any) -> None:
        if node.getClass().getSimpleName() == "EventTimeWatermark":
            delays.append(int(node_class.getDelayMs(node.delay())))
        children = node.children()
        for at in range(children.size()):
            visit(children.apply(at))

    visit(rows._jdf.queryExecution().analyzed())
    return max(delays, default=None)


def require_order(source: str, out_of_orderness_ms: int, rows: DataFrame) -> None:
    """Refuse to read history in an order in which stateful operators would drop rows.

    Args:
        source: Name of the source, for the message.
        out_of_orderness_ms: How far a micro-batch reaches back in event time behind those before
            it, in ms; 0 is always accepted.
        rows: DataFrame that the transform returns; accepted if it sets no watermark.

    Raises:
        InputError: The out-of-orderness is the watermark's delay or more; the message has both.
    """
    delay_ms = watermark_delay_ms(rows)
    if not out_of_orderness_ms or delay_ms is None or out_of_orderness_ms < delay_ms:
        return
    message = (
        f"Source `{source}`: micro-batches reach back in event time by "
        f"{out_of_orderness_ms / 1000:,.0f} s, but the transform's watermark allows for "
        f"{delay_ms / 1000:,.0f} s: stateful operators would drop rows. The query was not started."
    )
    hint = (
        f"Raise the delay of `withWatermark` in the transform above "
        f"{out_of_orderness_ms / 1000:,.0f} s, or raise `batch.files` and `batch.bytes` of source "
        f"`{source}` and plan again (`hybrid plan P`), so that files whose event times overlap are "
        "read in one micro-batch."
    )
    raise InputError(message, hint, source=source, field="batch")
