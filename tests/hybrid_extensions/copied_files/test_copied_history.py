"""Which history may be copied into the table, by its plan."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hybrid_extensions.copied_files.spark.history import copying_sink
from spark_jobs.inside.query.places.planned_files import PlannedFilesPlace
from tests.hybrid_extensions.copied_files.test_copied_files import declared


class Place(PlannedFilesPlace):
    """Place of files whose reader is not asked."""

    def __init__(self) -> None:
        self.planned: Any = SimpleNamespace(read=[], partitions=[])


@pytest.mark.parametrize("parsed", [None, "`a` has several types"])
def test_files_that_tasks_parse_are_not_copied_if_that_is_declared_after_the_plan(
    tmp_path: Path, parsed: str | None
) -> None:
    loaded = declared(tmp_path, {})
    part = SimpleNamespace(partitions=[], mapping=None, parsed=parsed)
    query: Any = SimpleNamespace(
        context=SimpleNamespace(loaded=loaded, pipeline=loaded.pipeline),
        source=loaded.pipeline.sources[0],
        place=Place(),
        plan=SimpleNamespace(files_of=lambda _: part),
        generation=None,
    )
    nothing: Any = None
    # Their rows are written by the tasks, and Spark has none of them.
    assert (copying_sink(query, nothing, nothing, nothing) is None) == (parsed is not None)
