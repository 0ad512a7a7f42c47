"""Following of ranges that were recomputed in the table that a pipeline follows.

Its live run waits before the commit that has replaced such a range. Once it has committed all rows
of the commits before, the range is recomputed here, from the followed table at that very version;
then a mark in the state lets the run continue after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hybrid_extensions.generations.files.range_history import (
    RANGES,
    keep_removed,
    range_transaction,
)
from hybrid_extensions.generations.overtaken_audit import overtake_audit
from hybrid_extensions.generations.switch.lock import hold_switch_lock_in_turn
from hybrid_extensions.generations.switch.merge_turn import between_merges
from hybrid_extensions.generations.switch.run import do_all
from hybrid_extensions.ranges.followed.followed_scope import scope_of
from hybrid_extensions.ranges.range_scope import RangeScope, utc
from hybrid_extensions.ranges.side_pipeline import (
    Declaration,
    compute_side,
    declare_side,
    limits,
)
from hybrid_extensions.ranges.table.replace_range import Replaced, Replacement
from orchestration.remedies import for_generation
from sources.common.counting import counted
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, StateError, leaving
from sources.files.tables.replaced_range import ReplacedRange
from sources.files.tables.table_commits import TableCommits
from sources.files.tables.table_position import TablePosition
from sources.kept_definitions import declaration_of, in_service
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.files.passed_range import pass_range
from sources.serving import candidate_name, target_of
from sources.state.action_log import recorded
from spark_jobs.launch import run_control
from spark_jobs.run_state.heartbeat import read_heartbeat

_POLL_S = 0.3
_DISCARD = (
    "Discard it, `hybrid generation discard P`, and compute the table again: `hybrid rerun P`."
)
# Of the source's declaration: what the table at one version does not have.
_FOLLOWING = (
    "type",
    "pipeline",
    "generation",
    "format",
    "path",
    "table",
    "version",
    "discovery_interval",
    "asset",
)


class _Pending(NamedTuple):
    """Commit of the followed table before which the live run waits.

    Attributes:
        position: Its version.
        replaced: The range that it has replaced.
    """

    position: TablePosition
    replaced: ReplacedRange


class FollowedRange(NamedTuple):
    """A recomputed range of the followed table, after which this pipeline's table was recomputed.

    Attributes:
        version: Version of the followed table that the rows were recomputed from.
        replaced: The range there.
        scope: What was made of it here.
        rows: Numbers of rows that were removed and written here; all zero if that was done before.
        generation: Name of the generation whose table was recomputed.
    """

    version: int
    replaced: ReplacedRange
    scope: RangeScope
    rows: Replaced
    generation: str

    @property
    def text(self) -> str:
        """A sentence about the range, and the rows that were replaced here."""
        since, until = utc(self.scope.since), utc(self.scope.until)
        return (
            f"Version {self.version} of the followed table, {self.replaced}: in {self.generation} "
            f"from {since} until {until} {counted(self.rows.removed, 'row')} replaced by "
            f"{self.rows.written:,}."
        )


def follows_a_table(loaded: LoadedPipeline) -> bool:
    """Return whether a pipeline's last source is a table that is followed."""
    source = loaded.pipeline.growing_folder
    return source is not None and source.is_table


def require_followable(loaded: LoadedPipeline, replaced: ReplacedRange) -> ReplacedRange | None:
    """Refuse a range of a followed table before it is recomputed there; nothing is written.

    A pipeline that was never planned has read nothing, and accepts any range.

    Args:
        loaded: The pipeline that follows the table.
        replaced: The range.

    Returns:
        What will be replaced in the pipeline's own table; None if it was never planned.

    Raises:
        InputError: The kept declaration is not valid, or the transform can't be loaded.
        StateError: The pipeline's table can't follow the range; names it.
        UnavailableError: A store does not answer.
    """
    context = _planned(in_service(loaded)[-1])
    if context is None:
        return None
    scope = scope_of(context, replaced)
    return scope.where(context.pipeline.event_time.column).replaced


@leaving("Each range is as it was, or replaced as a whole.")
def follow(
    loaded: LoadedPipeline, say: Callable[[str], None] = lambda _: None, by: str | None = None
) -> list[FollowedRange]:
    """Recompute what a pipeline made of ranges that were recomputed in the table that it follows.

    Each range is one commit, after which the live run reads on; one after the other, in the order
    of the followed table's commits. Safe to repeat after an interruption.

    So does a candidate that follows the table, too, in a table of its own. It is not waited for, as
    it may have much to read; one that can't follow now is told, and is no error.

    Args:
        loaded: The pipeline.
        say: Called with a line of text for each step.
        by: Who asked for it; None if unknown.

    Returns:
        The ranges, those of the serving generation first; none if there is nothing to follow.

    Raises:
        InputError: The followed table was changed otherwise, or can't be read.
        StateError: The pipeline follows no table, or was not planned; its table can't follow a
            range; its live run has ended before it had read the commits before; or a promotion,
            rollback or discard is under way.
        RunError: The Spark run that reads the range failed; the table is not changed.
        UnavailableError: A store does not answer.
    """
    if not follows_a_table(loaded):
        message = f"Pipeline `{loaded.pipeline.name}` follows no table."
        hint = "If it has files, recompute a range of it: `hybrid backfill P --since … --until …`."
        raise StateError(message, hint, pipeline=loaded.pipeline.name)
    done: list[FollowedRange] = []

    def act(context: PipelineContext) -> None:
        name, is_candidate = context.generation.name, context is not serving
        try:
            while (pending := _next(context)) is not None:
                held.note(f"recomputing what was made of {pending.replaced} in {name}")
                # Refused before anything is waited for or computed.
                scope_of(context, pending.replaced)
                _wait_until_read(context, say, is_patient=not is_candidate)
                scope = scope_of(context, pending.replaced)
                of = {"version": str(pending.position.version), "range": str(pending.replaced)}
                with recorded(loaded.state, "follow", by, name, of) as after:
                    done.append(_follow(context, pending, scope, say))
                    overtake_audit(context.generation, f"the recomputation of {pending.replaced}")
                    after["rows"] = done[-1].text
        except (InputError, StateError) as error:
            if not is_candidate:
                raise
            hint = for_generation(error.hint, name) if error.transient else _DISCARD
            say(f"Candidate {name} does not follow: {error.message} {hint}")

    with hold_switch_lock_in_turn(loaded, "recomputation of followed ranges", say) as held:
        serving = PipelineContext.require(in_service(loaded)[-1])
        name = candidate_name(loaded)
        waits = None if name is None else _planned(declaration_of(loaded, name))
        do_all([serving, *([] if waits is None else [waits])], act)
    return done


