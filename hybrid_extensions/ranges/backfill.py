"""Backfill of a time range: its rows are recomputed from the files while the live run continues.

The chain's own code reads the files of the range, as a pipeline of their own, into a table next to
the target; then one commit replaces the rows of the range by the rows of that table: those of
history, all windows, or the versions that are not newer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc

from hybrid_extensions.generations.files.range_history import (
    RANGES,
    history_files,
    keep_removed,
    range_transaction,
)
from hybrid_extensions.generations.overtaken_audit import overtake_audit
from hybrid_extensions.generations.switch.lock import HeldSwitch, hold_switch_lock_in_turn
from hybrid_extensions.generations.switch.merge_turn import between_merges
from hybrid_extensions.ranges.files.moved_rows import moved_in_words
from hybrid_extensions.ranges.files.range_files import left_out_in_words, parts_in
from hybrid_extensions.ranges.followed.followers import (
    followers_of,
    require_followers,
    what_follows,
)
from hybrid_extensions.ranges.range_scope import (
    RangeScope,
    require_exchangeable,
    require_fit,
    utc,
)
from hybrid_extensions.ranges.side_pipeline import compute_side, side_pipeline
from hybrid_extensions.ranges.table.replace_range import Replaced, Replacement, Turn
from hybrid_extensions.ranges.table.replace_versions import VersionsReplacement
from hybrid_extensions.ranges.table.waiting_rows import wait_for_late_rows
from hybrid_extensions.ranges.windows import final_time
from orchestration.display import size
from sources.common.counting import counted
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, InputError, leaving
from sources.kept_definitions import in_service
from sources.planning.context import PipelineContext
from sources.planning.transform_analysis import read_analysis
from sources.serving import target_of
from sources.state.action_log import recorded
from sources.storage.folder import Folder

_AGAIN = (
    "For this range alone no new generation is needed: once its files are as they should be, "
    "recompute it again. It is as it was."
)


@dataclass(frozen=True)
class RangeLook:
    """Dry run of a backfill: what it would read.

    Attributes:
        scope: The range, and the rows of history that it is computed from.
        generation: Name of the serving generation, whose rows would be replaced.
        splits, bytes: Number of splits that may contain rows of the range now, and their bytes.
        left_out: Sentence about damaged files of other times; None if there are none.
        moved: Sentence about files that reach further than by the plan; None if there are none.
    """

    scope: RangeScope
    generation: str
    splits: int
    bytes: int
    left_out: str | None = None
    moved: str | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The dry run as a JSON object, for ``--json``."""
        reads = [utc(self.scope.read.since), utc(self.scope.read.until)]
        return {
            "generation": self.generation,
            "splits": self.splits,
            "reads": reads,
            "bytes": self.bytes,
        }

    @property
    def text(self) -> str:
        """Sentences about what is read, with its size."""
        parts = counted(self.splits, "file or part of a file", "files or parts of files")
        none = None if self.splits else "Rows of history that the table has of it would be removed."
        said = (self.scope.why, self.left_out, none, self.moved)
        more = " ".join(each for each in said if each is not None)
        return f"{parts}, {size(self.bytes)}, would be read. {more}".rstrip()


@dataclass(frozen=True)
class RangeResult:
    """Result of a backfill of a range of event times.

    Attributes:
        scope: The range, and the rows of history that it was computed from.
        generation: Name of the serving generation, whose rows were replaced.
        replaced: Numbers of rows removed and written; all zero if this backfill was done before.
        is_repeated: Whether it was done before, by a call with the same ``run_id``.
        moved: Sentence about files that reach further than by the plan; None if there are none.
        followers: Sentences about the pipelines that have to follow; "" if there are none.
    """

    scope: RangeScope
    generation: str
    replaced: Replaced
    is_repeated: bool = False
    moved: str | None = None
    followers: str = ""

    @property
    def document(self) -> dict[str, Any]:
        """The result as a JSON object, for ``--json``."""
        return {"generation": self.generation, **self.replaced._asdict()}

    @property
    def is_empty(self) -> bool:
        """Whether neither the files nor the table have rows of the range."""
        return not self.is_repeated and not any(self.replaced)

    @property
    def text(self) -> str:
        """Sentences about what was replaced."""
        live, scope, removed = self.replaced.kept_live, self.scope, self.replaced.removed
        warned = f"{self.moved} " if self.moved is not None else ""
        if removed and not self.replaced.written:
            warned = f"Warning: the files have no row of the range any more. {warned}"
        if self.is_repeated:
            return (
                f"From {utc(scope.since)} until {utc(scope.until)}: this run, or one that it "
                "repeats, had replaced the range before, so nothing was done. To recompute it "
                f"again from the files as they are now, launch a new run. {self.followers}"
            ).rstrip()
        if self.is_empty:
            return (
                f"From {utc(scope.since)} until {utc(scope.until)}: neither the files nor the "
                "table have rows. The table stays as it is."
            )
        whose = "that are newer" if scope.order else "of the live run"
        kept = f"; {counted(live, 'row')} {whose} kept" if live else ""
        kind = " of history" if scope.is_of_single_rows else ""
        return (
            f"From {utc(scope.since)} until {utc(scope.until)}: "
            f"{counted(removed, 'row')}{kind} replaced by "
            f"{self.replaced.written:,}{kept}. {warned}{self.followers}".rstrip()
        )


