"""Declaration of `compare`: schedule, `within`, `rows_per_second`; refused with shards."""

from __future__ import annotations

from datetime import timedelta

from pydantic import PositiveInt

from hybrid_extensions.schedules.schedule import Schedule
from sources.common.durations import Duration
from sources.common.fields import Name
from sources.config.pipeline import Pipeline
from sources.config.section import Section

EQUALS = "equals_database"
"""Name of the check that says whether the table has the rows of the database table."""


class Compare(Schedule):
    """Scheduled comparison of the target with the database table that it captures.

    Ranges of the key are compared one after the other, and each time continues where the last one
    stopped; a table whose key is no number or date is compared at once. The result is a check of
    the table in Dagster, and in ``hybrid status``.

    Attributes:
        name: Name of the schedule.
        within: How long it compares each time, at most; then the range that is begun is completed.
        rows_per_second: Highest number of rows that are read of the database, on average.
    """

    name: Name = "compare"
    within: Duration = timedelta(hours=1)
    rows_per_second: PositiveInt = 10_000


class CompareSection(Section):
    """Section of a pipeline's file about comparisons with the database.

    Attributes:
        compare: Schedule by which the target is compared with the database table that it captures.
    """

    compare: Compare | None = None

    @property
    def schedules(self) -> list[str]:
        """Name of the declared schedule, without the pipeline's name before it.

        Empty without ``compare``.
        """
        return [] if self.compare is None else [self.compare.name]

    @property
    def checks_on_request(self) -> list[str]:
        """Name of the check, which reads both tables and so is evaluated on request only.

        Empty without ``compare``.
        """
        return [] if self.compare is None else [EQUALS]

    def check(self, pipeline: Pipeline) -> None:
        """Refuse ``compare`` without a captured table, or with shards.

        Raises:
            ValueError: Says why, and what to do instead.
        """
        if self.compare is None:
            return
        if all(each.snapshot is None for each in pipeline.sources):
            message = (
                "`compare` compares the target with the database table that a source captures, and "
                "none declares a `snapshot`. Remove it, or declare the `snapshot`."
            )
            raise ValueError(message)
        if pipeline.shards:
            message = (
                "`compare` has no meaning for shards: ranges of a key are those of one database. "
                "Remove it, and run `hybrid compare P`, which compares each shard as a whole."
            )
            raise ValueError(message)
