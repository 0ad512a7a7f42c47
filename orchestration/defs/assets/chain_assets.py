"""Assets of a chain's steps: a run ends to wait for an approval, and leaves a paused run paused."""

from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from orchestration.attribution import acting_user
from orchestration.capture.interface import require_capture
from orchestration.chain import (
    BoundedStep,
    ChainRun,
    ExportStep,
    HandoverStep,
    LiveStep,
    PlanStep,
    RestOfSnapshotStep,
    SnapshotStep,
    Step,
    export_steps,
    steps_of,
)
from orchestration.defs.assets.data_versions import STEP_VERSION
from orchestration.defs.assets.export_asset import export_asset
from orchestration.defs.assets.run_notes import live_metadata, say_candidate
from orchestration.defs.assets.upstream import live_upstream, upstream_keys
from orchestration.defs.jobs.approval_waits import end_waits, wait
from orchestration.defs.jobs.waiting_drivers import driver_of_plan, driver_of_step
from orchestration.defs.keys import (
    APPROVED,
    DECLARATION_TAG,
    GENERATION_TAG,
    POOL,
    RESTART_TAG,
    RESULT_TAG,
    control_name,
    live_key,
    note_on_run,
    plan_key,
    role_of,
    step_key,
    steps_group,
)
from orchestration.defs.show import metadata, plan_metadata
from orchestration.defs.show.dagster_failures import failures, load_again
from orchestration.defs.show.dagster_remedies import in_dagster
from orchestration.defs.show.step_progress import StepProgress
from orchestration.display import ended_in_words
from orchestration.supervision import supervisor
from sources.config.loader import LoadedPipeline
from sources.config.source.bad_record_policy import BadRecordCount, bad_count_name
from sources.generations import begin
from sources.hand_over_checks import CHECKS
from sources.kafka.start.declared_start import GapError
from sources.ledger import read_ledger
from sources.planning.approval import find_approval
from sources.serving import candidate_name
from spark_jobs.checkpoint.transform_compatibility import last_change
from spark_jobs.run_state.late_row_count import read_late_rows
from spark_jobs.run_state.requested_state import read_requested


class Which(Enum):
    """Choice in the launch form: the generation (computation of the whole table) to work on."""

    CURRENT = "current"
    NEW = "new"


class PlanConfig(dg.Config):
    """Launch form of a chain: configuration of the plan's asset.

    Attributes:
        generation: Whether to continue the newest generation, or to begin a new one.
    """

    generation: Which = Field(
        default=Which.CURRENT,
        description="CURRENT: continue the newest generation. NEW: begin a new generation, which "
        "computes a table next to the serving one from the pipeline's file as it is now; if one "
        "is already waiting for its promotion, that one is continued.",
    )


def pipeline_assets(
    loaded: LoadedPipeline, after: Sequence[dg.AssetKey] = ()
) -> list[dg.AssetsDefinition]:
    """Return the assets of a pipeline, one for each step of its chain, each after the previous.

    Each reads the pipeline's file again when it runs, so that a change of the file or of the
    environment between two runs takes effect. An error of its step fails the Dagster step, or
    retries it if it is transient.

    Args:
        loaded: The pipeline.
        after: Assets that the first one depends on.

    Raises:
        InputError: The pipeline declares a snapshot, and no installed extension captures tables.
    """
    made: list[dg.AssetsDefinition] = []
    for step in steps_of(loaded):
        made.append(_asset(loaded, step, [each.key for each in made[-1:]] or after))
    return made


def _asset(
    loaded: LoadedPipeline, step: Step[Any], before: Sequence[dg.AssetKey]
) -> dg.AssetsDefinition:
    match step:
        case SnapshotStep() | RestOfSnapshotStep():
            made: dg.AssetsDefinition = require_capture().asset(loaded, step, before)
            return made
        case ExportStep():
            return export_asset(loaded, step, before)
        case PlanStep():
            return _plan(loaded, step, before)
        case HandoverStep():
            return _handover(loaded, step, before)
        case BoundedStep():
            return _bounded(loaded, step, before)
        case LiveStep():
            return _live(loaded, step, before)
        case _:
            message = f"There is no asset for a step of kind {type(step).__name__}."
            raise TypeError(message)


