"""Backfills of ranges, promotions and rollbacks of one table never run at the same time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.comparison.keeping_audits import keep_audit
from hybrid_extensions.generations.files.take_over import TakeOver
from hybrid_extensions.generations.lifecycle import discard
from hybrid_extensions.generations.switch import promotion
from hybrid_extensions.generations.switch.lock import SwitchHolder, hold_switch_lock_in_turn
from hybrid_extensions.ranges import backfill as ranges
from hybrid_extensions.ranges import side_pipeline
from hybrid_extensions.ranges.table.replace_range import Replacement
from orchestration.comparison.kept_audit import last_audit
from orchestration.comparison.report import AuditReport, InputRows
from sources.errors import InputError, StateError
from sources.generations import acting_on
from sources.serving import pending_switch, read_serving
from spark_jobs.run_state.table_locks import is_switching
from tests.hybrid_extensions.generations.test_generations import NEW, OLD, two
from tests.orchestration.generations.generation_case import GenerationCase

SINCE, UNTIL = (datetime(2023, 12, day, tzinfo=UTC) for day in (1, 2))
COUNTS = (
    "expected",
    "found",
    "missing",
    "duplicated",
    "different",
    "unexpected",
    "ambiguous",
)
RANGE = "backfill from 2023-12-01T00:00:00Z until 2023-12-02T00:00:00Z"


@pytest.fixture
def case(tmp_path: Path) -> GenerationCase:
    """Two generations, and a file of history with a row of the range."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"id": 1, "at": "2023-12-01T01:00:00Z", "v": 1}\n')
    return two(tmp_path)


def during_backfill(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]
) -> None:
    """Backfill a range without Spark, and act while its files would be read."""
    monkeypatch.setattr(side_pipeline, "run_chain", lambda _: act())
    monkeypatch.setattr(Replacement, "run", lambda *_: None)
    ranges.backfill(case.loaded, SINCE, UNTIL, "run")


def test_a_verdict_from_before_a_backfill_says_so_until_the_next_audit(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = AuditReport(
        pipeline="events",
        **dict.fromkeys(COUNTS, 0),
        examples={},
        input_rows=InputRows({}, 0),
        ledger=[],
        bad_records=[],
        unchecked=[],
        notes=[],
        seconds=1.0,
    )
    serving = acting_on(case.loaded, "g1")
    keep_audit(serving, report)
    assert audit_text(case).startswith("The table is right: 0 rows, each as DuckDB computes it")
    during_backfill(case, monkeypatch, lambda: None)
    told = audit_text(case)
    assert told.startswith("The table was right: 0 rows, each as DuckDB computed it")
    assert f"UTC, before the {RANGE} (" in told
    assert told.endswith("UTC); not audited since.")
    keep_audit(serving, report)
    assert "The table is right" in audit_text(case)


def audit_text(case: GenerationCase) -> str:
    """What the status, the card and the check of the table say of the last audit."""
    kept = last_audit(case.loaded)
    assert kept is not None
    return kept.text


@pytest.mark.parametrize("is_served", [False, True], ids=["promotion", "rollback"])
def test_during_a_backfill_readers_keep_their_generation_and_who_asks_is_told_what_runs(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch, is_served: bool
) -> None:
    if is_served:
        promotion.promote(case.loaded)
    change = promotion.roll_back if is_served else promotion.promote
    serving, refused = read_serving(case.loaded).generation, list[StateError]()

    def meanwhile() -> None:
        with pytest.raises(StateError) as caught:
            change(case.loaded)
        refused.append(caught.value)
        assert pending_switch(case.loaded) is None, "nothing was begun"

    during_backfill(case, monkeypatch, meanwhile)
    [error] = refused
    kind = "rollback of g1" if is_served else "promotion of g2"
    assert error.message.startswith(f"The {kind} can't begin: another process is changing")
    assert f"It is process {os.getpid()} on " in error.message
    step = "step 1 of 2: computing the rows of the range from the files."
    assert error.message.endswith(f": {RANGE}, {step}")
    assert error.hint.startswith("Wait until that has ended, then try again.")
    assert error.hint.endswith(
        "no row of its range is replaced before its one commit, and the backfill can be repeated."
    )
    assert error.transient
    assert read_serving(case.loaded).generation == serving
    # Once it has ended, nothing stands in the way.
    change(case.loaded)
    assert case.seen() == (OLD if is_served else NEW)


def test_a_candidate_is_not_discarded_and_not_stopped_during_a_backfill(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile() -> None:
        with pytest.raises(StateError, match="The discard of the newest generation can't begin"):
            discard(case.loaded)

    during_backfill(case, monkeypatch, meanwhile)
    assert discard(case.loaded) == "g2"


def test_during_a_promotion_no_backfill_begins(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, refused = TakeOver.commit, list[StateError]()

    def meanwhile(self: TakeOver, *arguments: Any) -> None:
        with pytest.raises(StateError) as caught:
            ranges.backfill(case.loaded, SINCE, UNTIL, "run")
        refused.append(caught.value)
        commit(self, *arguments)

    monkeypatch.setattr(TakeOver, "commit", meanwhile)
    promotion.promote(case.loaded, by="Ada")
    [error] = refused
    assert error.message.startswith(f"The {RANGE} can't begin: another process is changing")
    assert "promotion of g2, requested by Ada, step 2 of 5" in error.message
    assert not (case.folder / "state/events/g1/ranges").exists(), "nothing was left behind"
    assert case.seen() == NEW


def test_a_backfill_over_an_interrupted_promotion_names_both_ways_on(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TakeOver, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            promotion.promote(case.loaded)
    with pytest.raises(StateError, match="a promotion is under way") as refused:
        ranges.backfill(case.loaded, SINCE, UNTIL, "run")
    assert "`hybrid generation abort P`" in refused.value.hint
    promotion.finish(case.loaded)
    assert case.seen() == NEW


def test_a_range_that_is_refused_frees_the_table(case: GenerationCase) -> None:
    with pytest.raises(InputError, match="is empty"):
        ranges.backfill(case.loaded, UNTIL, SINCE, "run")
    assert not is_switching(case.loaded.state)
    assert case.loaded.state.read(SwitchHolder.NAME, SwitchHolder) is None


def test_backfills_take_turns_and_the_one_that_waits_says_for_what(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybrid_extensions.generations.switch.lock.POLL_S", 0.01)
    said, is_told, order = list[str](), threading.Event(), list[str]()

    def say(text: str) -> None:
        said.append(text)
        is_told.set()

    def second() -> None:
        with hold_switch_lock_in_turn(case.loaded, "backfill B", say):
            order.append("B")

    waits = threading.Thread(target=second)
    with hold_switch_lock_in_turn(case.loaded, "backfill A", say):
        waits.start()
        assert is_told.wait(60)
        order.append("A")
    waits.join(60)
    assert order == ["A", "B"]
    [told] = said
    told_so = "The backfill B waits until another backfill or upkeep of the table has ended. It"
    assert told.startswith(told_so)
    assert told.endswith(": backfill A.")
