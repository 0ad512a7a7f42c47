"""Upstream tables that a pipeline follows, as a part of its status."""

from __future__ import annotations

from collections.abc import Iterator

from deltalake.exceptions import DeltaError
from pydantic import BaseModel

from hybrid_extensions.upstream.source import UpstreamFiles
from orchestration.supervision.status_part import Number, Row, StatusPart
from sources.common.times import iso, to_ms
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.files.tables.table_commits import TableCommits
from sources.generations import acting_on
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import found_so_far
from sources.planning.files.passed_range import position_after
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table
from sources.storage.tables.file_times import file_times

_HEADINGS = ("upstream", "table", "version read", "newest", "commits to read", "state")
HELP = {
    "upstream_healthy": "Whether the table of another pipeline can be followed",
    "upstream_behind_commits": "Commits that append rows to it and are not found yet",
}
"""Help texts of the metrics of each followed table, by the metric's name."""


class UpstreamStatus(BaseModel):
    """How far a source has followed the table of another pipeline.

    Attributes:
        source: Name of the source.
        table: Folder of the table, absolute or a URL.
        version: Version up to which its files are found, and read or about to be.
        newest: Newest version; None if the table can't be followed beyond ``version``.
        behind: Number of commits after ``version`` that append rows; None like ``newest``.
        problem: Why it can't be followed, and what to do; None if it can.
        changed: Lowest and highest event time of the rows that were read and that the table no
            longer has as they were, by its statistics: what this pipeline computed from them has
            to be recomputed. None if nothing has changed, or that is not known.
    """

    source: str
    table: str
    version: int
    newest: int | None
    behind: int | None
    problem: str | None
    changed: tuple[str, str] | None = None


def status_part(loaded: LoadedPipeline) -> StatusPart:
    """Return how far a pipeline has followed the tables of others as a part of its status.

    Without such sources, or before the plan, the part has no rows.

    Args:
        loaded: The pipeline.

    Raises:
        InputError: The kept declaration of the serving generation is not valid.
        StateError: The state is damaged.
        UnavailableError: A store does not answer.
    """
    found = list(_followed(loaded))
    return StatusPart(
        "upstream",
        [each.model_dump(mode="json") for each in found],
        all(each.problem is None for each in found),
        _HEADINGS,
        [_row(each) for each in found],
        [number for each in found for number in _numbers(loaded.pipeline.name, each)],
    )


def _followed(loaded: LoadedPipeline) -> Iterator[UpstreamStatus]:
    source = loaded.pipeline.growing_folder
    if not isinstance(source, UpstreamFiles):
        return
    acting = acting_on(loaded, as_kept=True)
    generation = acting.open_generation(create=False)
    context = None if generation is None else PipelineContext(acting, generation)
    if context is None or not context.is_planned or context.plan.folder is None:
        return
    parts = found_so_far(context.generation, context.plan.folder)
    position = position_after(context.generation, parts)
    if position is None:
        return
    newest: int | None = None
    behind: int | None = None
    problem: str | None = None
    changed: tuple[str, str] | None = None
    folder = acting.place(position.place)
    try:
        commits = TableCommits(source.name, folder)
        appended = commits.appended_after(position, to_read=False)
        newest, behind = appended.position.version, appended.commits
    except InputError as error:
        changed = _changed(folder, position.version, acting.pipeline.event_time.column)
        followed = ""
        if changed is not None:
            followed = (
                f" Rows computed from its rows from {changed[0]} to {changed[1]} have to be "
                "recomputed."
            )
        problem = f"{error.message}{followed} {error.hint}"
    upstream = source.upstream
    if problem is None and upstream is not None and source.patterns != [position.place]:
        table = ", ".join(source.patterns)
        problem = (
            f"Pipeline `{upstream.pipeline.name}` writes to {table} by now. Begin a new "
            "generation, which reads that table: `hybrid generation new P`."
        )
    yield UpstreamStatus(
        source=source.name,
        table=position.place,
        version=position.version,
        newest=newest,
        behind=behind,
        problem=problem,
        changed=changed,
    )


def _changed(table: Folder, version: int, event_time: str) -> tuple[str, str] | None:
    """Return the range of event times of the files that only an older version of a table has.

    Args:
        table: The table's folder.
        version: The older version.
        event_time: Column whose statistics tell the times.

    Returns:
        None if there is no such file, or the table or its statistics do not tell.

    Raises:
        UnavailableError: The login to the store has expired.
    """
    try:
        before, after = (
            file_times(delta_table(table, each), event_time) for each in (version, None)
        )
    except (DeltaError, OSError):
        return None
    gone = [times for path, times in before.items() if path not in after]
    lows = [each.lowest for each in gone if each.lowest is not None]
    highs = [each.highest for each in gone if each.highest is not None]
    if not gone or len(lows) < len(gone) or len(highs) < len(gone):
        return None
    return iso(to_ms(min(lows))), iso(to_ms(max(highs)))


def _row(found: UpstreamStatus) -> Row:
    cells = (found.version, found.newest, found.behind)
    shown = ("" if cell is None else f"{cell:,}" for cell in cells)
    state = found.problem or ("up to date" if not found.behind else "following")
    return Row((found.source, found.table, *shown, state), found.problem is None)


def _numbers(pipeline: str, found: UpstreamStatus) -> Iterator[Number]:
    labels = {"pipeline": pipeline, "source": found.source}
    values = {"upstream_healthy": found.problem is None, "upstream_behind_commits": found.behind}
    for name, value in values.items():
        if value is not None:
            yield Number(name, HELP[name], labels, value)
