"""Late rows that are in the files already, and that the stream has not delivered yet.

A backfill would write them, and the live run once more. Such rows are in files that history has not
read as they are now, and new to the table: what else files and topic have in common, the seam has
removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pyarrow as pa

from hybrid_extensions.generations.files.file_rows import FileReader
from hybrid_extensions.ranges.files.range_files import RangePart
from hybrid_extensions.ranges.table.key_match import without_keys
from hybrid_extensions.ranges.table.replace_range import Replacement
from orchestration.catch_up import UpToNow
from sources.common.counting import counted
from sources.errors import StateError
from sources.files.listing.split_table import row_tuples
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from sources.planning.files.file_plan import read_splits
from sources.planning.files.rounds import history_of
from sources.planning.plan import require_plan
from sources.storage.base import FILES
from sources.storage.folder import Folder
from spark_jobs.launch import run_control
from spark_jobs.table.delta_table import open_table

_POLL_S = 0.3
_WITHIN_S = 600.0


def wait_for_late_rows(
    context: PipelineContext,
    parts: Sequence[RangePart],
    replacement: Replacement,
    say: Callable[[str], None],
) -> None:
    """Wait until the stream has delivered what its input holds now; 10 minutes at most.

    Returns at once if none of the recomputed rows can wait there, as where no stream comes last.
    Called before the replacement: whatever is raised, nothing was replaced. A live run that does
    not run is not waited for.

    Args:
        context: The serving generation.
        parts: What was read for the range.
        replacement: The replacement of its rows.
        say: Called with a line of text if it has to wait.

    Raises:
        StateError: The live run does not run, or has not caught up in time.
        RunError: No connector reads the captured database's log.
        InputError: The topic or folder of the stream can't be read.
        UnavailableError: The broker or a store does not answer.
    """
    last = context.pipeline.sources[-1]
    is_stream = last.boundedness is not Boundedness.BOUNDED
    if not is_stream or not _has_other_files(context, parts) or not (new := _new_rows(replacement)):
        return
    until_now, deadline = UpToNow(context), time.monotonic() + _WITHIN_S
    is_told = False
    while True:
        beat = run_control.find_running(context.generation, last.name)
        left = until_now.left(beat)
        if until_now.is_committed:
            return
        if beat is None or time.monotonic() > deadline:
            break
        if not is_told:
            say(f"Waiting for the live run: {until_now.in_words(left)}.")
            is_told = True
        time.sleep(max(_POLL_S, context.generation.poll_s))
    are_new = counted(new, "row of the range is", "rows of the range are")
    message = (
        f"{are_new} not in the table. Late ones may wait in `{last.name}` "
        f"({until_now.in_words(left)}), and would be in the table twice. Nothing was replaced."
    )
    raise StateError(
        message,
        "Recompute the range again once the live run has caught up (`hybrid status P`; `hybrid "
        "resume P` starts it). If none of these rows waits there, add `--regardless` on the "
        "command line.",
        source=last.name,
    )


def _has_other_files(context: PipelineContext, parts: Sequence[RangePart]) -> bool:
    """Return whether history has not read all files of a range as they are now.

    Raises:
        StateError: The table of planned splits is missing.
        UnavailableError: The state's store does not answer.
    """
    plan = require_plan(context.generation)
    for part in parts:
        read = {
            row
            for files in history_of(context.generation, plan, part.source.name).parts
            for row in row_tuples(read_splits(files, context.generation), *FILES.names)
        }
        if not read.issuperset(row_tuples(part.listing.splits, *FILES.names)):
            return True
    return False


def _new_rows(replacement: Replacement) -> int:
    """Return the number of recomputed rows of a range whose key is not in the table's range."""
    assert replacement.side is not None
    made, there = (_keys(replacement, folder) for folder in (replacement.side, replacement.table))
    return len(without_keys(made, there))


def _keys(replacement: Replacement, folder: Folder) -> pa.Table:
    """Return the keys of the range's rows in a table."""
    opened = open_table(folder)
    rows = pa.table(opened.get_add_actions()).to_pylist()
    files = [row for row in rows if replacement.where.may_be_in(row)]
    empty = pa.schema(opened.schema().to_arrow()).empty_table().select(list(replacement.key))
    return pa.concat_tables([empty, *replacement.keys_in(FileReader(opened), files)])
