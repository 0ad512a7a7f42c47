"""Remedies in Dagster: the pipeline's jobs and assets in place of commands.

Errors and verdicts name commands, since the command line and Dagster get the same texts. Whatever
is shown in Dagster goes through :func:`in_dagster`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import dagster as dg

from orchestration.defs.jobs.added_jobs import added_jobs
from orchestration.defs.keys import control_name, generation_name
from orchestration.remedies import Remedy, render
from orchestration.supervision.rules.verdict import Verdict
from sources.config.document.variables_in_texts import variables_used
from sources.config.document.yaml_document import read_document
from sources.config.loader import LoadedPipeline

_GENERATION = ("new", "compare", "promote", "rollback", "discard", "finish", "abort")
_CONTROL = ("pause", "resume", "drain", "stop", "rate", "approve", "compact", "vacuum", "audit")
_ASSETS = {
    "plan": "plan",
    "snapshot": "take_snapshot",
    "status": "table",
    "generation list": "table",
}
_OWN_VARIABLES = ("HYBRID_BROKER_FILE", "HYBRID_CACHE", "HYBRID_JARS")


def in_dagster(text: str, loaded: LoadedPipeline) -> str:
    """Return a text whose remedies (commands) name jobs and assets of the pipeline instead.

    A command that has no counterpart in Dagster becomes one that can be pasted into a shell.

    Args:
        text: An error's message or hint, or the reason of a verdict.
        loaded: The pipeline.
    """
    if file := os.environ.get("HYBRID_BROKER_FILE"):
        # One of a shell's own default is another broker.
        text = text.replace("`hybrid broker ", f"`HYBRID_BROKER_FILE='{file}' hybrid broker ")
    return render(text, lambda remedy: _counterpart(remedy, loaded))


def verdict_in_dagster(verdict: Verdict, loaded: LoadedPipeline) -> Verdict:
    """Return a verdict with its remedies as jobs and assets of the pipeline.

    Args:
        verdict: The verdict on its live run.
        loaded: The pipeline.
    """
    return verdict.rendered(partial(in_dagster, loaded=loaded))


def say_in(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, loaded: LoadedPipeline
) -> Callable[[str], None]:
    """Return a function that logs a line to a Dagster run, as :func:`in_dagster` returns it."""
    return lambda text: context.log.info(in_dagster(text, loaded))


def _counterpart(remedy: Remedy, loaded: LoadedPipeline) -> str:
    """Return the job or asset that does what a command does, or else the command."""
    name = loaded.pipeline.name
    action = remedy.action.removeprefix("generation ")
    is_generation = action != remedy.action
    job = f"the job `{generation_name(loaded)}` with the action {action.upper()}"
    match remedy.action, remedy.options:
        case "step", (step,):
            return f"the asset `{name}/{step}`"
        case "run", ():
            return f"the job `{name}`"
        case asset, () if asset in _ASSETS:
            return f"the asset `{name}/{_ASSETS[asset]}`"
        case "rerun", ():
            return job
        case "repair", ("--apply",):
            return f"the job `{control_name(loaded)}` with the action REPAIR and `apply: true`"
        case _, () if is_generation and action in _GENERATION:
            return job
        case control, (() | ("--by" | "--generation", _)) if control in _CONTROL:
            which = ""
            if remedy.options[:1] == ("--generation",):
                which = f" and `generation: {remedy.options[1]}`"
            return f"the job `{control_name(loaded)}` with the action {action.upper()}{which}"
    for added in added_jobs():
        if added.command == remedy.action:
            return f"the job `{added.name(loaded)}`"
    return _in_a_shell(remedy, loaded)


def _in_a_shell(remedy: Remedy, loaded: LoadedPipeline) -> str:
    """Return the command with the variables that this process has, and a shell may lack.

    Paths are given, so that it can be pasted. Other values may be secrets, and are only named.
    """
    own = (each for each in _OWN_VARIABLES if each in os.environ)
    names = {*variables_used(read_document(loaded.path)), *own}
    values = {each: os.environ.get(each, "") for each in sorted(names)}
    named = [each for each, value in values.items() if not os.path.isabs(value)]
    given = {each: value for each, value in values.items() if os.path.isabs(value)}
    command = remedy.command(str(loaded.path), given)
    return f"{command} (with {', '.join(named)} as Dagster has it)" if named else command
