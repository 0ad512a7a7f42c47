"""Which transform made which micro-batches: written down once, and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources.errors import StateError
from sources.state.generation import Generation, open_generation
from sources.storage.folder import Folder
from spark_jobs.checkpoint.transform_compatibility import (
    Transform,
    first_batch,
    last_change,
    read_transforms,
    record_transform,
    state_refusal,
)


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    made = open_generation(Folder(tmp_path / "p"), {}, create=True)
    assert made is not None
    return made


def commit(generation: Generation, number: int) -> None:
    folder = generation.checkpoint.root / "commits"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(number)).touch()


def begin(
    generation: Generation, code: str, *operators: str, spark: str = "4.2.1"
) -> tuple[str | None, list[tuple[str, int]]]:
    """Let a transform take over; what is told, and all that are known."""
    found = Transform(
        name="m:f",
        first_batch=first_batch(generation),
        reached="all",
        code=code,
        plan=code,
        operators=list(operators),
        spark=spark,
    )
    told = record_transform(generation, found)
    return told, [(each.code, each.first_batch) for each in read_transforms(generation)]


def test_the_first_one_and_the_same_again_say_nothing(generation: Generation) -> None:
    assert begin(generation, "a", "x") == (None, [("a", 0)])
    commit(generation, 0)
    assert begin(generation, "a", "x") == (None, [("a", 0)])
    assert last_change(generation) is None


def test_a_transform_that_committed_no_batch_is_forgotten(generation: Generation) -> None:
    assert begin(generation, "a", "x") == (None, [("a", 0)])
    assert begin(generation, "b", "y") == (None, [("b", 0)])
    commit(generation, 0)
    told, known = begin(generation, "c", "y")
    assert told is not None
    assert known == [("b", 0), ("c", 1)]
    # Back to the one before, as if nothing had been.
    assert begin(generation, "b", "y") == (None, [("b", 0), ("b", 1)])
    assert last_change(generation) is None


def test_a_change_is_told_once_and_stays_visible(generation: Generation) -> None:
    begin(generation, "a", "x")
    for number in range(12):
        commit(generation, number)
    told, known = begin(generation, "b", "x")
    assert known == [("a", 0), ("b", 12)]
    assert told is not None
    assert told.startswith("The transform changed: micro-batches before 12 (all) were computed by")
    assert begin(generation, "b", "x")[0] is None
    commit(generation, 12)
    assert begin(generation, "b", "x")[0] is None
    assert last_change(generation) == told
    # One that was tried in between hides nothing.
    begin(generation, "c", "x")
    begin(generation, "b", "x")
    assert last_change(generation) == told


def test_other_operators_are_refused_with_what_they_were_and_are(generation: Generation) -> None:
    begin(generation, "a", "x", "y")
    commit(generation, 0)
    with pytest.raises(StateError, match=r"it was: y\n  it is:  z\n  it was: nothing\n  it is:  w"):
        begin(generation, "b", "x", "z", "w")
    assert [each.code for each in read_transforms(generation)] == ["a"]


def test_the_same_plan_may_be_told_in_other_words(generation: Generation) -> None:
    begin(generation, "a")
    commit(generation, 0)
    assert begin(generation, "a", "rows seen by k") == (None, [("a", 0)])


def test_what_another_spark_says_of_operators_is_not_compared(generation: Generation) -> None:
    begin(generation, "a", "x", spark="4.2.1")
    commit(generation, 0)
    told, _ = begin(generation, "a", "the same in other words", spark="5.0.0")
    assert told is not None
    assert told.startswith("The transform, or Spark (5.0.0), changed")


def test_an_older_spark_than_wrote_the_checkpoint_is_refused(generation: Generation) -> None:
    begin(generation, "a", "x", spark="4.2.1")
    # Nothing was written yet.
    begin(generation, "a", "x", spark="4.1.4")
    begin(generation, "a", "x", spark="4.10.0")
    commit(generation, 0)
    with pytest.raises(StateError, match=r"written by Spark 4\.10\.0, and this is Spark 4\.2\.1"):
        begin(generation, "a", "x", spark="4.2.1")
    assert begin(generation, "a", "x", spark="4.10.3")[0] is not None


def test_only_conditions_about_state_of_another_query_are_refusals_of_a_transform() -> None:
    refusal = state_refusal("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "Provided key schema")
    assert refusal is not None
    assert refusal.message.endswith("Spark reports: Provided key schema")
    assert not refusal.transient
    assert state_refusal("STATE_STORE_COMMIT_VALIDATION_FAILED", "Expected 2 commits") is None
    assert state_refusal(None, "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE]") is None