@leaving("The range is as it was, or replaced as a whole.")
def backfill(  # noqa: PLR0913 - each is another thing
    loaded: LoadedPipeline,
    since: datetime,
    until: datetime,
    run_id: str,
    say: Callable[[str], None] = lambda _: None,
    by: str | None = None,
    *,
    is_regardless: bool = False,
) -> RangeResult:
    """Recompute a range of the target from the present files, and wait until that is done.

    The rows of the range are replaced in one commit: of single rows those of history, while those
    that the live run wrote are kept; of windows all that start in the range; of rows that are
    merged in order the versions that are not newer. Until that is done no promotion or rollback
    begins, and other backfills of the table wait.

    Args:
        loaded: The pipeline.
        since: First event time of the range, with a time zone (inclusive).
        until: First event time after the range (exclusive).
        run_id: Idempotency key: a second call with it resumes an interrupted backfill, and does
            nothing after a complete one.
        say: Called with a line of text for each step.
        by: Who asked for it; None if unknown.
        is_regardless: Recompute the range even if a pipeline that follows the table can't follow,
            and without a wait for late rows that the live run may have to deliver.

    Returns:
        The range, and how many rows were removed, written and kept.

    Raises:
        InputError: The range is empty or ends after the time through which history is complete, the
            target has no column of the event time, or a file can't be read.
        StateError: Nothing was planned yet, a range of this pipeline can't be recomputed on its own
            (:func:`.range_scope.require_fit`), history is not read to its end yet, a pipeline that
            follows the table can't follow, late rows may wait in the stream, or a promotion,
            rollback or discard is under way.
        RunError: The Spark run that reads the files failed; the target is not changed.
        UnavailableError: The store does not answer.
    """
    doing = f"backfill from {utc(since)} until {utc(until)}"
    with hold_switch_lock_in_turn(loaded, doing, say) as held:
        context = _serving(loaded)
        with leaving("The range is as it was."):
            scope = require_fit(context, since, until)
            require_exchangeable(context)
            followers = followers_of(loaded)
            if not is_regardless:
                where = scope.where(context.pipeline.event_time.column)
                require_followers(followers, loaded, where.replaced)
        of = {"since": since.isoformat(), "until": until.isoformat()}
        with recorded(loaded.state, "backfill", by, context.generation.name, of) as after:
            done = _backfill(context, scope, run_id, say, held, is_regardless=is_regardless)
            overtake_audit(context.generation, f"the {doing}")
            result = replace(done, followers=what_follows(followers))
            say(result.text)
            after["rows"] = result.text
        return result


