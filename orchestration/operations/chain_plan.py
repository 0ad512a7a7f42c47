"""The plan: made once, replaced while nothing was read by it; validation before it, and exports."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

from orchestration.launch_checks import require_runnable
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.hand_over import hand_over
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from sources.planning.exports import ExportRecord, take_export
from sources.planning.plan import Plan, make_plan
from sources.planning.transform_analysis import request_by_declaration
from spark_jobs.launch.questions.table_places import find_places
from spark_jobs.launch.questions.transform_check import TransformCheck
from spark_jobs.launch.unread_generations import drop_unread, find_outdated
from spark_jobs.launch.waiting_driver import WaitingDriver
from spark_jobs.table.ownership.belonging import require_belonging


def validate(loaded: LoadedPipeline) -> list[str]:
    """Refuse a declaration that can't run here, without reading data; return warnings.

    If a source declares its columns, the transform is analyzed against them by a short Spark
    process; otherwise the plan does that. Nothing is written.

    Returns:
        Warnings, such as that the transform can't be analyzed on this machine; usually none.

    Raises:
        InputError: Java is missing or too old, a package that the declaration needs is not
            installed, a function of the user can't be imported, a query can't be read, or the
            transform does not fit the declared columns, a stream or the sink.
    """
    require_runnable(loaded)
    if (request := request_by_declaration(loaded)) is None:
        return []
    with TransformCheck(loaded) as check:
        return check.analyze(request).warnings


def export(loaded: LoadedPipeline, source: str, report: Callable[[str], None]) -> ExportRecord:
    """Export a source of an extension's kind to files of the newest generation, before its plan.

    An export that is complete is returned as it is. If no generation exists, it is begun. A plan of
    another declaration by which nothing was read is removed with its exports.

    Args:
        loaded: The pipeline.
        source: Name of the source.
        report: Called with a line for each part that is exported.

    Raises:
        InputError: The pipeline has no exported source of this name, or the export can't be used.
        StateError: The declaration changed in a way that the checkpoint can't follow.
        UnavailableError: The state's store does not answer.
        HybridError: The export failed; repeated, it begins again, or resumes.
    """
    named = loaded.pipeline.exported_source(source)
    if (outdated := find_outdated(loaded)) is not None:
        drop_unread(loaded, outdated)
    generation = loaded.open_generation(create=True)
    assert generation is not None  # it is created
    return take_export(loaded, generation, named, report)


def plan(loaded: LoadedPipeline, waiting: WaitingDriver | None = None) -> Plan:
    """Return the plan of the newest generation (computation of the whole table); make it if absent.

    The plan says which files and offsets are read, in which order, and is kept. One that another
    declaration made, and by which nothing was read, is replaced; its approval is then void. So is
    one that is not approved, if files have arrived or were rewritten since.

    A bounded topic that is the chain's first source gets its start and end offsets together with
    the plan. The transform is analyzed against the planned columns unless that was done and nothing
    changed since; the result is kept with the generation
    (:func:`sources.planning.transform_analysis.read_analysis`), and its warnings are in the plan.

    Args:
        loaded: The pipeline.
        waiting: The driver that analyzes the transform and waits for its run, if the plan is to be
            run at once; by default a process that ends with this call.

    Raises:
        InputError: :func:`validate` refuses the declaration, it does not fit the data, the
            transform does not fit the planned columns, a stream or the sink, or the target can't be
            read.
        UnavailableError: A broker, store, database or schema registry does not answer.
        SeamError: Kafka's log no longer reaches back to where history ends, the offsets of a first
            topic can't be decided, or the transform would count rows of a seam twice.
        StateError: The declaration changed in a way that the checkpoint can't follow; checkpoint,
            state and target do not belong together; a run of the generation is active; a snapshot
            or export is not complete; or the state is damaged or can't be written.
    """
    require_runnable(loaded)
    outdated = find_outdated(loaded, looks_at_files=True)
    context = None if outdated is not None else PipelineContext.find(loaded)
    if context is not None:
        # A plan that is missing must not be made again over a checkpoint.
        require_belonging(loaded, context.generation)
    drop = None if outdated is None else partial(drop_unread, loaded, outdated)
    check = TransformCheck(loaded, waiting)
    # A driver that waits for its run outlives the plan.
    with check if waiting is None else nullcontext():
        if context is None or not context.is_planned:
            loaded.state.require_no_obstacle()
            # Spark comes up while files are listed.
            check.start()
            loaded = find_places(loaded, check.process)
        made = make_plan(loaded, drop, check.require)
        context = PipelineContext.require(loaded)
        analysis = check.settle(made, context.generation)
    if (first := planned_topic(loaded)) is not None:
        hand_over(context, first)
    return made.model_copy(update={"warnings": [*made.warnings, *analysis.warnings]})


def planned_topic(loaded: LoadedPipeline) -> KafkaSource | None:
    """Return the chain's first source if it is a bounded topic, whose offsets the plan decides.

    Returns:
        None if the first source reads files, or is unbounded: where its topic starts is then
        decided by a hand-over step after the plan, not by the plan.
    """
    first = loaded.pipeline.sources[0]
    if isinstance(first, KafkaSource) and first.boundedness is Boundedness.BOUNDED:
        return first
    return None
