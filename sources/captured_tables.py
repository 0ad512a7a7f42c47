"""Captured database tables: altered ones are refused, changed columns followed; by an extension."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport
from sources.extensions import contributions
from sources.planning.context import PipelineContext
from sources.planning.topics.followed_columns import FollowedChange
from sources.state.generation import Generation


class CapturedTables(ABC):
    """Interface of an extension that watches captured tables and their databases.

    The functions of this module, by the same names, call the first installed one.
    """

    @abstractmethod
    def require_unaltered(self, generation: Generation) -> None:
        """Refuse to run a captured table of which the state records an alteration.

        Called every few seconds. Asks the state only, not the database. Does nothing if it records
        none, as of a pipeline that captures no table.

        Raises:
            InputError: Says what was done to the table, and what to do.
            StateError: The state is damaged.
        """

    @abstractmethod
    def look_before_launch(self, loaded: LoadedPipeline, generation: Generation) -> None:
        """Ask the databases about connectors and tables before each launch of the live run.

        What is seen is recorded in the state. Does nothing if the pipeline captures no table. A
        database that does not answer is no error: that is recorded, too.

        Raises:
            InputError: Something was done to the table that no change reports.
            StateError: The state can't be read or written.
        """

    @abstractmethod
    def changes_to_follow(
        self, context: PipelineContext, failure: ErrorReport
    ) -> Sequence[FollowedChange] | None:
        """Return the changes of columns that a failed query met and the pipeline follows.

        Asks the database what became of the columns.

        Args:
            context: The pipeline and its state.
            failure: Why the query of its last source, a topic of changes, has failed.

        Returns:
            The changes, for the state; None if the query failed for another reason, or the policy
            of such a change (``on_schema_change``) is to stop.

        Raises:
            HybridError: The change can't be followed: the failure, with the reason.
            UnavailableError: The database does not answer.
        """


def installed_tables() -> CapturedTables | None:
    """Return what the first installed extension that captures tables adds; None without any.

    Raises:
        InputError: An extension can't be loaded.
    """
    return next(contributions("captured_tables"), None)


def require_unaltered(generation: Generation) -> None:
    """Refuse an altered table, by :meth:`CapturedTables.require_unaltered`; errors as there.

    Does nothing if no installed extension captures tables.

    Raises:
        InputError: An extension can't be loaded.
    """
    if (tables := installed_tables()) is not None:
        tables.require_unaltered(generation)


def look_before_launch(loaded: LoadedPipeline, generation: Generation) -> None:
    """Look at a pipeline's captured tables, by :meth:`CapturedTables.look_before_launch`.

    Does nothing if no installed extension captures tables. Errors as there.

    Raises:
        InputError: An extension can't be loaded.
    """
    if (tables := installed_tables()) is not None:
        tables.look_before_launch(loaded, generation)


def changes_to_follow(
    context: PipelineContext, failure: ErrorReport
) -> Sequence[FollowedChange] | None:
    """Return the changes that a query failed at, by :meth:`CapturedTables.changes_to_follow`.

    None as well if no installed extension captures tables. Errors as there.

    Raises:
        InputError: An extension can't be loaded.
    """
    tables = installed_tables()
    return None if tables is None else tables.changes_to_follow(context, failure)
