"""Scheduled recomputation of the latest ranges: of how many, one by default."""

from __future__ import annotations

from pydantic import PositiveInt

from hybrid_extensions.schedules.schedule import Schedule


class RangeRerun(Schedule):
    """Scheduled recomputation of the latest ranges that history holds completely.

    Attributes:
        last: Number of ranges, counted back from the latest complete one; by default one.
    """

    last: PositiveInt = 1
