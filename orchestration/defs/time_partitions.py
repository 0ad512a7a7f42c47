"""Hours, days or months in UTC as partitions of an asset."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Literal

import dagster as dg


def time_partitions(
    by: Literal["hour", "day", "month"], start: date, end: date | None
) -> dg.TimeWindowPartitionsDefinition:
    """Return one partition for each hour, day or month in UTC, up to now or to an end.

    A partition is there once it has ended.

    Args:
        by: Length of a partition.
        start: First day of the first one.
        end: Day after the last one; None to add them as time passes.
    """
    first = datetime.combine(start, time(), UTC)
    last = None if end is None else datetime.combine(end, time(), UTC)
    if by == "hour":
        return dg.HourlyPartitionsDefinition(start_date=first, end_date=last, timezone="UTC")
    if by == "day":
        return dg.DailyPartitionsDefinition(start_date=first, end_date=last, timezone="UTC")
    return dg.MonthlyPartitionsDefinition(start_date=first, end_date=last, timezone="UTC")
