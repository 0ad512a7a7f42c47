"""The audit as the core calls it (interface `Audit`): report, query's fit, check shown again."""

from __future__ import annotations

import dagster as dg

from hybrid_extensions.audit.audit_check import audit_again
from hybrid_extensions.audit.run import audit
from orchestration.comparison.installed_audit import Audit
from orchestration.comparison.report import AuditReport
from sources.config.loader import LoadedPipeline


class InputAudit(Audit):
    """Audit of a pipeline's table by DuckDB, which computes it from all raw input."""

    def report(self, loaded: LoadedPipeline) -> AuditReport:
        """Audit the table and return the report; raises what :func:`~.run.audit` does."""
        return audit(loaded)

    def query_misfit(self, loaded: LoadedPipeline, generation: str) -> str | None:
        """Return why the audit's query does not fit a generation's table; None if it fits.

        It is tried without rows; raises what
        :func:`hybrid_extensions.audit.query_fit.query_misfit` does.
        """
        # DuckDB takes long to import.
        from hybrid_extensions.audit.query_fit import query_misfit  # noqa: PLC0415

        return query_misfit(loaded, generation)

    def check_again(
        self, instance: dg.DagsterInstance, loaded: LoadedPipeline
    ) -> dg.AssetCheckEvaluation | None:
        """Return the last verdict, by :func:`hybrid_extensions.audit.audit_check.audit_again`.

        Raises what that does. None if there never was a verdict.
        """
        return audit_again(instance, loaded)


AUDIT = InputAudit()
