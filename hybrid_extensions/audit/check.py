"""Verdict of the last audit as an asset check of the table."""

from __future__ import annotations

from typing import Any

import dagster as dg

from hybrid_extensions.comparison.audit_metadata import audit_counts
from orchestration.comparison.installed_audit import AUDITED
from orchestration.comparison.kept_audit import KeptAudit, last_audit
from orchestration.comparison.report import AuditReport
from orchestration.defs.keys import control_name, table_key
from orchestration.defs.show.dagster_failures import failures
from orchestration.defs.show.metadata import table
from orchestration.remedies import Remedy
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.serving import read_serving


def audited_check(loaded: LoadedPipeline) -> dg.AssetChecksDefinition:
    """Return the check of the last audit's verdict; running it by hand shows the verdict again.

    Args:
        loaded: The pipeline.
    """

    @dg.asset_check(
        name=AUDITED,
        asset=table_key(loaded),
        description=(
            "The table was proved right by the last audit. Evaluated by AUDIT of the job "
            f"`{control_name(loaded)}`, and after {Remedy('audit').command(str(loaded.path))}; one "
            "that failed stays until another passes, or somebody accepts it."
        ),
    )
    def audited() -> dg.AssetCheckResult:
        with failures(loaded):
            kept = last_audit(load_pipeline(loaded.path))
        if kept is None:
            how = f"Never audited. {_how_to_audit(loaded)}"
            severity = dg.AssetCheckSeverity.WARN
            return dg.AssetCheckResult(passed=False, severity=severity, description=how)
        return dg.AssetCheckResult(**_shown(kept))

    return audited


def _how_to_audit(loaded: LoadedPipeline) -> str:
    """Return in a sentence how to audit in Dagster, and how in a shell."""
    command = Remedy("audit").command(str(loaded.path))
    return f"Launch the job `{control_name(loaded)}` with the action AUDIT, or run {command}."


def audit_again(
    instance: dg.DagsterInstance, loaded: LoadedPipeline
) -> dg.AssetCheckEvaluation | None:
    """Return the evaluation of ``audited`` to report after a materialization of the table.

    Args:
        instance: Dagster's instance, which keeps the last evaluation.
        loaded: The pipeline.

    Returns:
        The verdict on the generation that serves. If it was never audited, an evaluation that says
        so, and replaces the verdict on another generation; None if there is no such verdict either.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    if (kept := last_audit(loaded)) is not None:
        return audit_evaluation(loaded, kept)
    key = table_key(loaded)
    if instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(key, AUDITED)) is None:
        return None
    who, how = read_serving(loaded).generation, _how_to_audit(loaded)
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=AUDITED,
        passed=False,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{who}, which serves now, was never audited. {how}",
    )


def audit_evaluation(
    loaded: LoadedPipeline, kept: KeptAudit, report: AuditReport | None = None
) -> dg.AssetCheckEvaluation:
    """Return an audit's verdict as an evaluation of the check ``audited``, to be reported by a job.

    Args:
        loaded: The pipeline.
        kept: The audit.
        report: Its report, for examples of differing keys and columns, which are not kept in the
            state; None for no examples.
    """
    shown = _shown(kept)
    examples = {} if report is None else report.examples
    rows = [
        {"kind": kind, "key": each.key_text, "column": each.column or ""}
        for kind, found in examples.items()
        for each in found
    ]
    if rows:
        shown["metadata"]["examples"] = table(rows)
    return dg.AssetCheckEvaluation(asset_key=table_key(loaded), check_name=AUDITED, **shown)


def _shown(kept: KeptAudit) -> dict[str, Any]:
    """Return verdict, numbers and notes: failed, or a warning if accepted or unknown."""
    severity = dg.AssetCheckSeverity.ERROR if kept.is_wrong else dg.AssetCheckSeverity.WARN
    return {
        "passed": kept.outcome == "passed",
        "severity": severity,
        "description": "\n\n".join([kept.text, *kept.remarks]),
        "metadata": {**audit_counts(kept), "seconds": round(kept.seconds, 1)},
    }
