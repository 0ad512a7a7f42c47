"""Keeping of an audit's verdict in the state of its generation, without rows."""

from __future__ import annotations

from orchestration.comparison.kept_audit import AUDIT, KeptAudit
from orchestration.comparison.report import AuditReport
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError


def keep_audit(loaded: LoadedPipeline, report: AuditReport) -> KeptAudit:
    """Write an audit to the state of its generation, replacing the previous one.

    Args:
        loaded: The pipeline.
        report: The audit's report.

    Returns:
        The audit as it is kept. If the state can't be written, as by somebody who may only read it,
        nothing is raised and a note says so: the audit may have taken an hour.
    """
    made = KeptAudit.of(report, now_ms())
    try:
        if (generation := loaded.open_generation(create=False)) is not None:
            generation.replace(AUDIT, made)
    except HybridError as error:
        note = f"This audit is not kept: {error}"
        return made.model_copy(update={"notes": [*made.notes, note]})
    return made
