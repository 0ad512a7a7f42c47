"""The plan of a pipeline, as others read it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sources.planning.plan import Plan, draft_plan
from tests.minimal import minimal_pipeline


def test_a_source_that_is_not_planned_ends_no_iteration_silently() -> None:
    plan = Plan.model_construct(files=[], archives=[], topic=None)
    for find in (plan.topic_of, plan.files_of):
        with pytest.raises(KeyError, match="nobody"):
            list(map(find, ["nobody"]))


@pytest.mark.parametrize(
    ("state", "is_warned"),
    [("out/state", True), ("out", True), ("out/_state", False), ("outer", False), ("s", False)],
)
def test_a_state_in_the_folder_of_the_table_is_warned_of(
    tmp_path: Path, state: str, *, is_warned: bool
) -> None:
    (tmp_path / "in").mkdir()
    times = pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": [1], "at": times}), tmp_path / "in/a.parquet")
    source = {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"}
    plan, _ = draft_plan(minimal_pipeline(tmp_path, source, state=state))
    told = [each for each in plan.warnings if "is in the folder of the table" in each]
    assert bool(told) is is_warned
