"""Ranges that were recomputed in the serving table from files that a candidate read before that."""

from __future__ import annotations

from typing import NamedTuple

from orchestration.remedies import Remedy
from sources.files.listing.changed_splits import changed_splits
from sources.planning.context import PipelineContext
from sources.planning.files.file_plan import read_splits
from sources.planning.files.rounds import history_of
from sources.serving import read_serving
from sources.state.action_log import LoggedAction, read_actions

_READ_FIRST = 64
_SHOWN = 3


class OlderRanges(NamedTuple):
    """Ranges that a promotion would give back their rows of before they were recomputed.

    Attributes:
        message: What would be lost, in sentences.
        hint: What to do, in sentences.
    """

    message: str
    hint: str


def find_older_ranges(to: PipelineContext) -> OlderRanges | None:
    """Return which ranges of the serving table are newer than what a candidate has read of them.

    Those are what backfills have recomputed since its plan, if files of the plan were written again
    or removed since. Files that have come anew are not looked for. Reads no file.

    Args:
        to: The candidate.

    Returns:
        None if there are none.

    Raises:
        InputError: A storage refuses.
        StateError: The state is damaged.
        UnavailableError: A store does not answer.
    """
    if not to.is_planned:
        return None
    serving, planned_ms = read_serving(to.loaded).generation, to.plan.created_ms
    done = [
        each
        for each in _actions_since(to, planned_ms)
        if each.action == "backfill"
        and each.generation == serving
        and each.outcome == "done"
        and (each.ended_ms or 0) > planned_ms
    ]
    if not done or not (changed := _changed_files(to)):
        return None
    ranges = list(dict.fromkeys(f"{a.before['since']}/{a.before['until']}" for a in done))
    name, file = to.generation.name, str(to.loaded.path)
    again = Remedy("backfill", tuple(f"--range={each}" for each in ranges)).command(file)
    more = f", and {len(changed) - _SHOWN:,} more" if len(changed) > _SHOWN else ""
    return OlderRanges(
        f"Ranges of {serving} were recomputed since {name} was planned "
        f"({', '.join(ranges)}), and {name} has read files as they were before: "
        f"{', '.join(changed[:_SHOWN])}{more}. Readers would get the rows of before again.",
        f"Recompute these ranges once more after the promotion: {again}. Or discard {name}, "
        f"{Remedy('generation discard').command(file)}, and compute the table again: "
        f"{Remedy('rerun').command(file)}.",
    )


def _actions_since(to: PipelineContext, at_ms: int) -> list[LoggedAction]:
    """Return the last actions of the pipeline, all since a time among them."""
    last = _READ_FIRST
    while True:
        found = read_actions(to.loaded.state, last)
        if len(found) < last or found[0].at_ms < at_ms:
            return found
        last *= 4


def _changed_files(to: PipelineContext) -> list[str]:
    """Return the files of a plan that are missing, or were written again, each in words."""
    return [
        file
        for source in to.pipeline.bounded_files
        for part in history_of(to.generation, to.plan, source.name).parts
        for file in changed_splits(read_splits(part, to.generation), to.pipeline.stores)
    ]
