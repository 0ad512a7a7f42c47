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
from hybrid_extensions.generations.switch.group_switch import promote_group
from sources.errors import StateError
from sources.generations import begin
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.plan import make_plan
from sources.serving import own_table, pending_switch, read_serving
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
        patch.setattr(group_steps, "_require_running", lambda _: None)
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
        patch.setattr(group_steps, "run_control", running)
        with pytest.raises(StateError, match="Nothing was promoted"):
            row.promote()
    assert row.seen() == [OLD, OLD]
    assert [pending_switch(each.loaded) for each in (row.first, row.second)] == [None, None]