def _plan(
    loaded: LoadedPipeline, step: PlanStep, before: Sequence[dg.AssetKey]
) -> dg.AssetsDefinition:
    key = plan_key(loaded)
    reading = [step_key(loaded, source.name) for source in loaded.pipeline.sources]
    approved = dg.AssetCheckSpec(
        APPROVED, asset=key, description="A person has approved the plan; no step starts before."
    )

    @dg.asset(
        key=key,
        deps=before,
        group_name=steps_group(loaded),
        kinds={"plan"},
        description=(
            "Decides what will be read, in which order, where the next source is expected to "
            f"start, and estimates how long that takes. {plan_metadata.PREVIEW}"
        ),
        check_specs=[approved] if loaded.pipeline.approve else None,
        # Without an output the steps after this one are skipped, and the run is no failure.
        output_required=False,
    )
    def plan(context: dg.AssetExecutionContext, config: PlanConfig) -> Iterator[Any]:
        with failures(loaded):
            fresh = load_again(loaded.path)
            if config.generation is Which.NEW:
                if candidate_name(fresh) is None:
                    by = acting_user(context.run.tags, None)
                    context.log.info(f"Generation {begin(fresh, by).name} is begun.")
                # The steps before this one were of the generation before.
                for export in export_steps(fresh):
                    export.run(ChainRun(fresh, StepProgress(context, fresh)))
            say_candidate(context, fresh)
            reads = _is_requested(context, *reading)
            with driver_of_plan(context, fresh, is_needed=reads) as driver:
                made = step.run(ChainRun(fresh, StepProgress(context, fresh), waiting=driver)).value
                generation = fresh.require_generation()
                given = find_approval(generation)
                goes_on = reads and (given is not None or not fresh.pipeline.approve)
                shown = plan_metadata.plan(fresh, made, is_carried_out=goes_on)
        note_on_run(context, {GENERATION_TAG: generation.name})
        for warning in made.warnings:
            context.log.warning(warning)
        if not fresh.pipeline.approve:
            yield dg.MaterializeResult(metadata=shown)
            return
        check = metadata.approval(fresh, given)
        if given is not None:
            end_waits(context.instance, fresh)
            yield dg.MaterializeResult(metadata=shown, check_results=[check])
            return
        context.log_event(dg.AssetMaterialization(key, metadata=shown))
        if _is_requested(context, live_key(loaded)):
            wait(context, check)
        yield check

    return plan


