"""What stops a launch of a captured table, and column changes to follow, as the core asks."""

from __future__ import annotations

from collections.abc import Sequence

from hybrid_extensions.cdc.databases.altered_table import require_unaltered
from hybrid_extensions.cdc.databases.replication_slot import look_at_slots
from hybrid_extensions.cdc.databases.table_watch import require_unaltered_table
from sources.captured_tables import CapturedTables
from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport
from sources.planning.context import PipelineContext
from sources.planning.topics.followed_columns import FollowedChange
from sources.state.generation import Generation


class _TablesOfDatabases(CapturedTables):
    """Implementation of the core's interface :class:`CapturedTables`, which documents it."""

    def require_unaltered(self, generation: Generation) -> None:
        require_unaltered(generation)

    def look_before_launch(self, loaded: LoadedPipeline, generation: Generation) -> None:
        look_at_slots(loaded, generation)
        require_unaltered_table(loaded, generation)

    def changes_to_follow(
        self, context: PipelineContext, failure: ErrorReport
    ) -> Sequence[FollowedChange] | None:
        # Asked once a query has failed: what it imports takes a while.
        from hybrid_extensions.cdc.schema_change import changes_to_follow  # noqa: PLC0415

        return changes_to_follow(context, failure)


TABLES = _TablesOfDatabases()
