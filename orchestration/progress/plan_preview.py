"""A plan's preview for people: estimate, schemas, and differences from the previous plan."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from orchestration.progress.earlier_generations import earlier_generations, read_earlier
from orchestration.progress.expected_time import Estimate, expected_time
from orchestration.progress.plan_summary import summary
from sources.common.counting import first_few
from sources.common.times import iso
from sources.config.loader import LoadedPipeline
from sources.planning.files.file_plan import FoundFiles, read_splits
from sources.planning.files.micro_batches import micro_batches
from sources.planning.plan import Plan
from sources.planning.topics.topic_plan import TopicPlan
from sources.serving import target_of
from sources.state.generation import PLAN
from sources.state.state_table import read_state_table
from sources.storage.folder import Folder


class Change(BaseModel):
    """One difference from the previous generation's plan.

    Attributes:
        source: Name of the source.
        what: What differs, such as ``splits``, ``column id`` or ``new files``.
        before, now: The values as text; empty where the thing does not exist.
    """

    model_config = ConfigDict(frozen=True)

    source: str
    what: str
    before: str
    now: str


class Preview(BaseModel):
    """Preview of a plan.

    Attributes:
        summary: The plan in plain sentences, as Markdown; of a generation that computes only
            changed columns, what it reads and writes against a full rerun.
        files: Number of files of each file source, by its name.
        estimate: How long its bounded sources will take.
        schemas: For each column, its Spark SQL type by source; a source that lacks it is left out.
        previous: The generation whose plan this one is compared with; None if it is the first.
        changes: The differences from that plan.
    """

    model_config = ConfigDict(frozen=True)

    summary: str
    files: dict[str, int]
    estimate: Estimate
    schemas: dict[str, dict[str, str]]
    previous: str | None
    changes: list[Change]


def preview(loaded: LoadedPipeline, plan: Plan) -> Preview:
    """Return the preview of a plan: summary, estimate, columns, changes since the previous plan.

    The previous plan is that of the newest older generation that has a readable one.

    Raises:
        InputError: The scheme of ``state`` is not supported, or its store refuses.
        StateError: The pipeline has no state, since no plan was made; or a table of splits is
            missing.
        UnavailableError: A store or a broker does not answer.
    """
    generation, pipeline = loaded.require_generation(), loaded.pipeline
    splits = {part.source: read_splits(part, generation) for part in plan.listed}
    files = {source: pc.count_distinct(of["path"]).as_py() for source, of in splits.items()}
    batches = {
        part.source: len(micro_batches(splits[part.source], pipeline.file_source(part.source)))
        for part in plan.files
    }
    expected = expected_time(loaded, generation, plan, batches)
    target = target_of(loaded, generation.name).url
    previous = next(
        (
            (folder, found)
            for folder in earlier_generations(loaded, generation)
            if (found := read_earlier(folder, PLAN, Plan)) is not None and found.is_whole(folder)
        ),
        None,
    )
    return Preview(
        summary=summary(pipeline, plan, files, target, expected),
        files=files,
        estimate=expected,
        schemas=_side_by_side(_columns(plan)),
        previous=None if previous is None else previous[0].name,
        changes=[] if previous is None else _changes(*previous, generation, plan),
    )


def _columns(plan: Plan) -> dict[str, dict[str, str]]:
    """Return names and types of the columns that each source passes to the transform."""
    folders = [] if plan.folder is None else [plan.folder]
    parts: list[FoundFiles | TopicPlan] = [*plan.files, *plan.topics, *folders]
    return {part.source: part.columns for part in parts}


def _side_by_side(columns: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    names = dict.fromkeys(name for of in columns.values() for name in of)
    return {
        name: {source: of[name] for source, of in columns.items() if name in of} for name in names
    }


def _changes(before_at: Folder, before: Plan, now_at: Folder, now: Plan) -> list[Change]:
    """Return the differences from an earlier plan, source by source."""
    changes: list[Change] = []
    old = _facts(before)
    new = _facts(now)
    for source in dict.fromkeys([*new, *old]):
        was, is_now = old.get(source, {}), new.get(source, {})
        changes += [
            Change(source=source, what=what, before=was.get(what, ""), now=is_now.get(what, ""))
            for what in dict.fromkeys([*is_now, *was])
            if was.get(what) != is_now.get(what)
        ]
    for part in now.files:
        earlier = next((each for each in before.files if each.source == part.source), None)
        if earlier is not None:
            changes += _files(part.source, _paths(before_at, earlier), _paths(now_at, part))
    return changes


def _facts(plan: Plan) -> dict[str, dict[str, str]]:
    """Return the figures of a plan that are compared, by source."""
    found: dict[str, dict[str, str]] = {}
    for part in plan.files:
        found[part.source] = {
            "splits": f"{part.splits:,}",
            "bytes": f"{part.bytes:,}",
            "rows": "unknown" if part.rows is None else f"{part.rows:,}",
            "start": iso(part.event_min_ms),
            "end": iso(part.end.event_time_ms),
            "rows outside of the event-time bounds": f"{part.times.outside:,}",
            **{f"column {name}": kind for name, kind in part.columns.items()},
        }
    for topic in plan.topics:
        found[topic.source] = {
            f"start of {at.topic}-{at.partition}": f"{position.start:,}"
            for at, position in sorted(topic.expected_start.partitions.items())
        }
    return found


def _files(source: str, before: set[str], now: set[str]) -> list[Change]:
    """Return how many files are new and missing, with the names of the first few."""
    found = []
    for what, paths in (("new files", now - before), ("missing files", before - now)):
        if paths:
            text = f"{len(paths):,}: {first_few(sorted(paths))}"
            is_new = what.startswith("new")
            sides = {"before": "" if is_new else text, "now": text if is_new else ""}
            found.append(Change(source=source, what=what, **sides))
    return found


def _paths(folder: Folder, found: FoundFiles) -> set[str]:
    return set(read_state_table(folder, found.splits_file)["path"].unique().to_pylist())