def _bounded(
    loaded: LoadedPipeline, step: BoundedStep, before: Sequence[dg.AssetKey]
) -> dg.AssetsDefinition:
    @dg.asset(
        key=step_key(loaded, step.name),
        deps=[*before, *upstream_keys(loaded, step.name)],
        group_name=steps_group(loaded),
        kinds={"spark", "deltalake"},
        tags={"boundedness": "bounded"},
        pool=POOL,
        description=f"Reads the bounded source {step.name} to its end.",
    )
    def bounded(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        with (
            failures(loaded),
            # Only shows the job's progress: its result is read from the state folder.
            dg.open_pipes_session(
                context=context,
                context_injector=dg.PipesTempFileContextInjector(),
                message_reader=dg.PipesTempFileMessageReader(),
            ) as session,
        ):
            fresh = load_again(loaded.path)
            say_candidate(context, fresh)
            is_live_next = _is_requested(context, live_key(loaded))
            with driver_of_step(context, is_needed=is_live_next) as driver:
                run = ChainRun(
                    fresh,
                    StepProgress(context, fresh),
                    rest_requested=is_live_next,
                    environment=session.get_bootstrap_env_vars(),
                    waiting=driver,
                )
                end = step.run(run).value
        generation = run.context.generation
        note_on_run(context, {GENERATION_TAG: generation.name})
        bad = generation.read(bad_count_name(step.name), BadRecordCount)
        changed = metadata.transform(last_change(generation))
        late = read_late_rows(generation, step.name)
        role = {"generation": role_of(run.loaded, generation.name)}
        return dg.MaterializeResult(
            metadata={**role, **metadata.end(end, bad, late), **changed},
            data_version=STEP_VERSION,
        )

    return bounded


def _handover(
    loaded: LoadedPipeline, step: HandoverStep, before: Sequence[dg.AssetKey]
) -> dg.AssetsDefinition:
    key = step_key(loaded, step.name)

    @dg.asset(
        key=key,
        deps=before,
        group_name=steps_group(loaded),
        kinds={"kafka"},
        description=(
            f"Decides from which offsets {step.source} starts, by where the source before it "
            "ends, with the reason for each partition (the SourceFactory of FLIP-150)."
        ),
        check_specs=[
            dg.AssetCheckSpec(check, asset=key, description=text, blocking=True)
            for check, text in CHECKS.items()
        ],
    )
    def handover(context: dg.AssetExecutionContext) -> Iterator[Any]:
        with failures(loaded):
            fresh = load_again(loaded.path)
            say_candidate(context, fresh)
            run = ChainRun(fresh, StepProgress(context, fresh))
            try:
                ledger, checks = step.run(run).value
            except GapError as error:
                yield metadata.gaps(error, loaded)
                raise
            generation = run.context.generation
            _, count = read_ledger(generation, step.source)
            role = {"generation": role_of(run.loaded, generation.name)}
            yield dg.MaterializeResult(
                metadata={**role, **metadata.ledger(ledger, count)},
                data_version=STEP_VERSION,
            )
            for check in checks:
                if not check.passed:
                    context.log.warning(f"{check.name}: {check.text}")
                yield metadata.check(check)

    return handover


def _live(
    loaded: LoadedPipeline, step: LiveStep, before: Sequence[dg.AssetKey]
) -> dg.AssetsDefinition:
    followed = loaded.pipeline.followed

    @dg.asset(
        key=step_key(loaded, step.name),
        deps=[*before, *live_upstream(loaded)],
        group_name=steps_group(loaded),
        kinds={"spark", "deltalake", *({"kafka"} & {loaded.pipeline.source(step.name).type})},
        tags={"boundedness": "continuous_unbounded"},
        pool=POOL,
        description=(
            f"Starts the unbounded run of {' and '.join(s.name for s in followed)} and returns "
            "when its first batch is committed; the run continues in the background, watched by "
            "the supervision. One that "
            f"people have paused stays paused: `{control_name(loaded)}` with RESUME starts it."
        ),
        # A run that stays paused has no output: the steps after it are skipped, with no failure.
        output_required=False,
    )
    def live(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        tags = context.run.tags
        is_restart = RESTART_TAG in tags
        # The supervision itself decides when a restart is tried again.
        with failures(loaded, allow_retries=not is_restart):
            acting = load_again(Path(tags.get(DECLARATION_TAG, loaded.path)))
            if not is_restart:
                say_candidate(context, acting)
            with driver_of_step(context) as driver:
                run = ChainRun(acting, StepProgress(context, acting), waiting=driver)
                if not is_restart and (paused := _pause_of(run)) is not None:
                    note_on_run(context, {RESULT_TAG: "still paused"})
                    context.log.warning(in_dagster(paused, loaded))
                    return
                if is_restart:
                    beat = supervisor.restart(run.loaded, run.context.pipeline.source(step.name))
                else:
                    beat = step.run(run).value
        yield dg.MaterializeResult(
            metadata=live_metadata(context, run.loaded, beat),
            data_version=STEP_VERSION,
        )

    return live


def _pause_of(run: ChainRun) -> str | None:
    """Return since when, by whom and why the live run is paused; None if it is not."""
    requested = read_requested(run.context.generation)
    if requested is None or not requested.is_paused:
        return None
    return f"{ended_in_words(requested)} It stays paused; to resume it, run `hybrid resume P`."


def _is_requested(context: dg.AssetExecutionContext, *assets: dg.AssetKey) -> bool:
    """Return whether this Dagster run is to materialize one of some assets, too."""
    planned = context.instance.get_records_for_run(
        context.run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    )
    events = [record.event_log_entry.dagster_event for record in planned.records]
    return any(event is not None and event.asset_key in assets for event in events)
