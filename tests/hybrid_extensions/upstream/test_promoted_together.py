"""A candidate that follows another one is promoted with it, and reads on in its target."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from hybrid_extensions.generations.files.take_over import TakeOver
from hybrid_extensions.generations.switch import group_followers, group_steps, promotion
from hybrid_extensions.generations.switch.group_members import candidates_of
from hybrid_extensions.generations.switch.group_switch import promote_group, roll_back_group
from hybrid_extensions.generations.switch.readiness import require_input
from hybrid_extensions.generations.switch.steps import context_of
from sources.errors import InputError, StateError
from sources.generations import begin
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.plan import make_plan
from sources.serving import own_table, pending_switch, read_serving
from sources.state.generation import read_generation
from spark_jobs.run_state.heartbeat import Heartbeat, heartbeat_name
from tests.hybrid_extensions.generations.test_generations import NEW, OLD, two
from tests.orchestration.generations.generation_case import GenerationCase

AT = datetime(2024, 1, 1, tzinfo=UTC)
TABLE = {
    "type": "table",
    "name": "history",
    "pipeline": "../first/events.yaml",
    "discovery_interval": "1 s",
}


class Row:
    """Two pipelines in a row, each with a generation that serves and a candidate.

    The second one's candidate reads the table of a generation of the first one.
    """

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, generation: str | None
    ) -> None:
        # No run is started here.
        monkeypatch.setattr(group_steps, "require_ready", lambda _: None)
        monkeypatch.setattr(promotion, "require_ready", lambda _: None)
        monkeypatch.setattr(group_steps, "start", lambda *_: None)
        monkeypatch.setattr(promotion, "start", lambda *_: None)
        for name in ("first", "second"):
            (folder / name).mkdir()
        self.first, self.second = (
            GenerationCase(folder / "first"),
            GenerationCase(folder / "second"),
        )
        for case in (self.first, self.second):
            case.run(OLD, at=AT)
        begin(self.first.loaded)
        self.first.run(NEW, at=AT)
        of = {} if generation is None else {"generation": generation}
        self.second.write(sources=[TABLE | of])
        begin(self.second.loaded)
        make_plan(self.second.loaded)
        self.second.run(NEW, at=AT)
        self.commits(1)

    def commits(self, files: int) -> None:
        """The second one's run has committed the rows of so many files."""
        beat = {"launch_id": "l", "pid": 1, "host": "h", "source": "history", "at_ms": 1}
        beat |= {"phase": "unbounded", "state": "stopped", "batches": 1, "splits_done": files}
        generation = self.second.loaded.require_generation()
        generation.replace(heartbeat_name("history"), Heartbeat.model_validate(beat))

    @property
    def follower(self) -> GrowingFolder:
        """What the second one's newest generation reads next."""
        return GrowingFolder(PipelineContext.require(self.second.loaded))

    def arrive(self, number: int) -> None:
        """One more row in the table that the first one's newest generation writes to."""
        at = pa.array([AT], pa.timestamp("us", "UTC"))
        rows = pa.table({"id": [number], "v": [number], "at": at})
        self.first.append(self.first.loaded.require_generation(), rows, 1)

    def seen(self) -> list[dict[int, int]]:
        return [self.first.seen(), self.second.seen()]

    def promote(self) -> list[str]:
        pipelines = [self.second.loaded, self.first.loaded]
        return [each.generation for each in promote_group(pipelines)]


@pytest.mark.parametrize("kill", [None, "before", "after"])
def test_it_reads_on_after_the_commit_that_put_the_rows_that_it_has_into_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: str | None
) -> None:
    row = Row(tmp_path, monkeypatch, "g2")
    first = row.first.loaded
    assert row.follower.position is not None
    assert row.follower.position.place == own_table(first, "g2").url
    # The one that is followed comes first.
    members = candidates_of([row.second.loaded, first])
    assert [(each.file, each.follows) for each in members] == [
        (str(first.path), None),
        (str(row.second.loaded.path), str(first.path)),
    ]
    if kill is None:
        assert row.promote() == ["g2", "g2"]
    else:
        commit = TakeOver.commit

        def killed(*args: Any) -> None:
            if kill == "after":
                commit(*args)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(TakeOver, "commit", killed)
            with pytest.raises(KeyboardInterrupt):
                row.promote()
        assert promotion.finish(row.second.loaded)
    assert row.seen() == [NEW, NEW]
    assert [read_serving(each.loaded).generation for each in (row.first, row.second)] == ["g2"] * 2
    position = row.follower.position
    assert (position.place, position.version) == (
        first.target.url,
        DeltaTable(first.target.url).version(),
    )
    assert row.follower.undiscovered() == set()
    # What comes to the target is read there, and found once.
    row.arrive(7)
    found = row.follower.discover()
    assert found is not None
    assert found.position is not None
    assert (found.rows, found.position.place) == (1, first.target.url)
    assert row.follower.discover() is None


def test_rows_that_it_has_not_read_refuse_the_promotion_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row(tmp_path, monkeypatch, "g2")
    row.arrive(7)
    with pytest.raises(StateError, match="is not running, and has not read all rows"):
        row.promote()
    assert row.seen() == [OLD, OLD]
    # They are written after the check, by a run that is about to be stopped.
    with monkeypatch.context() as patch:
        patch.setattr(group_steps, "require_running", lambda _: None)
        with pytest.raises(StateError, match="Nothing was promoted"):
            row.promote()
    assert row.seen() == [OLD, OLD]
    assert [pending_switch(each.loaded) for each in (row.first, row.second)] == [None, None]
    assert row.follower.discover() is not None
    row.commits(2)
    assert row.promote() == ["g2", "g2"]


