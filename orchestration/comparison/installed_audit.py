"""The installed audit: an extension's, which proves a pipeline's table right or wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod

import dagster as dg

from orchestration.comparison.report import AuditReport
from sources.config.loader import LoadedPipeline
from sources.extensions import contributions, none_adds

AUDITED = "audited"
"""Name of the check of the table that shows the last verdict."""


class Audit(ABC):
    """Interface of an audit; its extension implements it."""

    @abstractmethod
    def report(self, loaded: LoadedPipeline) -> AuditReport:
        """Compare a pipeline's target with an independent computation from all of its input.

        Nothing is written, but to a temporary folder.

        Returns:
            The report. Differences raise nothing: its ``outcome`` is ``failed``.

        Raises:
            InputError: A file, a record, ``audit.sql`` or the target can't be read, or the columns
                of the target and of the computation do not match.
            StateError: The declaration changed in a way that the checkpoint can't follow, or the
                state is damaged.
            UnavailableError: A broker or a store does not answer.
        """

    @abstractmethod
    def query_misfit(self, loaded: LoadedPipeline, generation: str) -> str | None:
        """Return why the audit of a generation would be refused for its query; None if it fits.

        Asked before a promotion, so no row of the input is read.

        Args:
            loaded: The pipeline, by the file whose audit is tried.
            generation: Name of the generation, whose table is there.

        Raises:
            InputError: The table can't be read.
            StateError: The state is damaged.
            UnavailableError: The store does not answer.
        """

    @abstractmethod
    def check_again(
        self, instance: dg.DagsterInstance, loaded: LoadedPipeline
    ) -> dg.AssetCheckEvaluation | None:
        """Return what the check has to show after a materialization of the table; None for nothing.

        Raises:
            StateError: The state can't be read.
            UnavailableError: The state's store does not answer.
        """


def installed_audit() -> Audit | None:
    """Return the audit of the first installed extension that has one; None without any.

    Raises:
        InputError: An extension can't be loaded.
    """
    return next(contributions("audit"), None)


def audit(loaded: LoadedPipeline) -> AuditReport:
    """Audit a pipeline's table, by :meth:`Audit.report`.

    Raises:
        InputError: No installed extension audits tables, or as that method.
        StateError, UnavailableError: As that method.
    """
    if (found := installed_audit()) is None:
        raise none_adds("audits tables", "do without an audit", field="audit")
    return found.report(loaded)


def audit_again(
    instance: dg.DagsterInstance, loaded: LoadedPipeline
) -> dg.AssetCheckEvaluation | None:
    """Return what the check ``audited`` has to show again, by :meth:`Audit.check_again`.

    None for nothing, and if no installed extension audits tables. Errors as there.
    """
    found = installed_audit()
    return None if found is None else found.check_again(instance, loaded)


def query_misfit(loaded: LoadedPipeline, generation: str) -> str | None:
    """Return why an audit would refuse its query, by :meth:`Audit.query_misfit`.

    None also if no installed extension audits tables.
    """
    found = installed_audit()
    return None if found is None else found.query_misfit(loaded, generation)
