"""One group of assets for each pipeline: the chain's steps, in order."""

import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from orchestration import chain, snapshots
from orchestration.defs import metadata, plan_metadata
from orchestration.defs.failures import failures
from orchestration.defs.range_partitions import filled_by_history
from orchestration.progress.plan_preview import preview
from orchestration.supervision import supervisor
from sources.config.bad_records import BadRecordCount, bad_count_name
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.generations import begin, target_of, waiting
from sources.hand_over import CHECKS, check_hand_over, hand_over
from sources.kafka.start_offsets import GapError
from sources.ledger import read_ledger
from sources.planning.approval import find_approval
from spark_jobs.checkpoint.transform_history import last_change
from spark_jobs.launch.record import log_path

RESTART_TAG = "hybrid/restart"
"""Marks a run that the supervision asked for, unlike one that people did."""
DECLARATION_TAG = "hybrid/declaration"
"""By which file it is to be started: the generation that serves may have one of its own."""
APPROVED = "approved"
"""The check of a plan that waits for a person."""


class Which(Enum):
    """A generation to choose."""

    CURRENT = "current"
    NEW = "new"


class PlanConfig(dg.Config):
    """The form of a chain's launch."""

    generation: Which = Field(
        default=Which.CURRENT,
        description="CURRENT: go on with what was begun; NEW: make a table anew beside the one "
        "that serves, under the pipeline's file as it is now. A new one that waits for its "
        "promotion already is gone on with.",
    )


def pipeline_assets(loaded: LoadedPipeline) -> list[dg.AssetsDefinition]:
    """The assets of a pipeline: ``plan``, one a bounded source, the hand-over, the live run.

    Before them ``take_snapshot``, if it takes over tables of a database.

    Each reads the pipeline's file again when it runs, so that a change of the environment
    between two runs is seen.
    """
    made: list[dg.AssetsDefinition] = []
    makers = {"start": _start, "bounded": _bounded, "live": _live}
    for step in chain.steps(loaded):
        if step.kind == "snapshot":
            made.append(_snapshot(loaded))
        elif step.source is None:
            made.append(_plan(loaded, [each.key for each in made]))
        else:
            made.append(makers[step.kind](loaded, step.source, made[-1].key))
    return made


def live_key(loaded: LoadedPipeline) -> dg.AssetKey:
    """The asset of the live run."""
    return _key(loaded, loaded.pipeline.sources[-1].name)


def plan_key(loaded: LoadedPipeline) -> dg.AssetKey:
    """The asset of the plan."""
    return _key(loaded, "plan")


def approval_check(loaded: LoadedPipeline) -> dg.AssetChecksDefinition:
    """Holds the chain up after its plan until a person has approved it."""

    @dg.asset_check(
        name=APPROVED,
        asset=plan_key(loaded),
        blocking=True,
        description="A person has approved the plan; until then nothing after it starts.",
    )
    def approved() -> dg.AssetCheckResult:
        fresh = load_pipeline(loaded.path)
        with failures():
            given = find_approval(fresh.require_generation())
        return metadata.approval(fresh.pipeline.name, given)

    return approved


def _key(loaded: LoadedPipeline, step: str) -> dg.AssetKey:
    return dg.AssetKey([loaded.pipeline.name, step])


