"""Job `<pipeline>_generation`: replace the whole table, in one form; and scheduled reruns."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from hybrid_extensions.generations import metadata as generation_metadata
from hybrid_extensions.generations.comparison.compare_generations import (
    GenerationComparison,
    compare_generations,
)
from hybrid_extensions.generations.comparison.same_rows import (
    compared,
    comparison_again,
    same_rows_check,
)
from hybrid_extensions.generations.declare import COMPARED, GenerationsSection, Rerun
from hybrid_extensions.generations.form import GenerationForm, fields_of
from hybrid_extensions.generations.lifecycle import discard, rerun
from hybrid_extensions.generations.switch import promotion
from hybrid_extensions.generations.switch.group_switch import promote_group, roll_back_group
from hybrid_extensions.generations.table_report import report_table
from hybrid_extensions.schedules.ticks import schedule
from orchestration.attribution import acting_user, by_schedule
from orchestration.comparison.kept_audit import read_audit
from orchestration.defs.checks.from_job import report_check
from orchestration.defs.jobs.action_form import action_schema, read_form
from orchestration.defs.jobs.actions import Act, Action
from orchestration.defs.jobs.approval_waits import (
    end_waits,
    give_up_waits,
    report_approval,
    wait,
)
from orchestration.defs.jobs.form_job import job_of
from orchestration.defs.jobs.job_texts import listed
from orchestration.defs.jobs.replacement import Replacement
from orchestration.defs.keys import (
    ACTION_TAG,
    GENERATION_TAG,
    RESULT_TAG,
    generation_name,
    note_on_run,
    plan_key,
    table_key,
)
from orchestration.defs.show import plan_metadata
from orchestration.defs.show.dagster_failures import failures, load_again
from orchestration.defs.show.dagster_remedies import say_in
from orchestration.operations import chain_plan
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.generations import begin, has_run
from sources.kept_definitions import changed_since
from sources.planning.approval import NotApprovedError
from sources.serving import Serving, candidate_name
from sources.state.action_log import read_actions
from sources.state.generation import read_generation

_TEXTS = {
    "NEW": "begins a candidate: the whole table, computed again next to the serving one by the "
    "pipeline's file as it is now; the job with the pipeline's name computes it",
    "RERUN": "computes a candidate, compares it, audits it if the pipeline declares `audit`, and "
    "lets readers see it if checks hold; with `promote: NEVER` that is left to a person",
    "COMPARE": "compares the candidate's rows with those that readers see, and changes nothing",
    "PROMOTE": "lets readers see the candidate, in one commit; with `together_with` also those of "
    "other pipelines, all or none",
    "ROLLBACK": "lets readers see the generation before again; with `together_with` also in other "
    "pipelines, all or none",
    "DISCARD": "stops and deletes the candidate",
    "FINISH": "completes a promotion or rollback that was interrupted",
    "ABORT": "gives up a promotion or rollback before its commit",
}
"""What each action of the job for generations does."""
_RERUN = "RERUN"
_RERUNS = {ACTION_TAG: _RERUN}


def generation_job(loaded: LoadedPipeline) -> dg.JobDefinition:
    """Return the job that begins, compares, promotes, rolls back and discards generations."""
    actions = generation_actions(loaded)

    def generation(context: dg.OpExecutionContext) -> None:
        with failures(loaded):
            form = read_form(context.op_config, actions, GenerationForm)
            note_on_run(context, {ACTION_TAG: form.action})
            fresh = load_again(loaded.path)
            if (candidate := candidate_name(fresh)) is not None:
                note_on_run(context, {GENERATION_TAG: candidate})
            actions[form.action].act(context, fresh, form)

    text = _description(loaded, actions)
    schema = action_schema(actions, "rerun: {promote: NEVER}")
    return job_of(loaded, generation_name(loaded), generation, text, schema)


def definitions(loaded: LoadedPipeline) -> dg.Definitions:
    """Return the check of the candidate's rows, and the declared schedules; the job comes apart."""
    return dg.Definitions(
        asset_checks=[same_rows_check(loaded)], schedules=_rerun_schedules(loaded)
    )


def generation_actions(loaded: LoadedPipeline) -> Mapping[str, Action]:
    """Return the actions of the job for generations by name; the first one changes nothing."""
    fields = fields_of(loaded)
    return {name: Action(act, _TEXTS[name], fields.get(name, {})) for name, act in _ACTS.items()}


def finish_form(loaded: LoadedPipeline) -> dict[str, Any]:
    """Return the run config with which the supervision completes an interrupted promotion."""
    return _form(loaded, {"action": "FINISH"})


def _rerun_schedules(loaded: LoadedPipeline) -> list[dg.ScheduleDefinition]:
    """Return the schedules that ``generations.reruns`` declares; empty if there are none.

    Each tick recomputes the whole table as a new generation, or resumes a candidate; it is skipped
    while an earlier one runs.
    """
    job = generation_name(loaded)
    return [
        schedule(loaded, each, job, partial(_rerun_request, loaded, each), job, _RERUNS)
        for each in loaded.section(GenerationsSection).generations.reruns
    ]