def _backfill(
    context: PipelineContext,
    scope: RangeScope,
    run_id: str,
    say: Callable[[str], None],
    held: HeldSwitch,
    *,
    is_regardless: bool,
) -> RangeResult:
    """Recompute a range, as :func:`backfill`, while nothing else changes the table but the run."""
    generation = context.generation
    turn = between_merges(context, "backfill")
    with turn():
        # Refused now, not after the files were read.
        held.note("1 of 2: computing the rows of the range from the files")
    folder = generation.folder(f"{RANGES}/{run_id}")
    if scope.why is not None:
        say(scope.why)
    parts = parts_in(context, scope)
    if (left_out := left_out_in_words(parts)) is not None:
        say(left_out)
    if (moved := moved_in_words(context, parts, scope.read.since, scope.read.until)) is not None:
        say(moved)
    side = side_pipeline(context, folder, scope, parts)
    if side is None:
        say(f"No file contains rows from {utc(scope.read.since)} until {utc(scope.read.until)}.")
    else:
        try:
            compute_side(side, say)
        except HybridError as error:
            # Of a driver, too: its error has the kind of what it reported.
            if error.report().kind != InputError.kind:
                raise
            # Such as of a file that was rewritten since: one that tries again plans it as it is.
            for name in ("definition", "state", "rows"):
                folder.folder(name).delete_all()
            error.hint = f"{error.hint} {_AGAIN}".strip()
            raise
        except Exception:
            raise
        except BaseException:
            say("Interrupted: the table was not changed. Launch the backfill again to do it.")
            raise
    replacement = _replacement(context, scope, folder, side, turn)
    if side is not None and scope.is_of_single_rows and not is_regardless:
        wait_for_late_rows(context, parts, replacement, say)
    held.note("2 of 2: replacing the range in the table")
    done = replacement.run(lambda paths: keep_removed(context, folder, paths))
    for name in ("scratch", "state", "rows"):
        folder.folder(name).delete_all()
    replaced = done or Replaced(0, 0, 0)
    return RangeResult(scope, generation.name, replaced, is_repeated=done is None, moved=moved)


def _replacement(
    context: PipelineContext,
    scope: RangeScope,
    folder: Folder,
    side: LoadedPipeline | None,
    turn: Turn,
) -> Replacement:
    """Return the replacement of a range by the rows that its pipeline has computed."""
    generation, sink = context.generation, context.pipeline.sink
    target = target_of(context.loaded, generation.name)
    given: dict[str, Any] = {
        "table": target,
        "side": None if side is None else side.target,
        "where": scope.where(context.pipeline.event_time.column),
        "history": history_files(context, target) if scope.is_of_single_rows else None,
        "key": sink.key,
        "transaction": range_transaction(generation, folder.name),
        "scratch": folder.folder("scratch"),
        "turn": turn,
        "has_others": scope.windows is not None,
    }
    if scope.order:
        return VersionsReplacement(**given, order=scope.order)
    return Replacement(**given)


@leaving("Nothing was changed.")
def look(loaded: LoadedPipeline, since: datetime, until: datetime) -> RangeLook:
    """Return what :func:`backfill` would read for a range of event times; nothing is written.

    Args:
        loaded: The pipeline.
        since: First event time of the range, with a time zone (inclusive).
        until: First event time after the range (exclusive).

    Raises:
        InputError: The range is empty or ends after the time through which history is complete, or
            a file can't be read.
        StateError: Nothing was planned yet, a range of this pipeline can't be recomputed on its
            own, or history is not read to its end yet.
        UnavailableError: The store does not answer.
    """
    context = _serving(loaded)
    scope = require_fit(context, since, until)
    require_exchangeable(context)
    parts = parts_in(context, scope)
    splits = [part.listing.splits for part in parts]
    return RangeLook(
        scope=scope,
        generation=context.generation.name,
        splits=sum(len(each) for each in splits),
        bytes=sum(pc.sum(each["length"], min_count=0).as_py() for each in splits),
        left_out=left_out_in_words(parts),
        moved=moved_in_words(context, parts, scope.read.since, scope.read.until),
    )


def latest_end(loaded: LoadedPipeline) -> datetime | None:
    """Return the latest end (exclusive) of a range that the serving generation's history covers.

    It is the time through which files hold the whole history; for windows, the latest time before
    which no window starts that has rows after that time.

    Returns:
        None until the last bounded source of files has been read to the end, and without one.

    Raises:
        InputError: The pipeline declares ``inputs``, or the kept declaration is not valid.
        StateError: Nothing was planned yet.
        UnavailableError: The state's store does not answer.
    """
    context = _serving(loaded)
    files = context.pipeline.bounded_files
    end = context.switch_state.end_of(files[-1].name) if files else None
    if end is None:
        return None
    analysis = read_analysis(context.generation)
    if analysis is not None and analysis.windows is not None:
        return analysis.windows.latest_until(final_time(context, end).moment)
    # A row of the last millisecond is in the files, as :func:`.range_scope.require_fit` has it.
    return datetime.fromtimestamp((end.complete_through_ms + 1) / 1000, UTC)


def _serving(loaded: LoadedPipeline) -> PipelineContext:
    loaded.pipeline.require_one_chain("To recompute a range of event times")
    return PipelineContext.require(in_service(loaded)[-1])
