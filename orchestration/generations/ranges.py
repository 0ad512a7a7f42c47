"""A range of the target made anew from the files, while the live run goes on.

The files of the range are read by the chain's own code, as a pipeline of their own, into a table
beside the target; then one commit puts its rows in the place of those of history.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow.compute as pc
import yaml

from orchestration import chain
from orchestration.requested_state import read_wanted
from sources.common.positions import Record, iso, to_ms
from sources.common.state import Folder, Generation
from sources.config.file_options import TimeRange
from sources.config.file_source import FileSource
from sources.config.loader import KEPT, KeptDefinition, LoadedPipeline, load_pipeline
from sources.errors import InputError, StateError
from sources.files.split_table import FileListing
from sources.files.splits import list_source
from sources.files.time_range import EmptyRangeError
from sources.generations import in_service, kept_file, require_in_service, target_of
from sources.hybrid import Boundedness, SwitchState
from spark_jobs.checkpoint.transform_history import read_transforms
from spark_jobs.target.adopt_table import paths_of
from spark_jobs.target.history_files import read_history_files
from spark_jobs.target.replace_range import Range, Replaced, Replacement

_FOLDER = "ranges"
_OUT = "taken-out.json"
_SAME = ("name", "event_time", "key", "allowed_lateness", "transform", "spark", "s3", "hdfs")
_OF_THE_CHAIN = ("converge", "complete_through", "offsets", "sequence")


class _Part(NamedTuple):
    """A range as far as one source of files holds it."""

    source: FileSource
    since: datetime
    until: datetime
    listing: FileListing


class TakenOut(Record):
    """Files of history that a replacement takes out of the target; written before it does."""

    paths: list[str]


@dataclass(frozen=True)
class RangeLook:
    """What making a range anew would come to.

    Attributes:
        since, until: The range.
        generation: The generation that serves, whose rows would be replaced.
        splits, bytes: Of files that may hold rows of it, as they are now.
    """

    since: datetime
    until: datetime
    generation: str
    splits: int
    bytes: int

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.splits:,} splits, {self.bytes:,} bytes would be read"


@dataclass(frozen=True)
class RangeResult:
    """A range that was made anew.

    Attributes:
        since, until: The range.
        generation: The generation that serves, whose rows were replaced.
        replaced: What was done; all counts zero if it was done before.
    """

    since: datetime
    until: datetime
    generation: str
    replaced: Replaced


def backfill(
    loaded: LoadedPipeline,
    since: datetime,
    until: datetime,
    run_id: str,
    say: Callable[[str], None] = lambda _: None,
) -> RangeResult:
    """Make a range of the target anew from the files as they are now.

    Rows of history in the range are replaced in one commit; rows that the live run delivered stay.

    Args:
        loaded: The pipeline.
        since: The first event time.
        until: The first one after it.
        run_id: By which it is done once, and gone on with if it broke off.
        say: Told of each step.

    Raises:
        InputError: The range is none, or the table's rows have no event time.
        StateError: It can't be made anew on its own: by this kind of pipeline, or now.
        HybridError: The files can't be read.
    """
    serving = in_service(loaded)[-1]
    generation = serving.require_generation()
    _require_fit(serving, generation, since, until)
    folder = Folder(generation.path(f"{_FOLDER}/{run_id}"))
    beside = _beside(serving, generation, folder, since, until)
    if beside is None:
        say(f"no file holds rows from {_told(since)} until {_told(until)}")
    else:
        say("plan")
        made = chain.plan(beside)
        say(f"{sum(part.splits for part in made.files):,} splits are read")
        for source in beside.pipeline.sources:
            chain.run_bounded(beside, source, go_on=True)
    target = target_of(serving, generation.name)
    taken = Folder(generation.path(_FOLDER))
    replacement = Replacement(
        table=target,
        side=None if beside is None else beside.locate(beside.pipeline.sink.path),
        where=Range(serving.pipeline.event_time, since, until),
        history=_history(serving, generation, target),
        gone=_gone(taken),
        key=serving.pipeline.sink.key,
        transaction=f"{generation.info.transaction_id}-range-{run_id}",
        scratch=folder.path("scratch"),
    )
    done = replacement.run(lambda paths: folder.replace(_OUT, TakenOut(paths=paths)))
    for name in ("scratch", "state", "rows"):
        shutil.rmtree(folder.path(name), ignore_errors=True)
    found = done or Replaced(0, 0, 0)
    live = f"; {found.kept_live:,} that the live run had delivered stay" if found.kept_live else ""
    say(f"{found.removed:,} rows are replaced by {found.written:,}{live}")
    return RangeResult(since, until, generation.name, found)


def look(loaded: LoadedPipeline, since: datetime, until: datetime) -> RangeLook:
    """What :func:`backfill` would read, and which rows it would replace; nothing is written.

    Raises:
        InputError, StateError, HybridError: As of that.
    """
    serving = in_service(loaded)[-1]
    generation = serving.require_generation()
    _require_fit(serving, generation, since, until)
    splits = [part.listing.splits for part in _parts(serving, since, until)]
    return RangeLook(
        since=since,
        until=until,
        generation=generation.name,
        splits=sum(len(each) for each in splits),
        bytes=sum(pc.sum(each["length"], min_count=0).as_py() for each in splits),
    )


def complete_through(loaded: LoadedPipeline) -> datetime | None:
    """The time through which files hold the serving generation's history; None before its end.

    Raises:
        StateError: Nothing was planned yet.
    """
    serving = in_service(loaded)[-1]
    chain_ = SwitchState(serving.pipeline.hybrid_source(), serving.require_generation())
    end = chain_.end_of(_last_files(serving).name)
    return None if end is None else datetime.fromtimestamp(end.complete_through_ms / 1000, UTC)


def _require_fit(
    loaded: LoadedPipeline, generation: Generation, since: datetime, until: datetime
) -> None:
    """Refuse what would lose or double rows."""
    pipeline, name = loaded.pipeline, generation.name
    if since >= until:
        message = f"A range from {_told(since)} until {_told(until)} holds nothing."
        raise InputError(message, "It begins before it ends.")
    if pipeline.sink.mode != "append":
        message = f"Pipeline `{pipeline.name}` merges: its rows are not those of a range of files."
        raise StateError(message, "Make the table anew: `hybrid rerun`.")
    require_in_service(loaded, generation)
    known = read_transforms(generation)
    if known and known[-1].operators:
        kept = "; ".join(known[-1].operators)
        message = (
            f"`transform: {pipeline.transform}` keeps state ({kept}): a range can't be made anew "
            "without the rows before it."
        )
        raise StateError(message, "Make the table anew as another generation: `hybrid rerun`.")
    enumerator = SwitchState(pipeline.hybrid_source(), generation)
    for source in pipeline.sources:
        if source.boundedness is not Boundedness.BOUNDED:
            continue
        if not isinstance(source, FileSource):
            message = f"Source `{source.name}` is a topic that ends: its rows are in no file."
            raise StateError(message, "Make the table anew: `hybrid rerun`.")
        end = enumerator.end_of(source.name)
        if end is None:
            message = f"Generation {name} has not read `{source.name}` to its end yet."
            raise StateError(message, "Wait for that.")
        if to_ms(until) - 1 > end.complete_through_ms and source is _last_files(loaded):
            message = (
                f"History of generation {name} is complete through "
                f"{iso(end.complete_through_ms)}; the range goes on until {_told(until)}, where "
                "rows are the live run's."
            )
            raise InputError(message, "End it before that.")


def _last_files(loaded: LoadedPipeline) -> FileSource:
    return [each for each in loaded.pipeline.sources if isinstance(each, FileSource)][-1]


def _beside(
    loaded: LoadedPipeline,
    generation: Generation,
    folder: Folder,
    since: datetime,
    until: datetime,
) -> LoadedPipeline | None:
    """The pipeline that reads the range's files; None if no file holds a row of it."""
    wanted = {
        part.source.name: {"since": part.since.isoformat(), "until": part.until.isoformat()}
        for part in _parts(loaded, since, until)
    }
    if not wanted:
        return None
    path = folder.path(loaded.path.name)
    if not path.exists():
        document = yaml.safe_load(kept_file(loaded, generation.name).read_text())
        kept = {key: document[key] for key in _SAME if key in document}
        sources = [
            {key: value for key, value in each.items() if key not in _OF_THE_CHAIN}
            | {"time_range": wanted[each["name"]]}
            for each in document["sources"]
            if each["name"] in wanted
        ]
        beside = {
            **kept,
            "sources": sources,
            "state": str(folder.path("state")),
            "sink": {**document["sink"], "path": str(folder.path("rows"))},
        }
        definition = KeptDefinition(
            generation=None,
            home=str(loaded.folder),
            code=str(kept_file(loaded, generation.name).parent),
        )
        folder.replace(KEPT, definition)
        folder.replace_bytes(path.name, yaml.safe_dump(beside).encode())
    return load_pipeline(path)


