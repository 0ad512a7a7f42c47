"""What the pipeline that computes the rows of a range has of the one whose table it is."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hybrid_extensions.ranges import backfill as ranges
from hybrid_extensions.ranges import side_pipeline
from hybrid_extensions.ranges.metadata import replaced
from hybrid_extensions.ranges.range_scope import RangeScope
from hybrid_extensions.ranges.table.replace_range import Replaced, Replacement
from orchestration.chain import ChainRun
from sources.config.loader import LoadedPipeline
from sources.planning.event_windows import Interval
from tests.orchestration.generations.generation_case import GenerationCase

RULES = {"sound": {"check": "v > 0", "on_violation": "drop"}}


def test_rows_that_rules_leave_out_are_left_out_of_a_range_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, seen = GenerationCase(tmp_path), list[LoadedPipeline]()
    case.write(rules=RULES)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"id": 1, "at": "2023-12-01T01:00:00Z", "v": 0}\n')
    case.run({1: 10})

    def chain(run: ChainRun) -> None:
        seen.append(run.loaded)

    monkeypatch.setattr(side_pipeline, "run_chain", chain)
    monkeypatch.setattr(Replacement, "run", lambda *_: None)
    since, until = (datetime(2023, 12, day, tzinfo=UTC) for day in (1, 2))
    ranges.backfill(case.loaded, since, until, "run")
    [side] = seen
    assert side.pipeline.row_rules == case.loaded.pipeline.row_rules
    assert side.pipeline.rules


def test_of_a_range_without_rows_it_says_that_nothing_changed() -> None:
    since, until = (datetime(2020, 1, day, tzinfo=UTC) for day in (1, 2))
    scope = RangeScope(since, until, None, Interval(since, until))
    done = ranges.RangeResult(scope, "g1", Replaced(0, 0, 0))
    assert done.is_empty
    assert done.text == (
        "From 2020-01-01T00:00:00Z until 2020-01-02T00:00:00Z: neither the files nor the table "
        "have rows. The table stays as it is."
    )
    again = ranges.RangeResult(scope, "g1", Replaced(0, 0, 0), is_repeated=True)
    assert not again.is_empty


def test_numbers_of_several_ranges_say_whose_they_are() -> None:
    since, until = (datetime(2020, 1, day, tzinfo=UTC) for day in (1, 3))
    scope = RangeScope(since, until, None, Interval(since, until))
    done = ranges.RangeResult(scope, "g1", Replaced(288, 288, 0))
    assert "recomputed" not in replaced(done)
    assert "of all 2 ranges of the run" in str(replaced(done, 2)["recomputed"])
