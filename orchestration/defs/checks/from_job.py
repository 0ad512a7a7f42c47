"""Check results that a job reports, as its runs materialize no asset that could return them."""

import dagster as dg


def report_check(
    instance: dg.DagsterInstance, key: dg.AssetKey, name: str, found: dg.AssetCheckResult
) -> None:
    """Report the result of an asset's check from a job, outside of a run of that asset.

    Args:
        instance: Dagster's instance.
        key: The asset.
        name: Name of the check.
        found: The result.
    """
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=key,
            check_name=name,
            passed=found.passed,
            severity=found.severity,
            description=found.description,
            metadata=dict(found.metadata or {}),
        )
    )
