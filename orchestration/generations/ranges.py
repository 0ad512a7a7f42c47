"""Backfill of a time range: its rows are recomputed from the files while the live run continues.

The chain's own code reads the files of the range, as a pipeline of their own, into a table next to
the target; then one commit replaces the rows of history in the range by the rows of that table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc
import yaml

from orchestration.chain import ChainRun, Observer, Outcome, PlanStep, Step, run_chain
from orchestration.display import size
from orchestration.generations.range_scope import last_files, parts_of, require_fit, shown
from orchestration.generations.switch_lock import HeldSwitch, in_turn
from orchestration.requested_state import read_requested
from sources.common.counting import counted
from sources.common.positions import Record
from sources.config.loader import KEPT, KeptDefinition, LoadedPipeline, load_pipeline
from sources.hybrid import Boundedness
from sources.kept_definitions import in_service, kept_folder
from sources.planning.context import PipelineContext
from sources.serving import target_of
from sources.state.action_log import recorded
from sources.state.local_copy import local_copy
from sources.storage.folder import Folder
from spark_jobs.target.delta_table import open_table, paths_of
from spark_jobs.target.history_files import HistoryFiles, has_history_files, read_history_files
from spark_jobs.target.replace_range import Range, Replaced, Replacement

_FOLDER = "ranges"
_REMOVED = "removed-files.json"
_SAME = (
    "name",
    "event_time",
    "key",
    "allowed_lateness",
    "rules",
    "transform",
    "spark",
    "s3",
    "hdfs",
)
_NOT_FOR_A_RANGE = ("converge", "complete_through", "offsets", "sequence", "table")


class RemovedFiles(Record):
    """Files of history that a replacement removes from the target; written before it does."""

    paths: list[str]


@dataclass(frozen=True)
class RangeLook:
    """Dry run of a backfill: what recomputing a range of event times would read.

    Attributes:
        since, until: The range: from ``since`` on, before ``until``.
        generation: The serving generation, whose rows would be replaced.
        splits, bytes: Splits and bytes of the files that may contain rows of the range now.
    """

    since: datetime
    until: datetime
    generation: str
    splits: int
    bytes: int

    @property
    def text(self) -> str:
        """What is read and its bytes in words, as a clause without a full stop; computed."""
        parts = counted(self.splits, "file or part of a file", "files or parts of files")
        return f"{parts}, {size(self.bytes)}, would be read"


@dataclass(frozen=True)
class RangeResult:
    """Result of a backfill of a range of event times.

    Attributes:
        since, until: The range: from ``since`` on, before ``until``.
        generation: The serving generation, whose rows were replaced.
        replaced: Rows removed and written; all zero if this backfill was done before.
    """

    since: datetime
    until: datetime
    generation: str
    replaced: Replaced

    @property
    def text(self) -> str:
        """What was replaced, in a sentence; computed."""
        live = self.replaced.kept_live
        kept = f"; {counted(live, 'row')} of the live run kept" if live else ""
        return (
            f"From {shown(self.since)} until {shown(self.until)}: "
            f"{counted(self.replaced.removed, 'row')} of history replaced by "
            f"{self.replaced.written:,}{kept}."
        )


def backfill(
    loaded: LoadedPipeline,
    since: datetime,
    until: datetime,
    run_id: str,
    say: Callable[[str], None] = lambda _: None,
    by: str | None = None,
) -> RangeResult:
    """Recompute a range of the target from the files as they are now.

    Rows of history in the range are replaced in one commit; rows that the live run wrote are kept.
    Until that is done no promotion or rollback begins, and other backfills of the table wait.

    Args:
        loaded: The pipeline.
        since: The first event time of the range.
        until: The first event time after it.
        run_id: Idempotency key: a second call with it resumes an interrupted backfill, and does
            nothing after a complete one.
        say: Called with a line of text for each step.
        by: Who asked for it; None if unknown.

    Returns:
        The range, and how many rows were removed, written and kept.

    Raises:
        InputError: The range is empty or ends after the time through which history is complete,
            the target has no column of the event time, or a file can't be read.
        StateError: Nothing was planned yet, a range of this pipeline can't be recomputed on its
            own (``sink.mode: merge``, a transform that keeps state, or a bounded topic), history
            is not read to its end yet, or a promotion, rollback or discard is under way.
        RunError: The Spark run that reads the files failed; the target is not changed.
        UnavailableError: The store does not answer.
    """
    doing = f"backfill from {shown(since)} until {shown(until)}"
    with in_turn(loaded, doing, say) as held:
        context = _serving(loaded)
        require_fit(context, since, until)
        of = {"since": since.isoformat(), "until": until.isoformat()}
        with recorded(loaded.state, "backfill", by, context.generation.name, of) as after:
            result = _backfill(context, since, until, run_id, say, held)
            after["rows"] = result.text
        return result


def _backfill(
    context: PipelineContext,
    since: datetime,
    until: datetime,
    run_id: str,
    say: Callable[[str], None],
    held: HeldSwitch,
) -> RangeResult:
    """Recompute a range, as :func:`backfill`, while nothing else changes the table but the run."""
    generation = context.generation
    held.note("1 of 2: computing the rows of the range from the files")
    folder = generation.folder(f"{_FOLDER}/{run_id}")
    side = _side_pipeline(context, folder, since, until)
    if side is None:
        say(f"No file contains rows from {shown(since)} until {shown(until)}.")
    else:
        run_chain(ChainRun(side, _Lines(say), rest_requested=True))
    held.note("2 of 2: replacing the range in the table")
    target = target_of(context.loaded, generation.name)
    replacement = Replacement(
        table=target,
        side=None if side is None else side.target,
        where=Range(context.pipeline.event_time.column, since, until),
        history=history_files(context, target),
        key=context.pipeline.sink.key,
        transaction=f"{generation.info.transaction_id}-range-{run_id}",
        scratch=folder.folder("scratch"),
    )
    done = replacement.run(lambda paths: folder.replace(_REMOVED, RemovedFiles(paths=paths)))
    for name in ("scratch", "state", "rows"):
        folder.folder(name).delete_all()
    replaced = done or Replaced(0, 0, 0)
    result = RangeResult(since, until, generation.name, replaced)
    say(result.text)
    return result


def look(loaded: LoadedPipeline, since: datetime, until: datetime) -> RangeLook:
    """Return what :func:`backfill` would read for a range of event times; nothing is written.

    Args:
        loaded: The pipeline.
        since: The first event time of the range.
        until: The first event time after it.

    Raises:
        InputError: The range is empty or ends after the time through which history is complete, or
            a file can't be read.
        StateError: Nothing was planned yet, a range of this pipeline can't be recomputed on its
            own, or history is not read to its end yet.
        UnavailableError: The store does not answer.
    """
    context = _serving(loaded)
    require_fit(context, since, until)
    splits = [part.listing.splits for part in parts_of(context.loaded, since, until)]
    return RangeLook(
        since=since,
        until=until,
        generation=context.generation.name,
        splits=sum(len(each) for each in splits),
        bytes=sum(pc.sum(each["length"], min_count=0).as_py() for each in splits),
    )


def complete_through(loaded: LoadedPipeline) -> datetime | None:
    """Return the event time through which files hold the serving generation's whole history.

    Returns:
        None until its last source of files has been read to the end.

    Raises:
        StateError: Nothing was planned yet.
    """
    context = _serving(loaded)
    end = context.switch_state.end_of(last_files(context.loaded).name)
    return None if end is None else datetime.fromtimestamp(end.complete_through_ms / 1000, UTC)


def _serving(loaded: LoadedPipeline) -> PipelineContext:
    return PipelineContext.require(in_service(loaded)[-1])


class _Lines(Observer):
    """A line for the plan and for what it is about to read."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def started(self, step: Step[Any]) -> None:
        self._say(step.name)

    def finished(self, step: Step[Any], outcome: Outcome[Any]) -> None:
        if isinstance(step, PlanStep):
            splits = sum(part.splits for part in outcome.value.files)
            self._say(f"{counted(splits, 'split is', 'splits are')} to be read.")


