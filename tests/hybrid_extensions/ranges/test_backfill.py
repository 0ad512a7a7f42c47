"""What the pipeline that computes the rows of a range has of the one whose table it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.ranges import backfill as ranges
from hybrid_extensions.ranges import side_pipeline
from hybrid_extensions.ranges.metadata import replaced
from hybrid_extensions.ranges.range_scope import RangeScope
from hybrid_extensions.ranges.table.replace_range import Replaced, Replacement
from orchestration.chain import ChainRun
from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport, InputError, StateError
from sources.planning.event_windows import Interval
from sources.planning.plan import make_plan
from sources.serving import Switch
from sources.state.action_log import read_actions
from sources.state.generation import Generation
from sources.state.local_copy import local_copy
from sources.storage.folder import Folder
from spark_jobs.launch.driver_error import DriverError
from tests.orchestration.generations.generation_case import GenerationCase

RULES = {"sound": {"check": "v > 0", "on_violation": "drop"}}


class RangeCase(GenerationCase):
    """A pipeline with a file, whose range is recomputed but for the run of Spark."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
        super().__init__(folder)
        self.write(**changes)
        (folder / "in").mkdir()
        (folder / "in/a.json").write_text('{"id": 1, "at": "2023-12-01T01:00:00Z", "v": 0}\n')
        self.generation = self.run({1: 10})
        self._sides = list[LoadedPipeline]()
        monkeypatch.setattr(side_pipeline, "run_chain", lambda run: self._sides.append(run.loaded))
        monkeypatch.setattr(Replacement, "run", lambda *_: None)

    def recomputed(self) -> list[LoadedPipeline]:
        """The pipelines that have computed the range, this time and before."""
        since, until = (datetime(2023, 12, day, tzinfo=UTC) for day in (1, 2))
        ranges.backfill(self.loaded, since, until, "run")
        return self._sides


def test_rows_that_rules_leave_out_are_left_out_of_a_range_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = RangeCase(tmp_path, monkeypatch, rules=RULES)
    [side] = case.recomputed()
    assert side.pipeline.row_rules == case.loaded.pipeline.row_rules
    assert side.pipeline.rules


def test_a_range_has_the_keys_of_the_sample_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = RangeCase(tmp_path, monkeypatch, sample={"share": 0.5, "by": ["id"]})
    [side] = case.recomputed()
    assert side.pipeline.sample == case.loaded.pipeline.sample


def test_a_machine_that_resumes_it_takes_its_own_copy_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = RangeCase(tmp_path, monkeypatch)
    definition = case.generation.folder("definition").root

    def elsewhere(folder: Folder) -> Path:
        return tmp_path / "gone" if folder.root == definition else local_copy(folder)

    with monkeypatch.context() as patched:
        # As of a state in a store, which each machine copies.
        patched.setattr(side_pipeline, "local_copy", elsewhere)
        case.recomputed()
    [_, side] = case.recomputed()
    assert side.code[0] == definition


def test_files_that_were_rewritten_since_they_were_planned_are_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = RangeCase(tmp_path, monkeypatch)

    def rewritten(run: ChainRun) -> None:
        make_plan(run.loaded)
        message, hint = "in/a.json was rewritten", "Begin a new one: `hybrid generation new P`."
        raise InputError(message, hint)

    monkeypatch.setattr(side_pipeline, "run_chain", rewritten)
    with pytest.raises(InputError, match="was rewritten") as refused:
        case.recomputed()
    assert "recompute it again" in refused.value.hint
    # As of a run of Dagster that is tried again.
    begun = list[Generation | None]()
    monkeypatch.setattr(
        side_pipeline,
        "run_chain",
        lambda run: begun.append(run.loaded.open_generation(create=False)),
    )
    case.recomputed()
    assert begun == [None]


def test_one_that_is_cancelled_while_files_are_read_says_what_became_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, told = RangeCase(tmp_path, monkeypatch), list[str]()

    def cancelled(_: ChainRun) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(side_pipeline, "run_chain", cancelled)
    since, until = (datetime(2023, 12, day, tzinfo=UTC) for day in (1, 2))
    with pytest.raises(KeyboardInterrupt):
        ranges.backfill(case.loaded, since, until, "run", told.append)
    assert told[-1].startswith("Interrupted: the table was not changed. Launch the backfill again")
    [logged] = read_actions(case.loaded.state)
    assert (logged.action, logged.outcome, logged.error) == ("backfill", "failed", "interrupted")


def test_a_promotion_while_the_process_was_suspended_ends_it_before_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = RangeCase(tmp_path, monkeypatch)
    begun = Switch(to="g2", past="g1", at_ms=1, is_rollback=False)

    def run(_: Replacement, before_commit: Callable[[list[str]], None]) -> Replaced:
        # Its lock in a store has expired by then.
        case.loaded.state.replace(Switch.NAME, begun)
        before_commit([])
        return Replaced(0, 0, 0)

    monkeypatch.setattr(Replacement, "run", run)
    with pytest.raises(StateError, match="Generation g2 of `events` is replacing g1"):
        case.recomputed()


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
    # A run that was done and is launched again as the same one has not looked at the files.
    assert "nothing was done" in again.text
    assert "launch a new run" in again.text


def test_of_files_that_are_gone_it_warns_that_the_range_is_empty_now() -> None:
    since, until = (datetime(2020, 1, day, tzinfo=UTC) for day in (1, 2))
    scope = RangeScope(since, until, None, Interval(since, until))
    done = ranges.RangeResult(scope, "g1", Replaced(288, 0, 0))
    assert "Warning: the files have no row of the range any more." in done.text
    assert "Warning" not in ranges.RangeResult(scope, "g1", Replaced(288, 1, 0)).text
    look = ranges.RangeLook(scope, "g1", splits=0, bytes=0)
    assert look.text.endswith("Rows of history that the table has of it would be removed.")
    assert "removed" not in ranges.RangeLook(scope, "g1", splits=1, bytes=9).text


def test_numbers_of_several_ranges_say_whose_they_are() -> None:
    since, until = (datetime(2020, 1, day, tzinfo=UTC) for day in (1, 3))
    scope = RangeScope(since, until, None, Interval(since, until))
    done = ranges.RangeResult(scope, "g1", Replaced(288, 288, 0))
    assert "recomputed" not in replaced(done)
    assert "of all 2 ranges of the run" in str(replaced(done, 2)["recomputed"])


def test_a_file_that_only_spark_finds_damaged_needs_no_new_generation_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = RangeCase(tmp_path, monkeypatch)
    hint = "Restore the file, and run the pipeline again: `hybrid run P`."
    damaged = ErrorReport(kind="input", message="in/a.json can't be read.", hint=hint)
    for reported, is_told in ((damaged, True), (None, False)):

        def ended(_: ChainRun, reported: ErrorReport | None = reported) -> None:
            raise DriverError("history", "with status 1", reported)

        monkeypatch.setattr(side_pipeline, "run_chain", ended)
        with pytest.raises(DriverError, match="with status 1") as refused:
            case.recomputed()
        assert ("recompute it again" in refused.value.hint) is is_told
