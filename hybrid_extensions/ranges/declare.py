"""Declaration of ranges of event time to recompute, and of the schedules that do it."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from hybrid_extensions.ranges.scheduled_reruns import RangeRerun
from sources.config.section import Section
from sources.config.table.time_ranges import TimeRanges


class Ranges(TimeRanges):
    """Ranges of event time that can be recomputed one by one, as partitions in Dagster.

    Attributes:
        by: Length of a range, in UTC.
        start: First day of the first range, such as ``2024-01-01``.
        end: Day after the last range; by default ranges are added as time passes.
        automatic: Whether Dagster recomputes a range when an asset is updated that its files come
            from: one that a source names as its ``asset``, with the same partitions or with none,
            of which an update then concerns every range.
        reruns: Schedules that recompute the latest ranges.

    """

    automatic: bool = False
    reruns: list[RangeRerun] = Field(default_factory=list)


class RangesSection(Section):
    """Section of a pipeline's file about ranges of event time.

    Attributes:
        ranges: Ranges of event time that can be recomputed from files, as partitions in Dagster.
    """

    ranges: Ranges | None = None

    @property
    def schedules(self) -> list[str]:
        """Names of the declared schedules, without the pipeline's name before them."""
        return [] if self.ranges is None else [each.name for each in self.ranges.reruns]

    @property
    def assets(self) -> Mapping[str, str]:
        """The asset with the ranges as partitions, if there are any."""
        by = None if self.ranges is None else self.ranges.by
        return {} if by is None else {"ranges": f"the table's {by}s, one by one"}