def _snapshot(loaded: LoadedPipeline) -> dg.AssetsDefinition:
    @dg.asset(
        key=_key(loaded, chain.SNAPSHOT),
        group_name=loaded.pipeline.name,
        kinds={"postgres"},
        description=(
            "Reads the tables under one snapshot of their database into files, chunk by chunk; "
            "what was read before is kept."
        ),
    )
    def take_snapshot(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        with failures():
            taken = snapshots.take(load_pipeline(loaded.path), context.log.info)
        for each in taken:
            for warning in each.document["warnings"]:
                context.log.warning(warning)
        return dg.MaterializeResult(metadata=metadata.snapshots(taken))

    return take_snapshot


def _plan(loaded: LoadedPipeline, before: list[dg.AssetKey]) -> dg.AssetsDefinition:
    @dg.asset(
        key=plan_key(loaded),
        deps=before,
        group_name=loaded.pipeline.name,
        kinds={"plan"},
        description=(
            "What will be read, in which order, where the next source would start, and how long "
            "that takes; nothing is read or written yet."
        ),
    )
    def plan(context: dg.AssetExecutionContext, config: PlanConfig) -> dg.MaterializeResult[None]:
        with failures():
            fresh = load_pipeline(loaded.path)
            if config.generation is Which.NEW and waiting(fresh) is None:
                context.log.info(f"Generation {begin(fresh).name} is begun")
            made = chain.plan(fresh)
            seen = preview(fresh, made)
        for warning in made.warnings:
            context.log.warning(warning)
        return dg.MaterializeResult(metadata=plan_metadata.plan(made, seen))

    return plan


def _bounded(loaded: LoadedPipeline, name: str, before: dg.AssetKey) -> dg.AssetsDefinition:
    @dg.asset(
        key=_key(loaded, name),
        deps=[before],
        group_name=loaded.pipeline.name,
        kinds={"spark", "deltalake"},
        tags={"boundedness": "bounded"},
        description=f"Reads the bounded source `{name}` to its end.",
    )
    def bounded(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        fresh = load_pipeline(loaded.path)
        source = fresh.pipeline.source(name)
        with (
            failures(),
            # For the job's progress only: what it did is read from the state folder.
            dg.open_pipes_session(
                context=context,
                context_injector=dg.PipesTempFileContextInjector(),
                message_reader=dg.PipesTempFileMessageReader(),
            ) as session,
        ):
            end = chain.run_bounded(
                fresh,
                source,
                on_output=lambda line: print(line, file=sys.stderr, flush=True),  # noqa: T201
                extra_environment=session.get_bootstrap_env_vars(),
                go_on=_is_asked_for(context, live_key(loaded)),
            )
        generation = fresh.require_generation()
        bad = generation.read(bad_count_name(name), BadRecordCount)
        if isinstance(source, FileSource):
            for filled in filled_by_history(fresh, generation.name, context.instance):
                context.log_event(filled)
        changed = metadata.transform(last_change(generation))
        return dg.MaterializeResult(metadata={**metadata.end(end, bad), **changed})

    return bounded


def _start(loaded: LoadedPipeline, name: str, before: dg.AssetKey) -> dg.AssetsDefinition:
    @dg.asset(
        key=_key(loaded, f"{name}_start"),
        deps=[before],
        group_name=loaded.pipeline.name,
        kinds={"kafka"},
        description=(
            f"Decides where `{name}` starts: from the end of history to start offsets, with the "
            "reason for each partition (the SourceFactory of FLIP-150)."
        ),
        check_specs=[
            dg.AssetCheckSpec(
                check, asset=_key(loaded, f"{name}_start"), description=text, blocking=True
            )
            for check, text in CHECKS.items()
        ],
    )
    def start(context: dg.AssetExecutionContext) -> Iterator[Any]:
        fresh = load_pipeline(loaded.path)
        source = fresh.pipeline.source(name)
        assert isinstance(source, KafkaSource)
        with failures():
            try:
                ledger = hand_over(fresh, source)
            except GapError as error:
                yield metadata.gaps(error)
                raise
            _, count = read_ledger(fresh.require_generation(), name)
            yield dg.MaterializeResult(metadata=metadata.ledger(ledger, count))
            for check in check_hand_over(fresh, source, chain.reached(fresh, source)):
                if not check.passed:
                    context.log.warning(f"{check.name}: {check.text}")
                yield metadata.check(check)

    return start


def _live(loaded: LoadedPipeline, name: str, before: dg.AssetKey) -> dg.AssetsDefinition:
    is_topic = isinstance(loaded.pipeline.source(name), KafkaSource)

    @dg.asset(
        key=_key(loaded, name),
        deps=[before],
        group_name=loaded.pipeline.name,
        kinds={"spark", "deltalake", *(["kafka"] if is_topic else [])},
        tags={"boundedness": "continuous_unbounded"},
        description=(
            f"Starts the unbounded run of `{name}` and returns when its first batch is in; "
            "the run lives on."
        ),
    )
    def live(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        fresh = load_pipeline(Path(context.run.tags.get(DECLARATION_TAG, loaded.path)))
        source = fresh.pipeline.source(name)
        is_restart = RESTART_TAG in context.run.tags
        # The supervision itself decides when a restart is tried again.
        with failures(allow_retries=not is_restart):
            start = supervisor.restart if is_restart else chain.go_live
            beat = start(fresh, source)
        context.log.info(f"The run of `{name}` is live: driver {beat.pid}")
        generation = fresh.require_generation()
        if (changed := last_change(generation)) is not None:
            context.log.warning(changed)
        log = log_path(generation, name)
        target = target_of(fresh, generation.name)
        shown = {**metadata.live(beat, log, target), **metadata.transform(changed)}
        return dg.MaterializeResult(metadata=shown)

    return live


def _is_asked_for(context: dg.AssetExecutionContext, asset: dg.AssetKey) -> bool:
    """Whether this Dagster run is to materialize an asset too."""
    planned = context.instance.get_records_for_run(
        context.run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    )
    events = [record.event_log_entry.dagster_event for record in planned.records]
    return any(event is not None and event.asset_key == asset for event in events)


def find_pipelines(places: Iterable[Path]) -> list[LoadedPipeline]:
    """All pipelines declared in these folders (``*.yaml``) and files.

    Raises:
        InputError: One can't be read; names it.
    """
    files = [
        file
        for place in places
        for file in (sorted(place.glob("*.yaml")) if place.is_dir() else [place])
    ]
    return [load_pipeline(file) for file in files]
