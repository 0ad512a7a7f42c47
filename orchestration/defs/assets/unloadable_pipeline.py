"""Asset that stands for a pipeline's file that can't be loaded: failed, with the reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import dagster as dg

from orchestration.defs.show.dagster_failures import ToldFailure
from sources.errors import HybridError

LOADED = "loaded"
"""Name of the check."""
IS_INVALID = "_file_is_invalid"
"""End of the name of the job that stands in place of those of the pipeline."""
_DESCRIPTION = "The file can be loaded, so that its pipeline is shown, supervised and restarted."


class UnreadableFile(NamedTuple):
    """File of a pipeline that can't be loaded.

    Attributes:
        path: The file.
        error: The error that loading it has raised.
    """

    path: Path
    error: Exception


def file_name(path: Path) -> str:
    """Return the name of the asset that stands for a file; others may have the same."""
    return re.sub(r"\W", "_", path.stem, flags=re.ASCII)


def unreadable_definitions(failed: UnreadableFile, number: int = 0) -> dg.Definitions:
    """Return the asset of a file that can't be loaded, its check, and the sensor that reports it.

    The check fails with what was wrong when the code location was loaded; the sensor, which runs
    unless people switch it off, reports that once, and again only when the text has changed. On the
    page of jobs, a job stands in place of the pipeline's, and fails with the same.

    Args:
        failed: The file.
        number: Its number among those with the same :func:`file_name`, from 0.
    """
    path = failed.path
    name = file_name(path) + (f"_{number}" if number else "")
    error = failed.error
    told = str(error) if isinstance(error, HybridError) else f"{type(error).__name__}: {error}"
    text = (
        f"`{path}` can't be loaded, so its pipeline is neither shown nor supervised. {told} Then "
        "reload the code location. A live run of it, if one is active, goes on; the command `stop` "
        "ends it by the file's copy in the state folder, below `definition` of its generation."
    )
    spec = dg.AssetSpec([name, "file"], group_name=name, kinds={"yaml"}, description=text)

    @dg.asset_check(asset=spec.key, name=LOADED, description=_DESCRIPTION)
    def loaded() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=False, description=text)

    @dg.sensor(
        name=f"{name}_file",
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Reports what is wrong in `{path.name}`.",
    )
    def report(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        if context.cursor == text:
            return dg.SkipReason(text)
        event = dg.AssetCheckEvaluation(
            asset_key=spec.key, check_name=LOADED, passed=False, description=text
        )
        return dg.SensorResult(asset_events=[event], cursor=text)

    @dg.op(name=f"load_{name}_file")
    def load() -> None:
        raise ToldFailure(text, {}, allow_retries=False)

    @dg.job(name=f"{name}{IS_INVALID}", description=text)
    def told_by_name() -> None:
        load()

    return dg.Definitions(
        assets=[spec], asset_checks=[loaded], jobs=[told_by_name], sensors=[report]
    )