def test_alone_it_is_not_promoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row(tmp_path, monkeypatch, "g2")
    with pytest.raises(StateError, match="g2 can't be promoted alone"):
        promotion.promote(row.second.loaded)
    assert row.seen() == [OLD, OLD]


def test_one_that_follows_what_serves_now_is_refused_in_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row(tmp_path, monkeypatch, None)
    with pytest.raises(StateError, match="whose rows the promotion of g2 replaces"):
        row.promote()
    assert row.seen() == [OLD, OLD]


def test_a_group_without_the_candidate_that_one_of_them_reads_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row(tmp_path, monkeypatch, "g2")
    (tmp_path / "third").mkdir()
    third = two(tmp_path / "third")
    with pytest.raises(StateError, match="g2 can't be promoted with these: its source `history`"):
        promote_group([row.second.loaded, third.loaded])
    assert [*row.seen(), third.seen()] == [OLD, OLD, OLD]


def test_a_live_run_that_is_stuck_is_not_waited_for_while_others_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row(tmp_path, monkeypatch, "g2")
    limits = {"stuck_after": "1 s", "end_stuck_after": "1 s"}
    row.second.write(sources=[TABLE | {"generation": "g2"}], supervision=limits)
    row.arrive(7)
    running = SimpleNamespace(find_running=lambda *_: 1)
    with monkeypatch.context() as patch:
        patch.setattr(group_followers, "run_control", running)
        with pytest.raises(StateError, match="Nothing was promoted"):
            row.promote()
    assert row.seen() == [OLD, OLD]
    assert [pending_switch(each.loaded) for each in (row.first, row.second)] == [None, None]


def again(row: Row) -> None:
    """Both serve by g2, the second one behind by a row; and candidates g3, of which one follows."""
    assert row.promote() == ["g2", "g2"]
    row.arrive(7)
    begin(row.first.loaded)
    row.first.run(OLD, at=AT)
    row.second.write(sources=[TABLE | {"generation": "g3"}])
    begin(row.second.loaded)
    make_plan(row.second.loaded)
    row.second.run(OLD, at=AT)
    row.commits(1)
    assert row.promote() == ["g3", "g3"]


def earlier(row: Row) -> GrowingFolder:
    """What the second one's generation reads next that a rollback returns to."""
    return GrowingFolder(context_of(row.second.loaded, "g2"))


def found_by(folder: GrowingFolder) -> list[int]:
    """How many rows each look of a follower finds, until there are none."""
    rows: list[int] = []
    for _ in range(5):
        found = folder.discover()
        rows += [] if found is None else [found.rows or 0]
    return rows


def test_a_follower_that_is_rolled_back_with_the_table_reads_on_after_the_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row(tmp_path, monkeypatch, "g2")
    again(row)
    with pytest.raises(InputError, match="promotion or rollback of a generation"):
        earlier(row).undiscovered()
    pipelines = [row.second.loaded, row.first.loaded]
    assert [each.generation for each in roll_back_group(pipelines)] == ["g2", "g2"]
    rows = pa.table({"id": [8], "v": [8], "at": pa.array([AT], pa.timestamp("us", "UTC"))})
    row.first.append(read_generation(row.first.loaded.state, "g2"), rows, 2)
    # The row from before the promotion, which it had not read, and the one from after the rollback.
    assert found_by(earlier(row)) == [1, 1]
    # Forward again, as often as people like.
    roll_back_group(pipelines)
    assert row.follower.undiscovered() == set()
    roll_back_group(pipelines)
    assert earlier(row).undiscovered() == set()


def test_a_follower_is_not_rolled_back_to_a_table_that_is_not_there_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row(tmp_path, monkeypatch, "g2")
    again(row)
    before = row.seen()
    with pytest.raises(StateError, match="its live run could not read on") as caught:
        promotion.roll_back(row.second.loaded)
    assert "roll both back: `hybrid generation rollback`" in caught.value.hint
    assert row.seen() == before
    assert pending_switch(row.second.loaded) is None
    # After the table that it follows it can be.
    promotion.roll_back(row.first.loaded)
    promotion.roll_back(row.second.loaded)
    assert found_by(earlier(row)) == [1]


def test_a_rollback_of_both_that_brings_back_other_rows_than_it_has_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row(tmp_path, monkeypatch, "g2")
    again(row)
    begin(row.first.loaded)
    row.first.run(NEW, at=AT)
    promotion.promote(row.first.loaded)
    # It would return to g3 in the first one, and to g2 in the second one.
    with pytest.raises(StateError, match="alone after both were changed together"):
        roll_back_group([row.second.loaded, row.first.loaded])
    assert read_serving(row.second.loaded).generation == "g3"
    to, place = context_of(row.second.loaded, "g2"), row.first.loaded.target.url
    served = read_serving(row.first.loaded).before[-1].version
    for version, said in ((served, "got version"), (0, "the rollback brings back version 0")):
        with pytest.raises(StateError, match=said):
            require_input(to, {place: version})