def _rerun_request(loaded: LoadedPipeline, declared: Rerun) -> dict[str, Any] | str:
    """Return the run request of a scheduled rerun, or why there is none."""
    with failures(loaded):
        now = load_pipeline(loaded.path)
        # The schedule is on from the start, and so before the first run.
        if not has_run(now):
            name = loaded.pipeline.name
            return f"There is no table to compute again before the first run of the job `{name}`."
        begun = candidate_name(now)
        if declared.promote == "checks" and begun is not None:
            # A name that nobody gave, as in Dagster without a login, may be that of any person.
            by = _begun_by(now, begun) or "somebody without a name"
            if by not in _promoting(now):
                return (
                    f"Generation {begun}, which {by} has begun, is a candidate, and would be "
                    "promoted without a person. Promote or discard it by this job; later ticks go "
                    "on then."
                )
    fields = {
        "action": _RERUN,
        "promote": declared.promote.upper(),
        "rows_at_least": declared.rows_at_least,
    }
    return {"run_config": _form(loaded, fields), "tags": _RERUNS}


def _promoting(loaded: LoadedPipeline) -> set[str]:
    """Return the schedules that promote by themselves, as the log of actions names them."""
    reruns = loaded.section(GenerationsSection).generations.reruns
    names = (f"{loaded.pipeline.name}_{each.name}" for each in reruns if each.promote == "checks")
    return {by_schedule(name) for name in names}


def _begun_by(loaded: LoadedPipeline, candidate: str) -> str:
    """Return who began a candidate, by the log of actions; empty if unknown."""
    begun = (
        each.by
        for each in reversed(read_actions(loaded.state))
        if (each.action, each.generation) == ("new generation", candidate)
    )
    return next(begun, "")


def _form(loaded: LoadedPipeline, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"ops": {f"do_{generation_name(loaded)}": {"config": dict(fields)}}}


def _description(loaded: LoadedPipeline, actions: Mapping[str, Action]) -> str:
    """Return the description of the job ``<pipeline>_generation``, in Markdown, for its page.

    Args:
        loaded: The pipeline.
        actions: The actions that its launch form offers, by name; each has a text of its own.
    """
    first = (
        "For later: replaces the whole table in one commit, such as after a change of its "
        f"transform. The table is that of `{loaded.pipeline.name}`. A *generation* is one "
        "computation of the table, a *candidate* one that readers do not see yet. The usual order: "
        "`RERUN`, which "
        "computes a candidate and compares it; `PROMOTE`; and `ROLLBACK` to go back. Choose the "
        "`action` in the Launchpad, with the fields of that action only:"
    )
    return f"{first}\n\n{listed(actions)}"


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
    result = compared(found, changed_since(loaded, found.serving))
    report_check(context.instance, table_key(loaded), COMPARED, result)


def _promote(context: dg.OpExecutionContext, loaded: LoadedPipeline, form: GenerationForm) -> None:
    _change(context, loaded, form, promotion.promote, promote_group)


def _roll_back(
    context: dg.OpExecutionContext, loaded: LoadedPipeline, form: GenerationForm
) -> None:
    _change(context, loaded, form, promotion.roll_back, roll_back_group)


def _change(
    context: dg.OpExecutionContext,
    loaded: LoadedPipeline,
    form: GenerationForm,
    alone: Callable[..., Serving],
    together: Callable[..., list[Serving]],
) -> None:
    """Let readers see another generation of the pipeline, and of those that the form names."""
    by, say = acting_user(context.run.tags, form.by), say_in(context, loaded)
    others = [load_pipeline(Path(loaded.locate(file))) for file in form.together_with]
    if not others:
        _switched(context, loaded, alone(loaded, by=by, say=say))
        return
    members = list({each.path: each for each in [*others, loaded]}.values())
    # This one comes last: the run is tagged with its generation.
    for each, serving in zip(members, together(members, by=by, say=say), strict=True):
        _switched(context, each, serving)


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

    if (begun := candidate_name(loaded)) is not None:
        again = "what is computed of it is not computed again"
        context.log.info(f"Generation {begun} was begun earlier and goes on: {again}.")
    if end_waits(context.instance, loaded):
        # It goes on after an approval, which may come from the command line.
        report_approval(context.instance, loaded)
    try:
        served = rerun(
            loaded,
            compared=compared,
            promote=form.promote == "CHECKS",
            is_audited=form.audit,
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
    if (audited := read_audit(read_generation(loaded.state, candidate))) is not None:
        text += f" {candidate}: {audited.text}"
    context.log.info(text)
    report_table(context, loaded, text)


def _wait_for_approval(context: dg.OpExecutionContext, loaded: LoadedPipeline) -> None:
    """Show the plan that waits for its approval, and end without a failure."""
    note_on_run(context, {GENERATION_TAG: loaded.require_generation().name})
    shown = plan_metadata.plan(loaded, chain_plan.plan(loaded))
    context.log_event(dg.AssetMaterialization(plan_key(loaded), metadata=shown))
    wait(context, report_approval(context.instance, loaded))


def _switched(context: dg.OpExecutionContext, loaded: LoadedPipeline, serving: Serving) -> None:
    """Say which generation readers see, in the log and on the table's page."""
    before = [each.generation for each in serving.before]
    back = f" A rollback returns to {before[-1]}." if before else ""
    text = f"Readers see generation {serving.generation}.{back}"
    context.log.info(f"{loaded.pipeline.name}: {text}")
    note_on_run(context, {GENERATION_TAG: serving.generation})
    report_table(context, loaded, text)


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


class _Generations(Replacement):
    """Replacement by generations: a candidate is computed, compared and promoted."""

    def job(self, loaded: LoadedPipeline) -> dg.JobDefinition:
        return generation_job(loaded)

    def check_again(
        self, instance: dg.DagsterInstance, loaded: LoadedPipeline
    ) -> dg.AssetCheckEvaluation | None:
        return comparison_again(instance, loaded)

    def finish_form(self, loaded: LoadedPipeline) -> dict[str, Any]:
        return finish_form(loaded)


REPLACEMENT = _Generations()
