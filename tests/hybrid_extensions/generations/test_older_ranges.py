"""Ranges that were recomputed from files which a candidate has read before they were corrected."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from hybrid_extensions.generations import lifecycle
from hybrid_extensions.generations.switch import promotion
from hybrid_extensions.generations.switch.older_ranges import find_older_ranges
from sources.errors import StateError
from sources.generations import begin
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from sources.serving import read_serving
from sources.state.action_log import recorded
from tests.hybrid_extensions.generations.test_generations import NEW, OLD
from tests.orchestration.generations.generation_case import END, GenerationCase

SINCE, UNTIL = END.isoformat(), (END + timedelta(days=1)).isoformat()


class Recomputed:
    """A pipeline with a candidate; the serving generation's ranges are recomputed."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "in" / "1.json"
        self.file.parent.mkdir()
        self.correct(1)
        self.case = GenerationCase(folder)
        make_plan(self.case.loaded)
        self.case.run(OLD)
        self.backfill()
        begin(self.case.loaded)
        make_plan(self.case.loaded)
        self.case.run(NEW)

    @property
    def candidate(self) -> PipelineContext:
        return PipelineContext.require(self.case.loaded)

    def correct(self, value: int) -> None:
        self.file.write_text(json.dumps({"id": 1, "at": END.isoformat(), "v": value}) + "\n")

    def backfill(self, generation: str = "g1", since: str = SINCE) -> None:
        of = {"since": since, "until": UNTIL}
        with recorded(self.case.loaded.state, "backfill", None, generation, of):
            pass


def test_a_promotion_warns_that_readers_would_get_rows_of_before_a_correction(
    tmp_path: Path,
) -> None:
    made, said = Recomputed(tmp_path), list[str]()
    assert find_older_ranges(made.candidate) is None, "planned after the range was recomputed"
    made.correct(1000)
    assert find_older_ranges(made.candidate) is None, "nobody has recomputed the range"
    made.backfill()
    promotion.promote(made.case.loaded, say=said.append)
    [warning] = [each for each in said if each.startswith("Warning: Ranges of g1")]
    assert f"({SINCE}/{UNTIL})" in warning
    assert f"{made.file} was rewritten" in warning
    assert f"backfill {made.case.loaded.path} --range={SINCE}/{UNTIL}" in warning
    assert read_serving(made.case.loaded).generation == "g2"


def test_a_candidate_that_has_read_the_files_as_they_are_is_not_held_up(tmp_path: Path) -> None:
    made, first = Recomputed(tmp_path), (END - timedelta(days=1)).isoformat()
    made.backfill(since=first)
    for _ in range(70):
        made.backfill()
    assert find_older_ranges(made.candidate) is None
    # Also beyond the entries that are looked at first.
    made.correct(1000)
    found = find_older_ranges(made.candidate)
    assert found is not None
    assert found.message.count(SINCE) == 1
    assert f"({first}/{UNTIL}, {SINCE}/{UNTIL})" in found.message


def test_a_rerun_leaves_it_to_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, said = Recomputed(tmp_path), list[str]()
    made.correct(1000)
    made.backfill()
    monkeypatch.setattr(lifecycle, "run_chain", lambda _: None)
    with pytest.raises(StateError, match="g2 is not promoted, and stays a candidate") as caught:
        lifecycle.rerun(made.case.loaded, promote=True, rows_at_least=0.5, say=said.append)
    assert caught.value.hint.startswith("Promote it nevertheless: `hybrid generation promote P`.")
    assert read_serving(made.case.loaded).generation == "g1"
