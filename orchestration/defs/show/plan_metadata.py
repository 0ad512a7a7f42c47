"""Metadata of the plan's asset in Dagster's UI, in the order in which the UI shows it."""

from __future__ import annotations

import dagster as dg

from orchestration.defs.keys import role_of
from orchestration.defs.show.metadata import Metadata, table
from orchestration.display import readable_times
from orchestration.progress.plan_preview import Preview, preview
from orchestration.progress.plan_tables import plan_tables
from sources.config.loader import LoadedPipeline
from sources.generations import is_unread
from sources.planning.plan import Plan

_HOUR_MS = 3_600_000
PREVIEW = (
    "Materializing `plan` alone is a preview: no data is loaded, and the target is not touched."
)
"""What people should know before they press the button; also part of the asset's description."""
_CARRIED_OUT = "This plan is carried out: the assets after it show how far each source is read."


def plan(loaded: LoadedPipeline, made: Plan, *, is_carried_out: bool = False) -> Metadata:
    """Return the metadata of a plan: summary, tables of details, numbers to plot, generation.

    Args:
        loaded: The pipeline.
        made: The plan of its newest generation.
        is_carried_out: Whether the Dagster run that has made it goes on to read the sources.

    Raises:
        InputError: The scheme of ``state`` is not supported, or its store refuses.
        StateError: Nothing was planned yet, or a table of splits is missing.
        UnavailableError: A store or a broker does not answer.
    """
    generation = loaded.require_generation()
    how = _CARRIED_OUT
    if not is_carried_out and is_unread(generation):
        name = loaded.pipeline.name
        how = f"{PREVIEW} To carry out the plan, launch the job `{name}` with *Materialize all*."
    shown = details(made, preview(loaded, made), how)
    return {**shown, "generation": role_of(loaded, generation.name)}


def details(made: Plan, seen: Preview, how: str) -> Metadata:
    """Return the metadata of a plan without the generation that it belongs to.

    Args:
        made: The plan.
        seen: The preview of the same plan.
        how: Sentences on how the plan is carried out, or that it is.
    """
    shown: Metadata = {"summary": dg.MetadataValue.md(f"{seen.summary}\n\n{how}")}
    if made.warnings:
        # As a table: the UI hides a long Markdown text behind a link.
        shown["warnings"] = table([{"warning": readable_times(text)} for text in made.warnings])
    shown |= {found.title: table(found.rows) for found in plan_tables(made, seen)}
    if seen.previous is not None and not seen.changes:
        shown[f"changes since {seen.previous}"] = "none"
    return shown | _numbers(made)


def _numbers(made: Plan) -> Metadata:
    """Return the plain numbers, of which Dagster draws a plot over all materializations.

    None of them is in the summary: size, rows and time are told there, once.
    """
    shown: Metadata = {"warnings (number)": len(made.warnings)}
    rooms = [room.left_ms for topic in made.topics for room in topic.headroom[:1]]
    if rooms:
        shown["retention headroom (h)"] = round(min(rooms) / _HOUR_MS, 1)
    return shown
