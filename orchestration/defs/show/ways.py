"""Hints as people in Dagster need them: the pipeline's jobs and assets in place of commands.

Errors and verdicts name commands, as the command line and Dagster are told the same. Whatever is
shown in Dagster goes through :func:`in_dagster`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import dagster as dg

from orchestration.defs.keys import backfill_name, control_name, generation_name
from orchestration.supervision.rules.verdict import Verdict
from sources.config.loader import LoadedPipeline

_GENERATION = ("new", "compare", "promote", "rollback", "discard", "finish", "abort")
_CONTROL = ("pause", "resume", "drain", "stop", "rate", "approve", "compact", "vacuum")
_ASSETS = {
    "plan": "plan",
    "snapshot": "take_snapshot",
    "status": "table",
    "generation list": "table",
}
_ON_A_FILE = (
    "accept",
    "audit",
    "backfill",
    "compare",
    "cut",
    "logs",
    "publish-cuts",
    "report",
    "run",
    "validate",
)
"""Commands on a pipeline that have no job, or have options that no form has."""
_COMMAND = re.compile(r"`hybrid ([^`]+)`")
_BOTH = (
    re.compile(r"`hybrid [^`]+`, or in Dagster (the [^,.;)]+)"),
    re.compile(r"`hybrid [^`]+`, or (the (?:job|asset) `[^`]+`(?: with [A-Z]+)?) in Dagster"),
)
_WORDS = {
    "repeat the command": "try again",
    "repeat this command": "try again",
    "Repeat the command": "Try again",
    "run the same command again": "try again",
    "Run the same command again": "Try again",
}
_PLACEHOLDER = re.compile(r"P|PIPELINE|[^ ]+\.ya?ml")


def in_dagster(text: str, loaded: LoadedPipeline) -> str:
    """Return a text in which commands are the pipeline's jobs and assets, by their real names.

    A command that has no counterpart in Dagster stays, with the pipeline's file in place of ``P``.
    Where a text names both, the command is left out.

    Args:
        text: An error's message or hint, or the reason of a verdict.
        loaded: The pipeline.
    """
    for both in _BOTH:
        text = both.sub(r"\1", text)
    text = _COMMAND.sub(lambda found: _counterpart(found[1].split(), found[0], loaded), text)
    for words, instead in _WORDS.items():
        text = text.replace(words, instead)
    return text


def verdict_in_dagster(verdict: Verdict, loaded: LoadedPipeline) -> Verdict:
    """Return a verdict whose sentences name the pipeline's jobs and assets.

    Args:
        verdict: The verdict on its live run.
        loaded: The pipeline.
    """
    findings = [
        each.model_copy(update={"text": in_dagster(each.text, loaded)}) for each in verdict.findings
    ]
    error = None if verdict.error is None else in_dagster(verdict.error, loaded)
    told = {"reason": in_dagster(verdict.reason, loaded), "error": error, "findings": findings}
    return verdict.model_copy(update=told)


def say_in(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, loaded: LoadedPipeline
) -> Callable[[str], None]:
    """Return a function that writes a line to the log of a Dagster run, as people there need it."""
    return lambda text: context.log.info(in_dagster(text, loaded))


def _counterpart(words: list[str], command: str, loaded: LoadedPipeline) -> str:
    """Return the job or asset for a command, whose words after ``hybrid`` are given."""
    name = " ".join(words[:2]) if words[0] == "generation" else words[0]
    rest = words[len(name.split()) :]
    given = rest[1:] if rest and _PLACEHOLDER.fullmatch(rest[0]) else rest
    action = name.removeprefix("generation ")
    if name == "generation new" and given == ["--only-changed"]:
        return f"the job `{generation_name(loaded)}` with the action NEW and `only_changed`"
    is_general = bool(given) and given[0] not in ("--by", "--generation")
    if name == "step" and len(given) == 1:
        return f"the asset `{loaded.pipeline.name}/{given[0]}`"
    if name == "backfill":
        return f"the job `{backfill_name(loaded)}`"
    if not is_general:
        if name == "run":
            return f"the job `{loaded.pipeline.name}`"
        if name in _ASSETS:
            return f"the asset `{loaded.pipeline.name}/{_ASSETS[name]}`"
        if name == "rerun" or (name.startswith("generation ") and action in _GENERATION):
            return f"the job `{generation_name(loaded)}` with the action {action.upper()}"
        if name in _CONTROL:
            which = f" and `generation: {given[1]}`" if given[:1] == ["--generation"] else ""
            return f"the job `{control_name(loaded)}` with the action {action.upper()}{which}"
    if name not in _ON_A_FILE:
        return command
    return f"`hybrid {' '.join([name, str(loaded.path), *given])}`"
