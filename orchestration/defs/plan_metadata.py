"""Metadata of the plan's asset in Dagster's UI, in the order in which the UI shows it."""

from __future__ import annotations

import dagster as dg

from orchestration.defs.metadata import Metadata, table
from orchestration.progress.plan_preview import Preview
from orchestration.progress.plan_tables import plan_tables
from sources.planning.plan import Plan

PREVIEW = (
    "Materializing `plan` alone is a preview: no data is loaded, and the target is not touched."
)
"""What people should know before they press the button; also part of the asset's description."""


def plan(made: Plan, seen: Preview) -> Metadata:
    """Return the metadata of a plan: its summary, tables of its details, numbers to be plotted.

    Args:
        made: The plan.
        seen: Its summary and estimate, its columns, and what differs from the previous
            generation's plan.
    """
    shown: Metadata = {"summary": dg.MetadataValue.md(f"{seen.summary}\n\n{PREVIEW}")}
    if made.warnings:
        # As a table: the UI hides a long Markdown text behind a link.
        shown["warnings"] = table([{"warning": text} for text in made.warnings])
    shown |= {found.title: table(found.rows) for found in plan_tables(made, seen)}
    if seen.previous is not None and not seen.changes:
        shown[f"changes since {seen.previous}"] = "none"
    return shown | _numbers(made, seen)


def _numbers(made: Plan, seen: Preview) -> Metadata:
    """Return the plain numbers, of which Dagster draws a plot over all materializations."""
    shown: Metadata = {"warnings (number)": len(made.warnings)}
    rows = [part.rows for part in made.files if part.rows is not None]
    if made.files:
        shown["bytes"] = sum(part.bytes for part in made.files)
    if made.files and len(rows) == len(made.files):
        shown["rows"] = sum(rows)
    if seen.estimate.seconds is not None:
        shown["estimate (s)"] = round(seen.estimate.seconds, 1)
    rooms = [room.left_ms for topic in made.topics for room in topic.headroom[:1]]
    if rooms:
        shown["retention headroom (s)"] = min(rooms) / 1000
    return shown
