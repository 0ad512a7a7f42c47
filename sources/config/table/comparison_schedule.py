"""Scheduled comparison of a captured table with its database."""

from __future__ import annotations

from datetime import timedelta

from pydantic import PositiveInt

from sources.common.fields import Duration, Name
from sources.config.table.reruns import Schedule


class Compare(Schedule):
    """Scheduled comparison of the target with the database table that it captures.

    Ranges of the key are compared one after the other, and each time goes on where the last one
    stopped; a key that is no number or date is compared at once. The answer is a check of the table
    in Dagster, and in ``hybrid status``.

    Attributes:
        name: Name of the schedule.
        within: How long it compares each time, at most; then the range that is begun is completed.
        rows_per_second: Highest number of rows that are read of the database, on average.
    """

    name: Name = "compare"
    within: Duration = timedelta(hours=1)
    rows_per_second: PositiveInt = 10_000