def _side_pipeline(
    context: PipelineContext, folder: Folder, since: datetime, until: datetime
) -> LoadedPipeline | None:
    """Return the pipeline that reads the range's files; None if no file has a row of the range.

    Args:
        context: The serving generation.
        folder: The backfill's own folder; the pipeline is declared there once.
        since: The first event time of the range.
        until: The first event time after it.
    """
    loaded, generation = context.loaded, context.generation
    parts = list(parts_of(loaded, since, until))
    if not parts:
        return None
    declared: dict[str, dict[str, object]] = {}
    for part in parts:
        limits = {"since": part.since.isoformat(), "until": part.until.isoformat()}
        declared[part.source.name] = {"time_range": limits}
        if part.source.table is not None:
            # The table that the generation has read, whatever has the name now.
            declared[part.source.name]["path"] = part.source.path
    own, definition = folder.folder("definition"), kept_folder(loaded, generation.name)
    if not own.exists(loaded.path.name):
        document = yaml.safe_load(definition.read_bytes(loaded.path.name) or b"")
        kept = {key: document[key] for key in _SAME if key in document}
        sources = [
            {key: value for key, value in each.items() if key not in _NOT_FOR_A_RANGE}
            | declared[each["name"]]
            for each in document["sources"]
            if each["name"] in declared
        ]
        side = {
            **kept,
            "sources": sources,
            "state": folder.location("state"),
            "sink": {**document["sink"], "path": folder.location("rows"), "table": None},
        }
        origin = KeptDefinition(
            generation=None, home=str(loaded.folder), code=str(local_copy(definition))
        )
        own.replace(KEPT, origin)
        own.replace_bytes(loaded.path.name, yaml.safe_dump(side).encode())
    return load_pipeline(local_copy(own) / loaded.path.name)


def history_files(context: PipelineContext, target: Folder) -> HistoryFiles:
    """Return which files of the target hold history: all of them until a stream starts.

    Args:
        context: The serving generation.
        target: Folder of the table that it writes to.

    Raises:
        InputError: The table can't be read.
        StateError: The stream was requested, but has not started yet; or the state is damaged.
    """
    generation, last = context.generation, context.pipeline.sources[-1]
    opened = open_table(target)
    # In this order: a stream that was not requested by now has written nothing that was read.
    is_all_there_is = last.boundedness is Boundedness.BOUNDED or read_requested(generation) is None
    if is_all_there_is and not has_history_files(generation):
        return HistoryFiles(set(paths_of(opened)), set())
    found = read_history_files(generation, opened)
    ranges = generation.folder(_FOLDER)
    documents = (ranges.read(name, RemovedFiles) for name in ranges.names(f"*/{_REMOVED}"))
    removed = {path for each in documents if each is not None for path in each.paths}
    return replace(found, gone=found.gone | removed)
