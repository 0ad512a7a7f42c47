"""Refusal of a watermark on event times that are kept unchecked (`event_time.outside: keep`)."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from sources.errors import InputError
from spark_jobs.inside.checkpoint.plan_nodes import analyzed_plan, each_of, kind_of, number_of


def require_no_watermark_on(event_time: str, rows: DataFrame) -> None:
    """Refuse a transform that sets a watermark on the event time, or on a column derived from it.

    Called where ``event_time.outside: keep`` lets rows outside of its bounds pass: one would move
    the watermark, and stateful operators would drop all later rows. Where a function in Python
    makes the rows, all of its columns count as computed from the event time.

    Args:
        event_time: Name of the event-time column.
        rows: DataFrame that the transform returns for a stream; its plan by Spark is examined; no
            row is read.

    Raises:
        InputError: Such a watermark exists; names its column.
    """
    watermarks: list[str] = []
    _derived(analyzed_plan(rows), event_time, watermarks)
    if not watermarks:
        return
    message = (
        f"The transform sets a watermark on `{watermarks[0]}`, which it takes from `event_time: "
        f"{event_time}`, but `event_time.outside: keep` keeps times outside of the bounds, too: "
        "one record from the future would make stateful operators drop all later rows. The query "
        "was not started."
    )
    hint = (
        "Declare `event_time.outside: quarantine`, `drop` or `fail`; or remove `withWatermark` "
        "(of a query: `transform.watermark`). Then run the pipeline again: `hybrid run P`."
    )
    raise InputError(message, hint, column=event_time, field="event_time.outside", value="keep")


def _derived(node: Any, event_time: str, watermarks: list[str]) -> set[int]:
    """Return the ids of a node's columns that come from the event time; collect watermarks."""
    children = list(each_of(node.children()))
    output = list(each_of(node.output()))
    if not children:
        return {number_of(column) for column in output if column.name() == event_time}
    known: set[int] = set()
    for child in children:
        known |= _derived(child, event_time, watermarks)
    kind = kind_of(node)
    if kind == "EventTimeWatermark" and number_of(node.eventTime()) in known:
        watermarks.append(node.eventTime().name())
    passed = {number_of(column) for child in children for column in each_of(child.output())}
    made = {number_of(column) for column in output} - passed
    if kind in ("Project", "Aggregate"):
        named = node.projectList() if kind == "Project" else node.aggregateExpressions()
        return known | {
            number_of(each)
            for each in each_of(named)
            if any(number_of(of) in known for of in each_of(each.references().toSeq()))
        }
    return known | made if known else known
