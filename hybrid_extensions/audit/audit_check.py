"""Asset check `audited`: verdict of the last audit; warns if never audited, unknown, accepted."""

from typing import Any

import dagster as dg

from hybrid_extensions.comparison.audit_metadata import audit_counts
from hybrid_extensions.comparison.last_evaluation import last_evaluation
from orchestration.comparison.installed_audit import AUDITED
from orchestration.comparison.kept_audit import KeptAudit, last_audit
from orchestration.comparison.report import AuditReport
from orchestration.defs.keys import control_name, table_key
from orchestration.defs.show.dagster_failures import failures
from orchestration.defs.show.dagster_remedies import in_dagster
from orchestration.defs.show.metadata import Metadata, table
from orchestration.display import whole_second
from orchestration.remedies import Remedy
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.serving import read_serving

_AUDITED_AT, _EXAMPLES = "audited at", "examples"


def audited_check(loaded: LoadedPipeline) -> dg.AssetChecksDefinition:
    """Return the check of the last audit's verdict; running it by hand shows the verdict again.

    It audits nothing itself. Without any audit of the serving generation it fails, as a warning.

    Args:
        loaded: The pipeline.
    """

    @dg.asset_check(
        name=AUDITED,
        asset=table_key(loaded),
        description=(
            "The table was proved right by the last audit. Evaluated by AUDIT of the job "
            f"`{control_name(loaded)}`, and after {Remedy('audit').command(str(loaded.path))}; one "
            "that failed stays until another passes, or somebody accepts it (ACCEPT_AUDIT)."
        ),
    )
    def audited(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        with failures(loaded):
            kept = last_audit(load_pipeline(loaded.path))
            if kept is None:
                how = f"Never audited. {_how_to_audit(loaded)}"
                severity = dg.AssetCheckSeverity.WARN
                return dg.AssetCheckResult(passed=False, severity=severity, description=how)
            shown = _shown(loaded, kept, _kept_examples(context.instance, loaded, kept))
        return dg.AssetCheckResult(**shown)

    return audited


def _how_to_audit(loaded: LoadedPipeline) -> str:
    """Return in a sentence how to audit in Dagster, and how in a shell."""
    command = Remedy("audit").command(str(loaded.path))
    return f"Launch the job `{control_name(loaded)}` with the action AUDIT, or run {command}."


def ways_out(loaded: LoadedPipeline) -> str:
    """Return in sentences, with remedies, what to do if an audit of what readers see has failed.

    Args:
        loaded: The pipeline.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    before = read_serving(loaded).before
    back = "`hybrid generation rollback P` lets readers see {} again, and "
    ways = back.format(before[-1].generation) if before else ""
    return (
        "If the transform was changed, change the audit's query in the same way, and audit again. "
        f"If the table is wrong, {ways}`hybrid rerun P` computes it anew."
    )


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
        return _evaluation(loaded, kept, _kept_examples(instance, loaded, kept))
    if last_evaluation(instance, _key(loaded)) is None:
        return None
    who, how = read_serving(loaded).generation, _how_to_audit(loaded)
    return dg.AssetCheckEvaluation(
        asset_key=table_key(loaded),
        check_name=AUDITED,
        passed=False,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{who}, which serves now, was never audited. {how}",
    )


def audit_evaluation(
    loaded: LoadedPipeline, kept: KeptAudit, report: AuditReport
) -> dg.AssetCheckEvaluation:
    """Return an audit's verdict as an evaluation of the check ``audited``, to be reported by a job.

    Args:
        loaded: The pipeline.
        kept: The audit.
        report: Its report, for examples of differing keys and columns, which are not kept in the
            state.
    """
    return _evaluation(loaded, kept, examples_of(report))


def examples_of(report: AuditReport) -> Metadata:
    """Return an audit's examples of differing keys and columns as metadata; empty without any.

    Args:
        report: The audit's report.
    """
    rows = [
        {"kind": kind, "key": each.key_text, "column": each.column or ""}
        for kind, found in report.examples.items()
        for each in found
    ]
    return {_EXAMPLES: table(rows)} if rows else {}


def _kept_examples(
    instance: dg.DagsterInstance, loaded: LoadedPipeline, kept: KeptAudit
) -> Metadata:
    """Return the examples of an audit, which only its last evaluation has; empty without any."""
    last = last_evaluation(instance, _key(loaded))
    shown = {} if last is None else last.found.metadata
    at = shown.get(_AUDITED_AT)
    is_same = at is not None and at.value == _time(kept)
    return {_EXAMPLES: shown[_EXAMPLES]} if is_same and _EXAMPLES in shown else {}


def _evaluation(
    loaded: LoadedPipeline, kept: KeptAudit, examples: Metadata
) -> dg.AssetCheckEvaluation:
    shown = _shown(loaded, kept, examples)
    return dg.AssetCheckEvaluation(asset_key=table_key(loaded), check_name=AUDITED, **shown)


def _key(loaded: LoadedPipeline) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(table_key(loaded), AUDITED)


def _time(kept: KeptAudit) -> str:
    return whole_second(kept.at_ms)


def _shown(loaded: LoadedPipeline, kept: KeptAudit, examples: Metadata) -> dict[str, Any]:
    """Return verdict, numbers and notes: failed with ways out; a warning if accepted or unknown."""
    ways = [ways_out(loaded)] if kept.is_wrong else []
    more = [in_dagster(each, loaded) for each in (*ways, *kept.remarks)]
    severity = dg.AssetCheckSeverity.ERROR if kept.is_wrong else dg.AssetCheckSeverity.WARN
    return {
        "passed": kept.outcome == "passed",
        "severity": severity,
        "description": "\n\n".join([kept.text, *more]),
        "metadata": {
            _AUDITED_AT: _time(kept),
            **audit_counts(kept),
            "seconds": round(kept.seconds, 1),
            **examples,
        },
    }
