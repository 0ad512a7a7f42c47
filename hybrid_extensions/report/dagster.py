"""Action REPORT of the control job in Dagster: write the page and link it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from hybrid_extensions.report.collect import collect
from hybrid_extensions.report.page import render, write
from orchestration.defs.assets.table import REPORT, last_action
from orchestration.defs.jobs.actions import Action
from orchestration.defs.jobs.control_form import OF_GENERATION, acting_generation
from orchestration.defs.keys import table_key
from orchestration.defs.show.reports import report_now
from orchestration.display import moment
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import leaving

_FILE = "report.html"
_WRITTEN = "REPORT: written, as the entry `report` shows."


def actions(loaded: LoadedPipeline) -> Mapping[str, Action]:
    """Return the action REPORT of a pipeline's control job, by name."""
    del loaded
    text = (
        "writes one HTML page about plan, seam, audit, generations and status, to attach to a "
        "ticket; the table's page links to it; changes nothing"
    )
    return {"REPORT": Action(write_report, text, OF_GENERATION)}


@leaving("The table was not changed.")
def write_report(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    """Write the HTML report into the state folder, and link it from the table's asset in Dagster.

    Dagster's job ``<pipeline>_control`` runs it if that action is chosen. Where Dagster keeps its
    logs on a disk, a copy is there, too: its web server hands out no other files, and a browser
    follows no link from it to a disk.

    Args:
        context: The job's Dagster run.
        loaded: The pipeline.
        config: What people entered at the launch: ``generation``, empty for the serving one.

    Raises:
        StateError: The state can't be read, or the page can't be written.
        InputError: There is no such generation.
        UnavailableError: The state's store does not answer.
    """
    acting = acting_generation(context, loaded, config)
    page = render(collect(acting), acting)
    loaded.state.replace_bytes(_FILE, page.encode())
    place = loaded.state.location(_FILE)
    shown = f"`{place}`"
    # The manager that keeps logs on a disk has this method, others do not.
    path_of = getattr(context.instance.compute_log_manager, "get_captured_local_path", None)
    if path_of is not None:
        key = ["hybrid", loaded.pipeline.name, "report"]
        copy = Path(path_of(key, "html"))
        copy.parent.mkdir(parents=True, exist_ok=True)
        write(page, copy)
        shown = f"[Download](/logs/{'/'.join(key)}/html), or open {shown}"
    metadata = {REPORT: dg.MetadataValue.md(f"{shown}. As of {moment(now_ms())} UTC.")}
    context.add_output_metadata(metadata)
    text = f"The report is written: {place}"
    observed = {**last_action(_WRITTEN), **metadata}
    context.log_event(dg.AssetObservation(table_key(loaded), description=text, metadata=observed))
    context.log.info(text)
    # The overview shows the last materialization alone.
    report_now(context, loaded, _WRITTEN)
