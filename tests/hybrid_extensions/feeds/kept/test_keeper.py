"""Deliveries of a feed get into their table exactly once, whatever fails."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.feeds.kept import keeper
from hybrid_extensions.feeds.kept.kept_table import KeptTable
from sources.common.times import now_ms
from sources.errors import InputError, RunError, StateError
from tests.hybrid_extensions.feeds.feed_case import row
from tests.hybrid_extensions.feeds.kept.kept_case import Kept, at
from tests.services.lake import lake

DAY_MS = 86_400_000


class Killed(BaseException):
    """The process ends here: nothing after it is done."""


@pytest.fixture
def case(tmp_path: Path) -> Kept:
    made = Kept(tmp_path)
    made.write(row(n) for n in range(3))
    return made


def killed(monkeypatch: pytest.MonkeyPatch, *, after_append: bool) -> None:
    """Let the next delivery end before, or right after, its rows are in their table."""
    append = KeptTable.append

    def ended(*given: Any) -> None:
        monkeypatch.setattr(KeptTable, "append", append)
        if after_append:
            append(*given)
        raise Killed

    monkeypatch.setattr(KeptTable, "append", ended)


def test_each_delivery_is_kept_with_its_times(case: Kept) -> None:
    begun_ms = now_ms()
    case.deliver()
    case.write([row(5, 1), row(1, 1)])
    case.delete("id = 2")
    case.deliver()
    assert case.short() == [
        (1, "load", 1, 0, 0, False, None),
        (1, "load", 1, 1, 0, False, None),
        (1, "load", 1, 2, 0, False, None),
        (2, "changes", 3, 1, 1, False, False),
        (2, "changes", 3, 2, None, True, False),
        (2, "changes", 3, 5, 1, False, True),
    ]
    load, changed = case.kept[0], case.kept[-1]
    assert load["feed_committed_at"] is None
    assert at(begun_ms) <= load["feed_begun_at"] <= load["feed_delivered_at"]
    # The oldest commit that was delivered.
    commits = {each["version"]: each["timestamp"] for each in case.table.history()}
    assert changed["feed_committed_at"] == at(commits[2])
    assert load["feed_delivered_at"] <= changed["feed_begun_at"] <= changed["feed_delivered_at"]
    assert changed["feed_delivered_at"] <= at(now_ms())
    assert changed["feed_day"] == changed["feed_delivered_at"].date()
    assert not list((case.folder / "kept" / "_pending").iterdir())


def test_a_version_without_a_change_is_not_kept(case: Kept) -> None:
    case.deliver()
    case.table.optimize.compact()
    case.own("first")
    case.deliver()
    case.write([row(1, 1)])
    case.deliver()
    assert [each[:2] for each in case.short()] == [(1, "load")] * 3 + [(2, "changes")]


@pytest.mark.parametrize("after_append", [False, True])
@pytest.mark.parametrize("kind", ["load", "changes"])
def test_a_delivery_is_kept_once_if_the_process_ends_between_sink_and_table(
    case: Kept, monkeypatch: pytest.MonkeyPatch, kind: str, after_append: bool
) -> None:
    if kind == "changes":
        case.deliver()
        case.write([row(1, 1)])
    killed(monkeypatch, after_append=after_append)
    with pytest.raises(Killed):
        case.deliver()
    ended_ms = now_ms()
    # What the follower has to deliver then has nothing of it.
    case.write([row(1, 2)])
    case.deliver()
    before = [(1, "load", 1, n, 0, False, None) for n in range(3)]
    lost = [] if kind == "load" else [(2, "changes", 2, 1, 1, False, False)]
    number = len(lost) + 2
    assert case.short() == [*before, *lost, (number, "changes", number, 1, 2, False, False)]
    found = next(each for each in case.kept if each["feed_kind"] == kind)
    assert found["feed_begun_at"] <= at(ended_ms)
    if not after_append:
        # That is when the sink was found to have it.
        assert found["feed_delivered_at"] >= at(ended_ms)


def test_what_the_sink_did_not_get_is_not_kept(case: Kept) -> None:
    case.deliver()
    case.write([row(1, 1)])
    case.fail(0)
    with pytest.raises(RunError):
        case.deliver()
    failed_ms = now_ms()
    assert [each[0] for each in case.short()] == [1, 1, 1]
    case.fail(None)
    case.deliver()
    repeated = case.kept[-1]
    assert case.short()[-1] == (2, "changes", 2, 1, 1, False, False)
    # Some of its rows may have been there since the first attempt.
    assert repeated["feed_begun_at"] <= at(failed_ms) <= repeated["feed_delivered_at"]


def test_what_was_delivered_without_being_kept_is_kept_as_a_whole(case: Kept) -> None:
    case.declare(case.plain)
    case.deliver()
    case.declare({**case.plain, "keep": case.keep})
    assert case.deliver().kind == "none"
    whole = [(1, "load", 1, n, 0, False, None) for n in range(3)]
    assert case.short() == whole
    first = case.kept[0]["feed_delivered_at"]
    case.declare(case.plain)
    case.write([row(1, 1)])
    case.deliver()
    case.declare({**case.plain, "keep": case.keep})
    case.write([row(2, 1)])
    case.deliver()
    again = [(2, "load", 2, n, n == 1, False, None) for n in range(3)]
    assert case.short() == [*whole, *again, (3, "changes", 3, 2, 1, False, False)]
    # Which of them the sink had since then is not known.
    next_moment = first + timedelta(milliseconds=1)
    assert {each["feed_begun_at"] for each in case.kept[3:6]} == {next_moment}


def test_another_folder_begins_with_all_rows(case: Kept) -> None:
    case.deliver()
    case.declare({**case.plain, "keep": {**case.keep, "path": "elsewhere"}})
    case.write([row(1, 1)])
    case.deliver()
    case.declare({**case.plain, "keep": case.keep})
    assert len(case.short()) == 3


def test_a_load_without_rows_is_kept_too(case: Kept) -> None:
    case.deliver()
    case.delete("true")
    case.own("second")
    assert case.deliver().kind == "load"
    assert case.kept[-1] | {"feed_delivery": 2, "feed_kind": "load", "id": None} == case.kept[-1]


def test_old_deliveries_are_removed(case: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    case.declare({**case.plain, "keep": {**case.keep, "days": 2}})
    for days in (3, 2, 0):
        now = now_ms() - days * DAY_MS
        monkeypatch.setattr(keeper, "now_ms", lambda now=now: now)
        for n in (1, 2):
            case.write([row(n, days)])
            case.deliver()
    kept = {each["feed_day"] for each in case.kept}
    today = at(now_ms()).date()
    assert kept == {today - timedelta(days=2), today}
    assert len(case.short()) == 4


def test_what_fails_after_a_delivery_was_kept_does_not_say_that_it_was_not(
    case: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "vacuum", full)
        with pytest.raises(InputError, match=r"removed: no space.*again with the next delivery"):
            case.deliver()
    assert len(case.short()) == 3
    case.write([row(1, 1)])
    case.deliver()
    assert len(case.short()) == 4


@pytest.mark.slow
def test_it_may_be_in_an_object_store(tmp_path: Path) -> None:
    with lake("s3", tmp_path) as move:
        moved: dict[str, Any] = {"sink": {"path": "kept"}, "state": "state"}
        move(moved)
        case = Kept(tmp_path, move, path=moved["sink"]["path"])
        case.write(row(n) for n in range(3))
        case.deliver()
        case.write([row(1, 1)])
        case.deliver()
        case.train([(n, 0, at(0)) for n in range(3)])
        found = case.served()
        assert (found.agreement.changes, found.agreement.changes_equal) == (4, 3)


def test_one_follower_at_a_time_keeps(case: Kept) -> None:
    with case.follower() as first:
        first.deliver()
        with pytest.raises(StateError, match="Another follower feeds `own` now"):
            case.deliver()


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"id": "int64"}, "is not one of deliveries of feed `delays.own`"),
        ({}, "column `n` is int there, and bigint now"),
    ],
)
def test_a_table_that_can_t_take_deliveries_is_refused_before_the_sink_gets_them(
    case: Kept, columns: dict[str, str], told: str
) -> None:
    if columns:
        write_deltalake(case.folder / "kept", pa.table({"id": [1]}))
    else:
        case.deliver()
        rows = case.table.to_pyarrow_table()
        number = rows.column_names.index("n")
        wide = rows.set_column(number, "n", rows["n"].cast(pa.int64()))
        write_deltalake(case.target, wide, mode="overwrite", schema_mode="overwrite")
    calls = case.folder / "calls.jsonl"
    before = calls.read_text() if calls.exists() else None
    with pytest.raises(InputError, match=told):
        case.deliver()
    assert (calls.read_text() if calls.exists() else None) == before


def test_a_column_with_a_name_of_the_table_s_own_is_refused(case: Kept) -> None:
    rows = case.table.to_pyarrow_table()
    named = rows.append_column("feed_day", rows["day"])
    write_deltalake(case.target, named, mode="overwrite", schema_mode="overwrite")
    case.declare({**case.plain, "columns": ["n", "feed_day"], "keep": case.keep})
    with pytest.raises(InputError, match="delivers a column `feed_day`"):
        case.deliver()
    assert not (case.folder / "calls.jsonl").exists()