def _planned(loaded: LoadedPipeline) -> PipelineContext | None:
    """Return the generation of a declaration that follows a table; None before its plan."""
    generation = loaded.open_generation(create=False) if follows_a_table(loaded) else None
    context = None if generation is None else PipelineContext(loaded, generation)
    return context if context is not None and context.is_planned else None


def _next(context: PipelineContext) -> _Pending | None:
    """Return the next commit of the followed table that has replaced a range; None without one."""
    source = context.pipeline.growing_folder
    position = None if source is None else GrowingFolder(context).position
    if source is None or position is None:
        return None
    commits = TableCommits(source.name, context.loaded.place(position.place))
    while True:
        found = commits.appended_after(position, to_read=True)
        if found.replaced is not None:
            version = found.position.version + 1
            return _Pending(commits.position(position.table_id, version), found.replaced)
        if found.position == position:
            return None
        # A compaction of what commits append: read in parts.
        position = found.position


def _wait_until_read(
    context: PipelineContext, say: Callable[[str], None], *, is_patient: bool
) -> None:
    """Wait until the live run has committed all rows of the commits before a replaced range.

    Raises:
        StateError: It has ended before; or it has not yet, and is not waited for (transient).
    """
    source = context.pipeline.sources[-1].name
    is_told = False
    while True:
        is_running = run_control.find_running(context.generation, source) is not None
        folder = GrowingFolder(context)
        beat = read_heartbeat(context.generation, source)
        done = 0 if beat is None or beat.splits_done is None else beat.splits_done
        if not (waiting := len(folder.before_a_range()) + folder.splits - done):
            return
        if not (is_running and is_patient):
            message = (
                f"The live run of `{source}` {'has' if is_running else 'does not run, and has'} "
                f"not yet read {counted(waiting, 'file')} of the followed table from before the "
                "recomputed range, of which nothing was replaced."
            )
            hint = "Start it, `hybrid resume P`, and repeat this while it runs: `hybrid follow P`."
            if is_running:
                hint = "Repeat this once it has: `hybrid follow P`."
            name = context.generation.name
            raise StateError(message, hint, transient=True, source=source, generation=name)
        if not is_told:
            say(f"The live run reads {counted(waiting, 'file')} of the commits before.")
        is_told = True
        time.sleep(max(_POLL_S, context.generation.poll_s))


def _follow(
    context: PipelineContext,
    pending: _Pending,
    scope: RangeScope,
    say: Callable[[str], None],
) -> FollowedRange:
    generation, position = context.generation, pending.position
    # The same for each attempt, so that one that was interrupted is resumed.
    folder = generation.folder(f"{RANGES}/followed-{position.version}")

    def sources(kept: Sequence[Declaration]) -> Sequence[Declaration]:
        own = {key: value for key, value in kept[-1].items() if key not in _FOLLOWING}
        table = {"path": position.place, "version": position.version}
        time_range = limits(scope.read.since, scope.read.until)
        return [{**own, "type": "files", "format": "delta", **table, "time_range": time_range}]

    say(f"{pending.replaced} was recomputed by version {position.version} of {position.place}.")
    side = declare_side(context, folder, scope, sources)
    compute_side(side, say)
    replacement = Replacement(
        table=target_of(context.loaded, generation.name),
        side=side.target,
        where=scope.where(context.pipeline.event_time.column),
        # All rows here are of the commits that were read: history and live run alike.
        history=None,
        key=context.pipeline.sink.key,
        transaction=range_transaction(generation, folder.name),
        scratch=folder.folder("scratch"),
        turn=between_merges(context, "recomputation of followed ranges"),
        has_others=scope.windows is not None,
    )
    rows = replacement.run(lambda paths: keep_removed(context, folder, paths))
    pass_range(generation, context.pipeline.sources[-1].name, position)
    for name in ("scratch", "state", "rows"):
        folder.folder(name).delete_all()
    found = FollowedRange(
        position.version, pending.replaced, scope, rows or Replaced(0, 0, 0), generation.name
    )
    say(found.text)
    return found
