"""Check before a launch that each document of the state which a run uses can be read."""

from __future__ import annotations

from sources.config.source.bad_record_policy import BadRecordCount, bad_count_name
from sources.config.source.rate_limit import rate_of
from sources.kept_definitions import read_kept
from sources.ledger import read_ledger
from sources.planning.context import PipelineContext
from sources.planning.declaration_digests import is_planned_by
from sources.planning.plan import find_plan
from sources.planning.transform_analysis import read_analysis
from spark_jobs.checkpoint.history_watermark import history_watermark
from spark_jobs.checkpoint.transform_compatibility import read_transforms
from spark_jobs.launch.launch_record import last_launch
from spark_jobs.run_state.heartbeat import read_heartbeat
from spark_jobs.run_state.late_row_count import read_late_rows
from spark_jobs.run_state.progress_log import read_progress_log


def require_readable(context: PipelineContext) -> None:
    """Refuse a state with a document that another version of this project wrote; change nothing.

    Called before each launch, and before anything is written for it: a driver would only find out
    once it runs. Documents that a task or the supervision alone reads are not among them.

    Raises:
        StateError: A document is of a version that this one does not know, or damaged.
        UnavailableError: The state's store does not answer.
    """
    generation = context.generation
    read_kept(generation)
    find_plan(generation)
    is_planned_by(context.loaded, generation)
    read_analysis(generation)
    history_watermark(generation, is_live=True)
    read_transforms(generation)
    last_launch(generation)
    for source in context.pipeline.sources:
        context.switch_state.end_of(source.name)
        context.switch_state.start_of(source.name)
        read_heartbeat(generation, source.name)
        read_progress_log(generation, source.name)
        read_ledger(generation, source.name)
        read_late_rows(generation, source.name)
        rate_of(generation, source.name, source.rate)
        generation.read(bad_count_name(source.name), BadRecordCount)
