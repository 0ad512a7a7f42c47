"""The audit by DuckDB as the core asks for it."""

from __future__ import annotations

from hybrid_extensions.audit.run import audit
from orchestration.comparison.installed_audit import Audit
from orchestration.comparison.report import AuditReport
from sources.config.loader import LoadedPipeline


class InputAudit(Audit):
    """Audit from all raw input."""

    def report(self, loaded: LoadedPipeline) -> AuditReport:
        """Return the report of an audit, by :func:`hybrid_extensions.audit.run.audit`."""
        return audit(loaded)

    def query_misfit(self, loaded: LoadedPipeline, generation: str) -> str | None:
        """Try the query without rows, by :func:`hybrid_extensions.audit.query_fit.query_misfit`."""
        # DuckDB takes long to import.
        from hybrid_extensions.audit.query_fit import query_misfit  # noqa: PLC0415

        return query_misfit(loaded, generation)


AUDIT = InputAudit()
