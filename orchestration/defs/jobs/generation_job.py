"""Job `<pipeline>_generation`: replace the whole table, in one form; and scheduled reruns."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import dagster as dg

from orchestration import operations
from orchestration.attribution import acting_user
from orchestration.comparison.compare_generations import GenerationComparison, compare_generations
from orchestration.defs.checks.from_job import report_check
from orchestration.defs.checks.table import COMPARED, report_table
from orchestration.defs.jobs import job_texts
from orchestration.defs.jobs.action_form import action_schema, read_form
from orchestration.defs.jobs.actions import Act, Action
from orchestration.defs.jobs.approval_waits import (
    end_waits,
    give_up_waits,
    report_approval,
    wait,
)
from orchestration.defs.jobs.form import job_of
from orchestration.defs.jobs.generation_form import FIELDS, GenerationForm
from orchestration.defs.jobs.schedules import schedule
from orchestration.defs.keys import (
    ACTION_TAG,
    GENERATION_TAG,
    RESULT_TAG,
    generation_name,
    note_on_run,
    plan_key,
    table_key,
)
from orchestration.defs.show import generation_metadata, plan_metadata
from orchestration.defs.show.dagster_failures import failures
from orchestration.defs.show.dagster_remedies import say_in
from orchestration.generations import promotion
from orchestration.generations.lifecycle import discard, rerun
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.table.reruns import Rerun
from sources.generations import begin, has_run
from sources.kept_definitions import changed_since
from sources.planning.approval import NotApprovedError
from sources.serving import Serving, candidate_name

_RERUN = "RERUN"
_RERUNS = {ACTION_TAG: _RERUN}


def generation_job(loaded: LoadedPipeline) -> dg.JobDefinition:
    """Return the job that begins, compares, promotes, rolls back and discards generations."""
    actions = generation_actions()

    def generation(context: dg.OpExecutionContext) -> None:
        with failures(loaded):
            form = read_form(context.op_config, actions, GenerationForm)
            note_on_run(context, {ACTION_TAG: form.action})
            fresh = load_pipeline(loaded.path)
            if (candidate := candidate_name(fresh)) is not None:
                note_on_run(context, {GENERATION_TAG: candidate})
            actions[form.action].act(context, fresh, form)

    text = job_texts.generation(loaded, actions)
    schema = action_schema(actions, "rerun: {promote: NEVER}")
    return job_of(loaded, generation_name(loaded), generation, text, schema)


def generation_actions() -> Mapping[str, Action]:
    """Return the actions of the job for generations by name; the first one changes nothing."""
    return {
        name: Action(act, job_texts.GENERATIONS[name], FIELDS.get(name, {}))
        for name, act in _ACTS.items()
    }


def finish_form(loaded: LoadedPipeline) -> dict[str, Any]:
    """Return the run config with which the supervision completes an interrupted promotion."""
    return _form(loaded, {"action": "FINISH"})


def rerun_schedules(loaded: LoadedPipeline, job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    """Return the schedules that ``generations.reruns`` declares; empty if there are none.

    Each tick recomputes the whole table as a new generation, or resumes a candidate; it is skipped
    while an earlier one runs.

    Args:
        loaded: The pipeline.
        job: The job ``<name>_generation``, which they launch.
    """
    return [
        schedule(loaded, each, job, partial(_rerun_request, loaded, each), job.name, _RERUNS)
        for each in loaded.pipeline.generations.reruns
    ]


def _rerun_request(loaded: LoadedPipeline, declared: Rerun) -> dict[str, Any] | str:
    """Return the run request of a scheduled rerun, or why there is none."""
    with failures(loaded):
        # The schedule is on from the start, and so before the first run.
        if not has_run(load_pipeline(loaded.path)):
            name = loaded.pipeline.name
            return f"There is no table to compute again before the first run of the job `{name}`."
    fields = {
        "action": _RERUN,
        "promote": declared.promote.upper(),
        "rows_at_least": declared.rows_at_least,
    }
    return {"run_config": _form(loaded, fields), "tags": _RERUNS}


def _form(loaded: LoadedPipeline, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"ops": {f"do_{generation_name(loaded)}": {"config": dict(fields)}}}


def _new(context: dg.OpExecutionContext, loaded: LoadedPipeline, form: GenerationForm) -> None:
    by = acting_user(context.run.tags, form.by)
    made = begin(loaded, by)
    name = loaded.pipeline.name
    context.log.info(
        f"Generation {made.name} has begun. Materialize the job `{name}` to compute its "
        f"table; then launch this job with COMPARE, and with PROMOTE."
    )


def _compare(context: dg.OpExecutionContext, loaded: LoadedPipeline, _: GenerationForm) -> None:
    found = compare_generations(loaded)
    context.add_output_metadata(generation_metadata.comparison(found))
    context.log.info(f"{found.text}. {generation_metadata.next_step(found)}")
    _report_comparison(context, loaded, found)


def _report_comparison(
    context: dg.OpExecutionContext, loaded: LoadedPipeline, found: GenerationComparison
) -> None:
    result = generation_metadata.compared(found, changed_since(loaded, found.serving))
    report_check(context.instance, table_key(loaded), COMPARED, result)


def _promote(context: dg.OpExecutionContext, loaded: LoadedPipeline, form: GenerationForm) -> None:
    by = acting_user(context.run.tags, form.by)
    _switched(context, loaded, promotion.promote(loaded, by=by, say=say_in(context, loaded)))


def _roll_back(
    context: dg.OpExecutionContext, loaded: LoadedPipeline, form: GenerationForm
) -> None:
    by = acting_user(context.run.tags, form.by)
    _switched(context, loaded, promotion.roll_back(loaded, by=by, say=say_in(context, loaded)))


def _finish(context: dg.OpExecutionContext, loaded: LoadedPipeline, _: GenerationForm) -> None:
    done = promotion.finish(loaded, say=say_in(context, loaded))
    context.log.info("Completed." if done else "No promotion or rollback was under way.")


def _abort(context: dg.OpExecutionContext, loaded: LoadedPipeline, form: GenerationForm) -> None:
    by = acting_user(context.run.tags, form.by)
    switch = promotion.abort(loaded, by=by, say=say_in(context, loaded))
    context.log.info(
        "No promotion or rollback is under way."
        if switch is None
        else f"The {switch.kind} of generation {switch.to} is given up; {switch.past} serves."
    )


def _discard(context: dg.OpExecutionContext, loaded: LoadedPipeline, form: GenerationForm) -> None:
    by = acting_user(context.run.tags, form.by)
    name = discard(loaded, by)
    give_up_waits(context.instance, loaded, name)
    text = f"Generation {name} was deleted."
    context.log.info(text)
    # Dagster shows its comparison as outdated from now on.
    report_table(context, loaded, text)


def _rerun(context: dg.OpExecutionContext, loaded: LoadedPipeline, form: GenerationForm) -> None:
    def compared(found: GenerationComparison) -> None:
        _report_comparison(context, loaded, found)
        if form.promote == "NEVER":
            context.log.info(generation_metadata.next_step(found))

    if end_waits(context.instance, loaded):
        # It goes on after an approval, which may come from the command line.
        report_approval(context.instance, loaded)
    try:
        served = rerun(
            loaded,
            compared=compared,
            promote=form.promote == "CHECKS",
            rows_at_least=form.rows_at_least,
            by=acting_user(context.run.tags, form.by),
            say=say_in(context, loaded),
        )
    except NotApprovedError:
        _wait_for_approval(context, loaded)
        return
    candidate = candidate_name(loaded)
    if candidate is None:
        _switched(context, loaded, served)
        return
    note_on_run(context, {RESULT_TAG: "not promoted", GENERATION_TAG: candidate})
    text = f"Generation {candidate} is computed; readers see {served.generation} until a promotion."
    context.log.info(text)
    report_table(context, loaded, text)


def _wait_for_approval(context: dg.OpExecutionContext, loaded: LoadedPipeline) -> None:
    """Show the plan that waits for its approval, and end without a failure."""
    note_on_run(context, {GENERATION_TAG: loaded.require_generation().name})
    shown = plan_metadata.plan(loaded, operations.plan(loaded))
    context.log_event(dg.AssetMaterialization(plan_key(loaded), metadata=shown))
    wait(context, report_approval(context.instance, loaded))


def _switched(context: dg.OpExecutionContext, loaded: LoadedPipeline, serving: Serving) -> None:
    """Say which generation readers see, in the log and on the table's page."""
    before = [each.generation for each in serving.before]
    back = f" A rollback returns to {before[-1]}." if before else ""
    context.log.info(f"Readers see generation {serving.generation}.{back}")
    note_on_run(context, {GENERATION_TAG: serving.generation})
    report_table(context, loaded, f"Readers see generation {serving.generation}.{back}")


_ACTS: dict[str, Act] = {
    "COMPARE": _compare,
    "NEW": _new,
    _RERUN: _rerun,
    "PROMOTE": _promote,
    "ROLLBACK": _roll_back,
    "DISCARD": _discard,
    "FINISH": _finish,
    "ABORT": _abort,
}
