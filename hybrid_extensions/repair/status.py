"""Repairs of a table as a part of the pipeline's status."""

from __future__ import annotations

from orchestration.display import moment
from orchestration.supervision.status_part import Row, StatusPart
from sources.config.loader import LoadedPipeline
from sources.generations import acting_on
from spark_jobs.run_state.repairs import Repair, read_repairs

_HEADINGS = ("repaired (UTC)", "missing", "different", "extra", "version of the table")
_SHOWN = 3


def status_part(loaded: LoadedPipeline) -> StatusPart:
    """Return the last three repairs of the serving generation's table as a part of its status.

    Repairs never make a pipeline unhealthy. Without any, the part has no rows.

    Args:
        loaded: The pipeline.

    Raises:
        InputError: The kept declaration of the serving generation is not valid.
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    generation = acting_on(loaded, as_kept=True).open_generation(create=False)
    found = [] if generation is None else read_repairs(generation).repairs[-_SHOWN:]
    return StatusPart(
        "repairs",
        [each.model_dump(mode="json") for each in found],
        is_healthy=True,
        headings=_HEADINGS,
        rows=[Row(_cells(each), is_healthy=True) for each in found],
    )


def _cells(repair: Repair) -> tuple[str, ...]:
    counts = (f"{count:,}" for count in (repair.missing, repair.different, repair.extra))
    version = "" if repair.table_version is None else str(repair.table_version)
    return (moment(repair.begun_ms), *counts, version)