def _parts(loaded: LoadedPipeline, since: datetime, until: datetime) -> Iterator[_Part]:
    """What of a range each source of files holds; those that hold nothing of it are left out."""
    for source in loaded.pipeline.sources:
        if not isinstance(source, FileSource) or source.discovery_interval is not None:
            continue
        declared = source.time_range
        begin = since if declared.since is None else max(since, declared.since)
        end = until if declared.until is None else min(until, declared.until)
        if begin >= end:
            continue
        limits = TimeRange.model_construct(since=begin, until=end)
        try:
            listing = list_source(loaded, source.model_copy(update={"time_range": limits}))
        except EmptyRangeError:
            continue
        yield _Part(source, begin, end, listing)


def _history(loaded: LoadedPipeline, generation: Generation, target: str) -> set[str]:
    """Files that hold history: all of them before the first live batch."""
    last = loaded.pipeline.sources[-1]
    if last.boundedness is Boundedness.BOUNDED or read_wanted(generation) is None:
        return set(paths_of(target))
    return read_history_files(generation)


def _gone(ranges: Folder) -> set[str]:
    """Files of history that earlier replacements took out."""
    names = [path.parent.name for path in ranges.root.glob(f"*/{_OUT}")]
    found = (ranges.read(f"{name}/{_OUT}", TakenOut) for name in names)
    return {path for each in found if each is not None for path in each.paths}


def _told(moment: datetime) -> str:
    return iso(to_ms(moment))
