"""Generations of which nothing is on a file system: promoted, rolled back, given up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hybrid_extensions.generations.files.take_over import TakeOver
from hybrid_extensions.generations.lifecycle import discard
from hybrid_extensions.generations.switch import promotion
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.generations import begin, generations
from sources.serving import Switch, own_table, pending_switch, read_serving
from sources.storage.folder import Folder
from sources.storage.tables.delta import is_delta_table
from spark_jobs.table.delta_table import open_table, paths_of
from tests.orchestration.generations.generation_case import GenerationCase
from tests.services.lake import Edit, Kind, lake

pytestmark = pytest.mark.slow
OLD, NEW = {1: 1, 2: 2}, {2: 20, 3: 30, 4: 40}


class CutOffError(Exception):
    """Stands for the end of the process."""


@pytest.fixture(scope="module", params=["s3", "hdfs"])
def move(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Edit]:
    kind: Kind = request.param
    with lake(kind, tmp_path_factory.mktemp("lake")) as made:
        yield made


@pytest.fixture
def case(tmp_path: Path, move: Edit) -> GenerationCase:
    """One that serves, and one that waits."""
    place: dict[str, object] = {"sink": {}}
    move(place)

    def edit(document: dict[str, object]) -> None:
        document |= {key: value for key, value in place.items() if key != "sink"}
        document["sink"] = {**document["sink"], **place["sink"]}  # type: ignore[dict-item]

    made = GenerationCase(tmp_path, edit)
    made.run(OLD)
    begin(made.loaded)
    made.run(NEW)
    return made


def test_readers_get_the_rows_of_the_new_one_and_the_old_ones_again(case: GenerationCase) -> None:
    assert case.seen() == OLD
    promotion.promote(case.loaded)
    assert case.seen() == NEW
    assert read_serving(case.loaded).generation == "g2"
    assert not is_delta_table(own_table(case.loaded, "g2"))
    promotion.roll_back(case.loaded)
    assert case.seen() == OLD
    promotion.roll_back(case.loaded)
    assert case.seen() == NEW


def test_a_promotion_that_is_cut_off_before_its_commit_can_be_given_up(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(self: TakeOver, *arguments: object) -> None:
        raise CutOffError

    before = case.loaded.target.names("*")
    with monkeypatch.context() as patch:
        patch.setattr(TakeOver, "commit", cut_off)
        with pytest.raises(CutOffError):
            promotion.promote(case.loaded)
    assert case.seen() == OLD
    promotion.abort(case.loaded)
    # Its version of the table is taken: who was cut off can't make the commit any more.
    taken = "_delta_log/00000000000000000002.json"
    assert case.loaded.target.names("*") == sorted([*before, taken])
    assert pending_switch(case.loaded) is None
    promotion.promote(case.loaded)
    assert case.seen() == NEW


def test_a_promotion_that_is_cut_off_after_its_commit_is_finished(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = TakeOver.commit

    def cut_off(self: TakeOver, *arguments: object) -> None:
        commit(self, *arguments)  # type: ignore[arg-type]
        raise CutOffError

    with monkeypatch.context() as patch:
        patch.setattr(TakeOver, "commit", cut_off)
        with pytest.raises(CutOffError):
            promotion.promote(case.loaded)
    assert case.seen() == NEW
    promotion.finish(case.loaded)
    assert read_serving(case.loaded).generation == "g2"
    promotion.roll_back(case.loaded)
    assert case.seen() == OLD


def test_no_file_is_copied_and_those_that_nobody_needs_are_deleted_by_a_later_promotion(
    case: GenerationCase,
) -> None:
    loaded = case.loaded
    candidate = own_table(loaded, "g2")
    [file] = [name for name in candidate.names("*.parquet") if "_delta_log" not in name]
    before = loaded.target.names("*.parquet")
    promotion.promote(loaded)
    assert loaded.target.names("*.parquet") == before
    assert paths_of(open_table(loaded.target)) == [f"_generations/g2/{file}"]
    begin(loaded)
    case.run({7: 7})
    promotion.promote(loaded)
    # A rollback to g2 needs it.
    assert candidate.exists(file)
    begin(loaded)
    case.run({8: 8})
    promotion.promote(loaded)
    # Readers of the version before may still be at it.
    assert candidate.exists(file)
    forget_removed_files_at_once(loaded.target)
    begin(loaded)
    case.run({9: 9})
    promotion.promote(loaded)
    assert not candidate.exists(file)
    assert case.seen() == {9: 9}
    promotion.roll_back(loaded)
    assert case.seen() == {8: 8}


def forget_removed_files_at_once(table: Folder) -> None:
    """Let VACUUM's rule hold for no time at all."""
    settings = {"delta.deletedFileRetentionDuration": "interval 0 hours"}
    open_table(table).alter.set_table_properties(settings)


def test_a_discard_during_a_promotion_is_refused_and_deletes_nothing(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = promotion.finish

    def promoted_meanwhile(loaded: LoadedPipeline) -> bool:
        done = finish(loaded)
        switch = Switch(to="g2", past="g1", at_ms=1, is_rollback=False)
        loaded.state.put_if_absent(Switch.NAME, switch)
        return done

    with monkeypatch.context() as patch:
        patch.setattr(promotion, "finish", promoted_meanwhile)
        with pytest.raises(StateError, match="is under way"):
            discard(case.loaded)
    promotion.finish(case.loaded)
    assert case.seen() == NEW


def test_a_discarded_generation_leaves_nothing_behind(case: GenerationCase) -> None:
    assert discard(case.loaded) == "g2"
    assert [each.name for each in generations(case.loaded)] == ["g1"]
    assert case.loaded.state.folder("g2").names("*") == []
    assert own_table(case.loaded, "g2").names("*") == []
    assert case.seen() == OLD
    begin(case.loaded)
    case.run(NEW)
    promotion.promote(case.loaded)
    assert case.seen() == NEW
