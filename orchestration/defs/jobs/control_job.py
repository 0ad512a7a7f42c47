"""Job `<pipeline>_control`: which actions it has, such as PAUSE, DRAIN, RATE; what each does."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from orchestration.attribution import acting_user
from orchestration.defs.assets.data_versions import live_tags
from orchestration.defs.assets.run_notes import live_metadata
from orchestration.defs.assets.table import card_and_facts, card_metadata, last_day
from orchestration.defs.jobs import job_texts
from orchestration.defs.jobs.action_form import action_schema, read_form
from orchestration.defs.jobs.actions import Act, Action
from orchestration.defs.jobs.approval_waits import report_approval
from orchestration.defs.jobs.control_form import ControlForm, acting_generation, fields_of
from orchestration.defs.jobs.form_job import job_of
from orchestration.defs.keys import ACTION_TAG, control_name, live_key, note_on_run
from orchestration.defs.show.dagster_failures import failures
from orchestration.defs.show.reports import report_now
from orchestration.operations import live_run, rate_change, stopping
from orchestration.supervision import controls
from sources.common.counting import counted
from sources.common.durations import parse_duration
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.source.rate_limit import parse_limit
from sources.errors import COMMITTED_STAYS, InputError, leaving
from sources.extensions import contributions
from sources.generations import acting_on
from sources.hybrid import Boundedness
from sources.planning.approval import approve
from sources.serving import generation_with_role

_REPORT_EVERY = 20
"""Looks between two log lines of a drain: one for each would fill Dagster's event log."""
_UNSUPERVISED = (
    "A live run, if one is active, goes on, but nobody supervises it until the file is corrected; "
    "STOP of this job ends it even now."
)


def control_job(loaded: LoadedPipeline) -> dg.JobDefinition:
    """Return the job that controls a pipeline's runs; its form names the action.

    A pipeline that ends in an unbounded source has ``PAUSE``, ``RESUME`` and ``DRAIN``; one whose
    plan needs an approval has ``APPROVE``; all have ``STOP``, ``RATE`` and ``STATUS``, which is the
    default and changes nothing; extensions add others. Each does what the command of the same name
    does, and reads the pipeline's file again; while that is invalid, only ``STOP`` works. Those
    that act on runs do so on the generation that serves, unless the form names another one.
    """
    actions = control_actions(loaded)

    def control(context: dg.OpExecutionContext) -> None:
        with failures(loaded):
            config = read_form(context.op_config, actions, ControlForm)
            note_on_run(context, {ACTION_TAG: config.action})
            actions[config.action].act(context, _as_it_is(loaded, config.action), config)

    text = job_texts.control(loaded, actions)
    schema = action_schema(actions, "pause: {why: new brokers}")
    return job_of(loaded, control_name(loaded), control, text, schema)


def _as_it_is(loaded: LoadedPipeline, action: str) -> LoadedPipeline:
    """Return the pipeline by its file as it is now; for STOP as loaded if it is invalid since."""
    try:
        with leaving(_UNSUPERVISED):
            return load_pipeline(loaded.path)
    except InputError:
        if action != "STOP":
            raise
        return loaded


def control_actions(loaded: LoadedPipeline) -> Mapping[str, Action]:
    """Return the actions of a pipeline's control job by name, the form's default first.

    Those of extensions come after those of the core, and replace one of the same name.

    Raises:
        InputError: An extension can't be loaded.
    """
    fields = fields_of(loaded)
    own = {
        name: Action(leaving(COMMITTED_STAYS)(act), job_texts.CONTROLS[name], fields.get(name, {}))
        for name, act in _acts(loaded).items()
    }
    return own | {
        name: action for make in contributions("actions") for name, action in make(loaded).items()
    }


def _acts(loaded: LoadedPipeline) -> Mapping[str, Act]:
    """Return the function for each action of the core, the form's default first."""
    found: dict[str, Act] = {"STATUS": _status}
    if loaded.pipeline.sources[-1].boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
        found |= {"PAUSE": _pause, "RESUME": _resume, "DRAIN": _drain}
    found |= {"STOP": _stop, "RATE": _rate}
    if loaded.pipeline.approve:
        found |= {"APPROVE": _approve}
    return found


def _status(context: dg.OpExecutionContext, loaded: LoadedPipeline, _: Any) -> None:
    seen, _facts = card_and_facts(loaded)
    context.add_output_metadata(card_metadata(seen) | last_day(seen))
    context.log.info(" ".join(filter(None, (seen.text, seen.reason))))


def _pause(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    acting = acting_generation(context, loaded, config)
    was_there = controls.pause(acting, config.why, acting_user(context.run.tags, config.by))
    what = "Paused" if was_there else "Paused; nothing was running"
    report_now(context, loaded, f"PAUSE: {what} (generation {generation_with_role(acting)}).")
    context.log.info("To go on, launch this job with RESUME.")


def _resume(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    acting = acting_on(loaded, config.generation)
    was_live = live_run.is_live(acting)
    beat = controls.resume(acting, acting_user(context.run.tags, config.by))
    if was_live:
        text = f"Already running (generation {generation_with_role(acting)}); nothing was started."
    else:
        text = f"The live run is up (generation {generation_with_role(acting)})."
        shown = live_metadata(context, acting, beat)
        tags = live_tags(loaded)
        context.log_event(dg.AssetMaterialization(live_key(loaded), metadata=shown, tags=tags))
    report_now(context, loaded, f"RESUME: {text}")


def _drain(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    looks = 0

    def report(left: int) -> None:
        nonlocal looks
        if looks % _REPORT_EVERY == 0 or left == 0:
            context.log.info(f"{counted(left, 'record')} (of a folder: files or splits) left.")
        looks += 1

    acting = acting_generation(context, loaded, config)
    by = acting_user(context.run.tags, config.by)
    controls.drain(acting, parse_duration(config.within), report, by)
    text = f"Drained and stopped (generation {generation_with_role(acting)})."
    report_now(context, loaded, f"DRAIN: {text}")


def _stop(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    acting = acting_generation(context, loaded, config)
    stopped = stopping.stop(acting, acting_user(context.run.tags, config.by))
    others = stopping.others_running(acting)
    what = f"Stopped {', '.join(stopped)}" if stopped else "Nothing was running"
    rest = f" Still running: {', '.join(others)}." if others else ""
    text = f"{what} (generation {generation_with_role(acting)}).{rest}"
    report_now(context, loaded, f"STOP: {text}")


def _rate(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    limit = parse_limit(
        config.bytes or None, files=config.files, rows=config.rows, offsets=config.offsets
    )
    acting = acting_generation(context, loaded, config)
    by = acting_user(context.run.tags, config.by)
    source = loaded.pipeline.source(config.source or loaded.pipeline.sources[-1].name).name
    rate_change.change_rate(acting, source, limit, by)
    of = f"`{source}` (generation {generation_with_role(acting)})"
    context.log.info(f"Rate limit of {of}: {limit.in_words}.")


def _approve(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    approve(loaded, acting_user(context.run.tags, config.by))
    # The check is not evaluated again by itself, and would go on to say that approval is due.
    found = report_approval(context.instance, loaded)
    context.log.info(
        f"{found.description} What waits for this goes on by itself: the chain, or a rerun."
    )
