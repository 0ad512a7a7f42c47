"""What people are told of a lost state, and what is not done with a table that was adopted."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hybrid_extensions.adopt.position import Asked
from sources.errors import InputError, StateError
from sources.generations import is_unread
from sources.planning.context import PipelineContext
from sources.state.adopted_table import Adopted
from sources.state.generation import Generation
from spark_jobs.table.ownership import refusals
from tests.minimal import minimal_pipeline

FILES = {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"}


@pytest.fixture
def context(tmp_path: Path) -> PipelineContext:
    loaded = minimal_pipeline(tmp_path, FILES)
    (tmp_path / "transforms.py").write_text("def identity(rows):\n    return rows\n")
    generation = loaded.open_generation(create=True)
    assert generation is not None
    return PipelineContext(loaded, generation)


def adopted(generation: Generation) -> None:
    made = Adopted(table_version=4, newest=4, offsets={}, by_commits=True, before=[])
    generation.put_if_absent(Adopted.NAME, made)


def test_errors_about_a_lost_checkpoint_or_state_name_the_commits_as_a_way_out(
    context: PipelineContext,
) -> None:
    generation, table = context.generation, context.loaded.target
    for error in (
        refusals.checkpoint_missing(generation, table, 3),
        refusals.checkpoint_behind(generation, table, None, 3),
        refusals.commits_missing(generation, None, 3),
        refusals.documents_missing(generation, ["plan.json"]),
        refusals.state_behind(generation, table, "its epoch is 2", "epoch 1"),
        refusals.another_owner(generation, table, "hybrid.generation", "events-g1"),
    ):
        assert "hybrid adopt P --from-commits" in error.hint, error


def test_a_plan_that_reads_no_history_is_never_replaced_by_one_that_does(
    context: PipelineContext,
) -> None:
    assert is_unread(context.generation)
    adopted(context.generation)
    assert not is_unread(context.generation)


def test_ranges_of_rows_that_were_adopted_are_not_recomputed(context: PipelineContext) -> None:
    scope = pytest.importorskip("hybrid_extensions.ranges.range_scope")
    since, until = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)
    adopted(context.generation)
    with pytest.raises(StateError, match="has adopted its table at version 4"):
        scope.require_fit(context, since, until)


def test_exactly_one_position_is_asked_for_and_others_are_refused() -> None:
    of = Asked.of
    assert of(None, None, 3, from_commits=True).by_commits
    assert of('{"0": 17}', None, None, from_commits=False).offsets == {"": {0: 17}}
    assert of(None, "2024-01-01T00:00:00Z", None, from_commits=False).time is not None
    for offsets, time, from_commits, said in (
        (None, None, False, "given: none of them"),
        ('{"0": 17}', None, True, "given: `--from-commits` and `--offsets`"),
        ("17", None, False, "`--offsets 17` is no position"),
        ("{", None, False, "`--offsets {` is no position"),
        ('{"0": -1}', None, False, '`--offsets {"0": -1}` is no position'),
        (None, "2024-01-01", False, "`--time 2024-01-01` is no position"),
        (None, "yesterday", False, "`--time yesterday` is no position"),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            of(offsets, time, None, from_commits=from_commits)
