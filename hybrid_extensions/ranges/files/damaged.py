"""Damaged files: whether they concern a range, by what the plan knows of their event times."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sources.config.source.file_source import FileSource
from sources.files.time_range import EmptyRangeError, in_range
from sources.planning.context import PipelineContext
from sources.planning.files.file_plan import read_splits
from sources.planning.files.rounds import history_of
from sources.planning.plan import require_plan


def is_of_other_times(context: PipelineContext, part: FileSource, file: str) -> bool:
    """Return whether a file had no row in the time range of a source when it was planned.

    So a file that was damaged since then concerns only the ranges whose rows it had. False if that
    is not known: the plan does not have the file, or its event times were only sampled.

    Args:
        context: The serving generation.
        part: The source, with the range as its ``time_range``.
        file: Path of the file.

    Raises:
        StateError: The table of planned splits is missing.
        UnavailableError: The state's store does not answer.
    """
    plan = require_plan(context.generation)
    for files in history_of(context.generation, plan, part.name).parts:
        splits = read_splits(files, context.generation)
        of_file = splits.filter(pc.equal(splits["path"], pa.scalar(file)))
        if not of_file.num_rows or files.end.event_times != "exact":
            continue
        try:
            in_range(part, of_file, exact=True)
        except EmptyRangeError:
            return True
    return False
