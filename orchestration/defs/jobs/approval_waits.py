"""Dagster runs that ended to wait for an approval of their plan, and runs that continue after it.

To wait is no failure: such a run ends as a success, with a tag that says what it waits for.
"""

from __future__ import annotations

from typing import NamedTuple

import dagster as dg

from orchestration.attribution import USER_TAG
from orchestration.defs.checks.from_job import report_check
from orchestration.defs.keys import (
    ACTION_TAG,
    APPROVAL,
    APPROVED,
    GENERATION_TAG,
    PAUSED_TAG,
    generation_name,
    live_key,
    note_on_run,
    plan_key,
)
from orchestration.defs.show import metadata
from sources.config.loader import LoadedPipeline
from sources.generations import is_unread
from sources.planning.approval import Approval, find_approval

_KEPT_TAGS = {ACTION_TAG, USER_TAG}
"""Tags of a run that waited which the run after it has, too: what it does, and for whom."""


def wait(
    context: dg.AssetExecutionContext | dg.OpExecutionContext, due: dg.AssetCheckResult
) -> None:
    """Tag the present Dagster run as one that ends to wait for an approval; log how to give it.

    The run itself has to end after that: nothing blocks here.

    Args:
        context: The run.
        due: The result of the check ``approved``, which says how to approve.
    """
    note_on_run(context, {PAUSED_TAG: APPROVAL})
    context.log.warning(due.description)


def report_approval(instance: dg.DagsterInstance, loaded: LoadedPipeline) -> dg.AssetCheckResult:
    """Report the check of the plan's approval to Dagster from a job, and return its result.

    Args:
        instance: Dagster's instance.
        loaded: The pipeline.

    Raises:
        InputError: The scheme of ``state`` is not supported, or its store refuses.
        StateError: Nothing was planned yet, or the state can't be read.
        UnavailableError: The state's store does not answer.
    """
    found = metadata.approval(loaded, find_approval(loaded.require_generation()))
    report_check(instance, plan_key(loaded), APPROVED, found)
    return found


def end_waits(instance: dg.DagsterInstance, loaded: LoadedPipeline) -> bool:
    """Tag the Dagster runs that ended to wait for an approval, if it was given, with who approved.

    Does nothing without an approval.

    Args:
        instance: Dagster's instance.
        loaded: The pipeline.

    Returns:
        Whether there was such a run.

    Raises:
        InputError: The scheme of ``state`` is not supported, or its store refuses.
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    waited = _waited(instance, loaded, [APPROVAL])
    for run, given in waited:
        instance.add_run_tags(run.run_id, {PAUSED_TAG: f"nothing: approved by {given.by}"})
    return bool(waited)


def after_approval(instance: dg.DagsterInstance, loaded: LoadedPipeline) -> list[dg.RunRequest]:
    """Return the request for the Dagster run that continues after an approval, if there is one.

    It is a run of the chain; or of the rerun, by its own form, if a rerun waited. Called by the
    sensor at each tick: Dagster launches a request of the same key once. Empty if no run waited,
    and once the plan was begun to be read.

    Args:
        instance: Dagster's instance.
        loaded: The pipeline, by its file.

    Raises:
        InputError: The scheme of ``state`` is not supported, or its store refuses.
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    # Runs of earlier versions have the name of the check.
    waited = _waited(instance, loaded, [APPROVAL, APPROVED])
    if not waited or not is_unread(generation := loaded.require_generation()):
        return []
    name = loaded.pipeline.name
    # Once for each approval.
    key = f"{name}:approved:{generation.name}:{waited[0].given.at_ms}"
    again = generation_name(loaded)
    rerun = next((run for run, _ in waited if run.job_name == again), None)
    if rerun is None:
        return [dg.RunRequest(run_key=key, job_name=name)]
    tags = {tag: value for tag, value in rerun.tags.items() if tag in _KEPT_TAGS}
    return [dg.RunRequest(run_key=key, job_name=again, run_config=rerun.run_config, tags=tags)]


def give_up_waits(instance: dg.DagsterInstance, loaded: LoadedPipeline, generation: str) -> None:
    """Tag the Dagster runs that ended to wait for an approval: their generation was discarded.

    Args:
        instance: Dagster's instance.
        loaded: The pipeline.
        generation: Name of the discarded generation.
    """
    for record in _records(instance, loaded, [APPROVAL], generation):
        told = {PAUSED_TAG: f"nothing: {generation} was discarded"}
        instance.add_run_tags(record.dagster_run.run_id, told)


class _Waited(NamedTuple):
    run: dg.DagsterRun
    given: Approval


def _waited(
    instance: dg.DagsterInstance, loaded: LoadedPipeline, waits_for: list[str]
) -> list[_Waited]:
    """Return the runs that ended to wait for an approval which is given by now, the last one first.

    Args:
        instance: Dagster's instance.
        loaded: The pipeline.
        waits_for: Values of the tag.
    """
    generation = loaded.open_generation(create=False) if loaded.pipeline.approve else None
    given = None if generation is None else find_approval(generation)
    if generation is None or given is None:
        return []
    return [
        _Waited(record.dagster_run, given)
        for record in _records(instance, loaded, waits_for, generation.name)
        # One that ended before waited for a generation of the same name, which was discarded.
        if (record.end_time or 0) * 1000 >= generation.info.created_ms
    ]


def _records(
    instance: dg.DagsterInstance, loaded: LoadedPipeline, waits_for: list[str], generation: str
) -> list[dg.RunRecord]:
    """Return the runs of a pipeline that ended to wait for a generation's approval."""
    own = {loaded.pipeline.name, generation_name(loaded)}
    filters = dg.RunsFilter(tags={PAUSED_TAG: waits_for, GENERATION_TAG: generation})
    return [
        record
        for record in instance.get_run_records(filters)
        # Runs of the graph of assets have a job in common; what they materialize tells them apart.
        if record.dagster_run.job_name in own
        or live_key(loaded) in (record.dagster_run.asset_selection or ())
    ]
